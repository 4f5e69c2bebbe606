"""Asking an API server: every verb, for any kind.

    async with Client(config, env, user_agent="my-controller/1.0") as client:
        pod = await client.get(PODS, "web-0", "default")

Kinds are given by name (`KindName`), objects are plain dicts as JSON has them; typed.py makes more of them. What is
sent twice, and when, is decided in retry_policy.py; what can be raised is in errors.py. The same client talks to our
server and to a Kubernetes one; what only ours understands is ignored there, so do not rely on `operation` and `term`
with it.

No cache: each call asks. Reading often, or many things, is what informers are for.
"""

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from mainstay.api.headers import EPOCH, REPEATED, WARNING
from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_name import KindName
from mainstay.client.call import (
    ACCEPT_ANYTHING,
    ACCEPT_JSON,
    NOTHING_SAID,
    SENT_BY_US,
    Call,
    Pairs,
    PatchType,
    Repeat,
    WriteOptions,
    header_line,
    reading,
    with_query,
    writing,
)
from mainstay.client.config import ClientTls, Config
from mainstay.client.connection import ServerResponse
from mainstay.client.dispatch import CallSender, ImpersonatingSender, RequestCounts, Sender, ServerState
from mainstay.client.errors import Unavailable
from mainstay.client.limits import ClientLimits
from mainstay.client.stream import ResponseStream
from mainstay.client.watch import Watch
from mainstay.env import Env

T = TypeVar("T")

_ESCAPED: Final = re.compile(r"\\(.)")
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


class ListPage(msgspec.Struct, frozen=True):
    """Part of a collection, or all of it."""

    items: list[Object]
    revision: str
    """The resource version of the whole collection. Watch from here."""
    continue_: str
    """For the next page. Empty: this was the last one."""
    remaining: int | None
    """How many are on later pages, if the server says so."""


class RawPage(msgspec.Struct, frozen=True):
    """The same with each item as its JSON."""

    items: list[bytes]
    revision: str
    continue_: str
    remaining: int | None


class Creation(msgspec.Struct, frozen=True):
    """What a create was answered."""

    object: Object
    is_repeated: bool
    """It is the outcome of an earlier request with the same operation id: the object may have changed or gone since."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[Object] | None = None


class _RawList(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_object_decoder = msgspec.json.Decoder(Object)
_list_decoder = msgspec.json.Decoder(_List)
_raw_list_decoder = msgspec.json.Decoder(_RawList)


class Client:
    """Use it as an async context manager, or call `close` in the end. Belongs to the event loop it is used on."""

    def __init__(
        self, config: Config, env: Env, *, user_agent: str = "mainstay", limits: ClientLimits | None = None
    ) -> None:
        """Reads certificates, which blocks for a moment. Raises `BadConfig`. Nothing is asked before the first call."""
        self._limits = limits or ClientLimits()
        self._sender: CallSender = Sender(config, env, user_agent, self._limits)
        self.config = config
        self.on_warning: Callable[[str], None] | None = None
        """Told what the server warns about when something is written, for people who should see it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections, and wait until they are gone. What is still under way gets `Unavailable`."""
        await self._sender.close()

    def show_certificate(self, tls: ClientTls) -> None:
        """Be known by another certificate of the same user, from the next connection on. Open ones stay as they are.
        Not for a client that acts as another user. Raises `BadConfig`."""
        if not isinstance(self._sender, Sender):
            raise TypeError("the certificate is that of the client whose connections these are")
        self._sender.show_certificate(tls)
        self.config = replace(self.config, tls=tls)

    def act_as(self, user: str) -> "Client":
        """A client with the connections of this one, whose requests are those of another user. The server refuses them
        unless its own user may impersonate that one. It need not be closed."""
        other = copy.copy(self)
        other._sender = ImpersonatingSender(self._sender, user)
        return other

    @property
    def counts(self) -> RequestCounts:
        return self._sender.counts

    def servers(self) -> list[ServerState]:
        """How each server is doing, as seen from here."""
        return self._sender.states()

    # Reading.

    async def get(self, kind: KindName, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        """One object, as it is now. Raises `NotFound`."""
        call = Call("GET", kind.path(namespace, _named(name), subresource))
        return _decoded(_object_decoder, call, await self._sender.send(call))

    async def list(
        self,
        kind: KindName,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int | None = None,
        continue_: str = "",
        resource_version: str = "",
        match: str = "",
    ) -> ListPage:
        """Objects of a namespace, or of all. `match` says how `resource_version` is meant: NotOlderThan or Exact.

        Raises `Expired` if the version, or the page, is gone: begin again without it.
        """
        call = _listing(kind, namespace, labels, fields, limit, continue_, resource_version, match)
        listed = _decoded(_list_decoder, call, await self._sender.send(call))
        metadata = listed.metadata
        return ListPage(
            listed.items or [], metadata.resource_version, metadata.continue_, metadata.remaining_item_count
        )

    async def list_raw(
        self,
        kind: KindName,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int | None = None,
        continue_: str = "",
        resource_version: str = "",
        match: str = "",
    ) -> RawPage:
        """The same without taking the items apart: for caches."""
        call = _listing(kind, namespace, labels, fields, limit, continue_, resource_version, match)
        listed = _decoded(_raw_list_decoder, call, await self._sender.send(call))
        metadata = listed.metadata
        items = [bytes(item) for item in listed.items or ()]
        return RawPage(items, metadata.resource_version, metadata.continue_, metadata.remaining_item_count)

    def watch(
        self,
        kind: KindName,
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        bookmarks: bool = True,
        initial_events: bool = False,
        timeout_s: int | None = None,
        accept: str = "",
        opening: str = "",
    ) -> Watch:
        """All changes after a version. With `initial_events` first what is there, then a bookmark that says so.

        `accept` asks for another form of the objects, such as a table's rows. `opening` is what a bookmark has called
        the store that the version is of: raises `PutBack` if it is not that one any more.
        """
        query: Pairs = [("watch", "true")]
        if resource_version:
            query.append(("resourceVersion", resource_version))
        query += _selectors(labels, fields)
        if bookmarks:
            query.append(("allowWatchBookmarks", "true"))
        if initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if timeout_s is not None:
            query.append(("timeoutSeconds", str(timeout_s)))
        lines = header_line("Accept", accept) if accept else ACCEPT_JSON
        if opening:
            lines += header_line(EPOCH, opening)
        return Watch(self._sender, Call("GET", with_query(kind.path(namespace), query), lines), self._limits)

    def stream(self, path: str, query: Pairs) -> ResponseStream:
        """An answer that comes bit by bit, such as a log, as bytes. `path` has to be escaped."""
        return ResponseStream(self._sender, Call("GET", with_query(path, query), ACCEPT_ANYTHING), self._limits)

    # Writing. All return the object as it was stored, and raise `Unavailable` if it is not known what became of it.

    async def create(
        self,
        kind: KindName,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        write: WriteOptions = NOTHING_SAID,
    ) -> Object:
        """A new object; with `subresource`, something that is made of one: a binding, an eviction.

        Raises `AlreadyExists`, `Invalid`.
        """
        return (await self.create_once(kind, obj, namespace, subresource=subresource, write=write)).object

    async def create_once(
        self,
        kind: KindName,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        write: WriteOptions = NOTHING_SAID,
    ) -> Creation:
        """The same, and whether an earlier request of the same operation has made it."""
        metadata = obj.get("metadata") or {}
        name = _named(metadata.get("name", "")) if subresource else ""
        path = kind.path(namespace or metadata.get("namespace", ""), name, subresource)
        body = obj if subresource else _complete(kind, obj)
        call = writing("POST", path, write.query(), body, write)
        response = await self._send_write(call)
        return Creation(_decoded(_object_decoder, call, response), REPEATED.lower() in response.headers)

    async def replace(
        self, kind: KindName, obj: Object, *, subresource: str = "", write: WriteOptions = NOTHING_SAID
    ) -> Object:
        """The object, or a part of it such as its `status`, as it is given here.

        With a `resourceVersion` only if it is still at that one: raises `Conflict` otherwise. Then it may be sent
        twice, and if the first answer was lost, the conflict is with oneself (`may_have_happened`).
        """
        metadata = obj["metadata"]
        path = kind.path(metadata.get("namespace", ""), _named(metadata.get("name", "")), subresource)
        is_conditional = bool(metadata.get("resourceVersion"))
        body = obj if subresource else _complete(kind, obj)
        return await self._write(writing("PUT", path, write.query(), body, write, is_conditional=is_conditional))

    async def patch(
        self,
        kind: KindName,
        name: str,
        namespace: str,
        body: Any,
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002
        subresource: str = "",
        write: WriteOptions = NOTHING_SAID,
    ) -> Object:
        """A change of some fields. `body` is a value, or bytes that are sent as they are."""
        path = kind.path(namespace, _named(name), subresource)
        is_conditional = type in (PatchType.MERGE, PatchType.STRATEGIC) and _has_version(body)
        call = writing("PATCH", path, write.query(), body, write, content_type=type, is_conditional=is_conditional)
        return await self._write(call)

    async def apply(
        self,
        kind: KindName,
        obj: Object,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        write: WriteOptions = NOTHING_SAID,
    ) -> Object:
        """All that `manager` wants of an object, made if it is not there. Raises `Conflict` if others own a part of it,
        unless it is forced."""
        metadata = obj["metadata"]
        path = kind.path(metadata.get("namespace", ""), _named(metadata.get("name", "")), subresource)
        query = [pair for pair in write.query() if pair[0] != "fieldManager"]
        query.append(("fieldManager", manager))
        if force:
            query.append(("force", "true"))
        call = writing(
            "PATCH",
            path,
            query,
            _complete(kind, obj),
            write,
            content_type=PatchType.APPLY,
            is_conditional=_has_version(obj),
        )
        return await self._write(call)

    async def delete(
        self,
        kind: KindName,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_s: int | None = None,
        write: WriteOptions = NOTHING_SAID,
    ) -> Object:
        """Remove an object, or begin to: what comes back is the object while something still holds it, else a Status.

        With a `uid` or a `resource_version` only that one: raises `Conflict` otherwise, and may be sent twice.
        """
        preconditions = {}
        if uid:
            preconditions["uid"] = uid
        if resource_version:
            preconditions["resourceVersion"] = resource_version
        path = kind.path(namespace, _named(name))
        body = _delete_options(preconditions, propagation, grace_s)
        is_conditional = bool(preconditions)
        return await self._write(writing("DELETE", path, _dry_run(write), body, write, is_conditional=is_conditional))

    # Anything else.

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Pairs | Mapping[str, str] = (),  # type: ignore[assignment]
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerResponse:
        """Whatever is not above. Raises `ApiError` for what is no success. Only a GET is ever sent twice after a loss.

        `path` is sent as it is and has to be escaped. `body` is a value to be sent as JSON, or bytes.
        """
        if method not in _METHODS:
            raise ValueError(f"{method} is not a method that this client can send")
        if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError(f"{path!r} is not a path that can be sent")
        given = {name.lower(): value for name, value in (headers or {}).items()}
        if reserved := sorted(SENT_BY_US & given.keys()):
            raise ValueError(f"these headers are the client's own: {', '.join(reserved)}")
        pairs = list(query.items()) if isinstance(query, Mapping) else list(query)
        sent = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        lines = b"" if "accept" in given else ACCEPT_JSON
        if body is not None and "content-type" not in given:
            lines += header_line("Content-Type", "application/json")
        lines += b"".join([header_line(name, value) for name, value in (headers or {}).items()])
        repeat = Repeat.SAFE if method == "GET" else Repeat.UNSAFE
        return await self._sender.send(Call(method, with_query(path, pairs), lines, sent, repeat))

    async def _write(self, call: Call) -> Object:
        return _decoded(_object_decoder, call, await self._send_write(call))

    async def _send_write(self, call: Call) -> ServerResponse:
        response = await self._sender.send(call)
        if self.on_warning is not None:
            for line in response.headers.get(WARNING, "").splitlines():
                self.on_warning(parse_warning(line))
        return response


def parse_warning(header: str) -> str:
    """The text of a header such as `299 - "spec.x is deprecated"`."""
    _, _, quoted = header.partition('"')
    return _ESCAPED.sub(r"\1", quoted.removesuffix('"'))


def _decoded(decoder: "msgspec.json.Decoder[T]", call: Call, response: ServerResponse) -> T:
    try:
        return decoder.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = response.body[:200].decode(errors="replace")
        text = f"{call}: cannot parse the answer ({response.status}): {error}: {shown}"
        raise Unavailable(text, status=response.status, may_have_happened=not call.is_read) from None


def _listing(
    kind: KindName,
    namespace: str,
    labels: str,
    fields: str,
    limit: int | None,
    continue_: str,
    resource_version: str,
    match: str,
) -> Call:
    query = _selectors(labels, fields)
    if limit is not None:
        query.append(("limit", str(limit)))
    if continue_:
        query.append(("continue", continue_))
    if resource_version:
        query.append(("resourceVersion", resource_version))
    if match:
        query.append(("resourceVersionMatch", match))
    return reading(kind.path(namespace), query)


def _selectors(labels: str, fields: str) -> Pairs:
    return [pair for pair in (("labelSelector", labels), ("fieldSelector", fields)) if pair[1]]


def _named(name: str) -> str:
    if not name:
        # The address without a name is that of all objects, and a deletion there would be of all of them.
        raise ValueError("the object has no name")
    return name


def _complete(kind: KindName, obj: Object) -> Object:
    """With what a server needs to know that it is one of this kind."""
    if obj.get("kind") and obj.get("apiVersion"):
        return obj
    return {**obj, "kind": kind.kind, "apiVersion": kind.group_version}


def _has_version(body: Any) -> bool:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("resourceVersion"))


def _dry_run(write: WriteOptions) -> Pairs:
    return [("dryRun", "All")] if write.dry_run else []


def _delete_options(
    preconditions: dict[str, str], propagation: Propagation | None, grace_s: int | None
) -> Object | None:
    options: Object = {}
    if preconditions:
        options["preconditions"] = preconditions
    if propagation is not None:
        options["propagationPolicy"] = str(propagation)
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
