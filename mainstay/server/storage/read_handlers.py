"""Handlers of get and list, the same for stored objects and for those that are made when a client asks for them."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from mainstay.api.errors import not_found
from mainstay.api.headers import EPOCH
from mainstay.api.kind import Kind
from mainstay.env import Clock
from mainstay.http.messages import Answer, Response, StreamResponse, UpgradeResponse
from mainstay.server.auth.authorization import User
from mainstay.server.request import representation
from mainstay.server.request.answers import NO_CACHE, answer_body, answer_pieces
from mainstay.server.request.handlers import ResourceCall
from mainstay.server.request.target import Options, RequestTarget
from mainstay.server.storage.keyspace import build_key
from mainstay.server.storage.reads import Listed
from mainstay.server.storage.selection import Selection, parse_selection
from mainstay.server.watch.session import Outgoing, Watching
from mainstay.server.watch.websocket import over_websocket
from mainstay.store.interface import Entry, MemoryReads


class ObjectReads(Protocol):
    """The store, or what stands in for it."""

    async def get(self, kind: Kind, namespace: str, name: str, options: Options) -> Entry: ...

    async def list(self, selection: Selection, options: Options) -> Listed: ...


class ReadHandlers:
    def __init__(
        self,
        reads_for: Callable[[User], ObjectReads],
        clock: Clock,
        select: Callable[[RequestTarget, Options], Selection] = parse_selection,
    ) -> None:
        """`reads_for` gives what a user can read; `select` which objects a request is about."""
        self._reads_for = reads_for
        self._clock = clock
        self._select = select

    async def get(self, asked: ResourceCall) -> Answer:
        target, options = asked.target, asked.options
        entry = await self._reads_for(asked.user).get(target.kind, target.namespace, target.name, options)
        return answer_entry(asked, entry, self._clock)

    async def list(self, asked: ResourceCall) -> Answer:
        options, kind = asked.options, asked.target.kind
        listed = await self._reads_for(asked.user).list(self._select(asked.target, options), options)
        include = options.get("includeObject", "Metadata")
        pieces = representation.many(asked.form, kind, listed.entries, listed.metadata, self._clock.wall(), include)
        return answer_pieces(pieces, options, listed.warnings)


class GetNow:
    """Answers a plain get at once, from a store that has everything in memory."""

    def __init__(self, memory: MemoryReads, clock: Clock) -> None:
        self._memory = memory
        self._clock = clock

    def __call__(self, asked: ResourceCall) -> Response | None:
        if "resourceVersion" in asked.options:
            return None
        target = asked.target
        kind = target.kind
        entry = self._memory.look(build_key(kind, target.namespace, target.name))
        if entry is None:
            raise not_found(kind.plural, kind.group, target.name)
        return answer_entry(asked, entry, self._clock)


class WatchHandler:
    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    async def watch(self, asked: ResourceCall) -> Answer:
        selection = parse_selection(asked.target, asked.options)
        epoch = asked.request.headers.get(EPOCH) or ""
        return answer_watch(asked, self._watching.open(selection, asked.form, asked.options, epoch))


def answer_entry(asked: ResourceCall, entry: Entry, clock: Clock) -> Response:
    include = asked.options.get("includeObject", "Metadata")
    body = representation.one(asked.form, asked.target.kind, entry.value, entry.revision, clock.wall(), include)
    return answer_body(200, body, asked.options)


def answer_watch(asked: ResourceCall, run: Callable[[Outgoing], Awaitable[None]]) -> Answer:
    """A stream of lines, or a WebSocket for a client that asks for one."""
    headers = asked.request.headers
    if (headers.get("upgrade") or "").lower() == "websocket":
        offered = (headers.get("sec-websocket-protocol") or "").split(",")[0].strip()
        return UpgradeResponse(over_websocket(run), offered or None)
    return StreamResponse(200, run, headers=(NO_CACHE,))
