"""Telling the server which pods go to which nodes: many in one request, each accepted or refused on its own.

Ours takes a list of bindings (`POST /apis/mainstay.dev/v1/bindings`) and answers for each, in order. A server that has
no such address, as Kubernetes, gets one plain binding for each pod; it knows neither the ledger's refusals nor
operation ids, so there a conflict only says that another writer was first.

An answer is one of four: `Bound`, `BindRefused` with a cause to act on, `NotDone` if nothing was tried, `Unknown` if it
may or may not have happened. Nothing is sent twice here; bindings.py has what to do about the unknown.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mainstay.api.annotations import RESERVATION
from mainstay.api.causes import BindingCause
from mainstay.api.headers import CAUSE, DECISION, OBSERVED, OPERATION, TERM
from mainstay.api.kind_names import NODES, PODS, RESERVATIONS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, BadRequest, Conflict, Fenced, NotFound
from mainstay.journal.record import ViewPart

BATCHES: Final = "/apis/mainstay.dev/v1/bindings"
BATCH_MAX: Final = 500  # More are not taken by a server.

_PLAIN_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class SeenRevisions:
    """Up to which revision of each kind a decision has seen what is on nodes. 0: the server has no such kind."""

    pods: int
    nodes: int = 0
    reservations: int = 0


def find_seen(view: Iterable[ViewPart]) -> SeenRevisions:
    revisions = {part.kind: part.revision for part in view}
    return SeenRevisions(*(revisions.get(kind.text, 0) for kind in (PODS, NODES, RESERVATIONS)))


@dataclass(frozen=True, slots=True)
class Bind:
    """What is to be sent."""

    namespace: str
    name: str
    uid: str
    node: str
    observed: SeenRevisions
    operation: str
    decision: str
    cause: str = ""
    reservation: str = ""
    is_strict: bool = False
    """To be refused if the node has changed since, by what was not seen: for what is exclusive."""
    scheduled_at: str = ""
    """When the node was chosen."""


@dataclass(frozen=True, slots=True)
class Bound:
    revision: int


@dataclass(frozen=True, slots=True)
class BindRefused:
    """It was tried, and this request did not bind the pod."""

    cause: BindingCause
    message: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """The server could not be asked, or did not take the request."""

    message: str


@dataclass(frozen=True, slots=True)
class Unknown:
    message: str


Answer = Bound | BindRefused | NotDone | Unknown


class _Metadata(msgspec.Struct, omit_defaults=True):
    namespace: str
    name: str
    uid: str


class _Target(msgspec.Struct):
    name: str
    kind: str = "Node"


class _Item(msgspec.Struct, omit_defaults=True):
    metadata: _Metadata
    target: _Target
    observed: int
    operation: str = ""
    decision: str = ""
    cause: str = ""
    reservation: str = ""
    observedNodes: int = 0  # noqa: N815 - as it is called on the wire
    observedReservations: int = 0  # noqa: N815
    strict: bool = False
    scheduledAt: str = ""  # noqa: N815


class _Batch(msgspec.Struct, rename="camel"):
    items: list[_Item]
    scheduler: str = ""
    kind: str = "BindingList"
    api_version: str = "mainstay.dev/v1"


class _Result(msgspec.Struct):
    status: str
    revision: int = 0
    code: int = 0
    reason: str = ""
    message: str = ""


class _Results(msgspec.Struct):
    items: list[_Result]


_encode = msgspec.json.Encoder().encode
_decode_results = msgspec.json.Decoder(_Results).decode


class _Made(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Plain(msgspec.Struct):
    metadata: _Made | None = None


_decode_plain = msgspec.json.Decoder(_Plain).decode


class Binder:
    def __init__(self, client: Client, *, term: str = "", scheduler: str = "") -> None:
        """`scheduler` names who decides, and what it assumes: pods that it has bound are no news to it."""
        self._client = client
        self._scheduler = scheduler
        self._headers = {TERM: term} if term else {}
        self._has_batches: bool | None = None
        """None until a server has been asked."""

    async def bind(self, binds: Sequence[Bind]) -> list[Answer]:
        """Send them, at most `BATCH_MAX`. An answer for each, in order. Raises `Fenced`."""
        if self._has_batches is not False:
            answers = await self._batch(binds)
            if answers is not None:
                return answers
        return await self._plainly(binds)

    async def _batch(self, binds: Sequence[Bind]) -> list[Answer] | None:
        """None if the server knows no such thing."""
        body = _encode(_Batch([_item(bind) for bind in binds], self._scheduler))
        try:
            response = await self._client.request("POST", BATCHES, body=body, headers=self._headers)
            results = _decode_results(response.body).items
            if len(results) != len(binds):
                raise ValueError(f"got {len(results)} results for {len(binds)} bindings")
            answers = [_answer(result) for result in results]
        except Fenced:
            raise
        except (NotFound, BadRequest) as error:
            if error.status not in (404, 405) or self._has_batches:
                return [NotDone(str(error))] * len(binds)
            self._has_batches = False
            return None
        except ApiError as error:
            return [_failed(error)] * len(binds)
        except (msgspec.DecodeError, ValueError) as error:
            return [Unknown(f"invalid answer from the API server: {error}")] * len(binds)
        self._has_batches = True
        return answers

    async def _plainly(self, binds: Sequence[Bind]) -> list[Answer]:
        answers: list[Answer] = []
        for start in range(0, len(binds), _PLAIN_AT_ONCE):
            answers += await asyncio.gather(*[self._one(bind) for bind in binds[start : start + _PLAIN_AT_ONCE]])
        return answers

    async def _one(self, bind: Bind) -> Answer:
        annotations = {RESERVATION: bind.reservation} if bind.reservation else {}
        body: dict[str, Any] = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {
                "namespace": bind.namespace,
                "name": bind.name,
                "uid": bind.uid,
                "annotations": annotations,
            },
            "target": {"kind": "Node", "name": bind.node},
        }
        headers = {
            **self._headers,
            OBSERVED: self._describe_observed(bind),
            OPERATION: bind.operation,
            DECISION: bind.decision,
            CAUSE: bind.cause,
        }
        path = PODS.path(bind.namespace, bind.name, "binding")
        try:
            response = await self._client.request("POST", path, body=body, headers=headers)
            version = (_decode_plain(response.body).metadata or _Made()).resource_version
            return Bound(int(version) if version.isdigit() else 0)
        except Fenced:
            raise
        except NotFound as error:
            return BindRefused(BindingCause.POD_GONE, str(error))
        except Conflict as error:
            if error.causes and not error.may_have_happened:
                return BindRefused(_cause(error.causes[0].reason), str(error))
            return await self._find_outcome(bind, str(error))
        except ApiError as error:
            return _failed(error)
        except msgspec.DecodeError as error:
            return Unknown(f"invalid answer from the API server: {error}")

    def _describe_observed(self, bind: Bind) -> str:
        seen = bind.observed
        found = [f"pods={seen.pods}", f"nodes={seen.nodes}"]
        found += [f"reservations={seen.reservations}"] if seen.reservations else []
        found += [f"by={self._scheduler}"] if self._scheduler else []
        return ";".join([*found, "strict"] if bind.is_strict else found)

    async def _find_outcome(self, bind: Bind, message: str) -> Answer:
        """A conflict without a cause: the pod is bound, perhaps by ourselves, or about to go, or another one."""
        try:
            pod = await self._client.get(PODS, bind.name, bind.namespace)
        except NotFound:
            return BindRefused(BindingCause.POD_GONE, message)
        except ApiError:
            return Unknown(message)
        if pod["metadata"]["uid"] != bind.uid or "deletionTimestamp" in pod["metadata"]:
            return BindRefused(BindingCause.POD_DELETED, message)
        if (pod.get("spec") or {}).get("nodeName"):
            return BindRefused(BindingCause.ALREADY_BOUND, message)
        return BindRefused(BindingCause.OTHER, message)


def _item(bind: Bind) -> _Item:
    seen = bind.observed
    return _Item(
        _Metadata(bind.namespace, bind.name, bind.uid),
        _Target(bind.node),
        seen.pods,
        bind.operation,
        bind.decision,
        bind.cause,
        bind.reservation,
        seen.nodes,
        seen.reservations,
        bind.is_strict,
        bind.scheduled_at,
    )


def _answer(result: _Result) -> Answer:
    if result.status == "Bound":
        return Bound(result.revision)
    if result.status != "Refused":
        return Unknown(result.message or f"the API server answered {result.status}")
    if result.code == 404:
        return BindRefused(BindingCause.POD_GONE, result.message)
    if result.code == 409:
        return BindRefused(_cause(result.reason), result.message)
    if result.code == 429 or result.code >= 500:
        return NotDone(result.message)
    return BindRefused(BindingCause.OTHER, result.message or f"the API server answered {result.status} {result.code}")


def _cause(reason: str) -> BindingCause:
    try:
        return BindingCause(reason)
    except ValueError:
        return BindingCause.OTHER


def _failed(error: ApiError) -> Answer:
    if error.may_have_happened:
        return Unknown(str(error))
    return NotDone(str(error))
