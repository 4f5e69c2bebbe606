"""Many bindings in one request: each its own transaction and revision, each accepted or refused on its own.

    POST /apis/mainstay.dev/v1/bindings
    { "kind": "BindingList", "apiVersion": "mainstay.dev/v1", "scheduler": "scheduler-1a2b", "items": [
        { "metadata": { "namespace": "shop", "name": "web-1", "uid": "…" }, "target": { "name": "node-c12" },
          "observed": 918812, "observedNodes": 918790, "observedReservations": 918001, "strict": false,
          "reservation": "…", "operation": "…", "decision": "…", "cause": "…", "scheduledAt": "2026-01-01T…Z" } ] }

    200 { "kind": "BindingResultList", "apiVersion": "mainstay.dev/v1", "items": [
        { "status": "Bound", "revision": 918820 } |
        { "status": "Refused", "code": 409, "reason": "CapacityChanged", "message": "…" } |
        { "status": "Unknown", "code": 504, "reason": "Timeout", "message": "…" } ] }

Results are in the order of the items. All are begun before any is waited for, so that the store makes them durable
together. `observed` is the revision of the pods, and of the others where they are not named; `scheduler` is who asks
(observed.py). `scheduledAt` is when the node was chosen, which the pod keeps (api/stages.py). They are not a
transaction: some may be bound and others not, also if the answer is lost. A scheduler that sends it has seen what it
decides about, so a Node that is not there is refused.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mainstay.api.annotations import RESERVATION
from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.json_values import UNREADABLE
from mainstay.api.times import format_time, parse_time
from mainstay.env import Clock, tasks
from mainstay.http.messages import Request
from mainstay.journal.record import Subject
from mainstay.server.auth.authorization import User
from mainstay.server.placement.binding import BindingHandler, BindRequest
from mainstay.server.placement.observed import Observed
from mainstay.server.storage.operations import build_operation
from mainstay.server.storage.store_errors import translate_store_error
from mainstay.server.storage.write_context import WriteContext
from mainstay.store.errors import OutcomeUnknown, StoreError

ITEMS_MAX: Final = 500
SCHEDULER_LENGTH_MAX: Final = 128


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = "default"
    uid: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class _Target(msgspec.Struct):
    name: str
    kind: str = "Node"


class _Item(msgspec.Struct):
    metadata: _Metadata
    target: _Target
    observed: int = 0
    observedNodes: int | None = None  # noqa: N815 - as it is called on the wire
    observedReservations: int | None = None  # noqa: N815
    strict: bool = False
    reservation: str = ""
    operation: str = ""
    decision: str = ""
    cause: str = ""
    scheduledAt: str = ""  # noqa: N815


class _List(msgspec.Struct):
    items: list[_Item]
    scheduler: str = ""


class _Result(msgspec.Struct, omit_defaults=True):
    status: str
    revision: int = 0
    code: int = 0
    reason: str = ""
    message: str = ""


class _Results(msgspec.Struct):
    items: Sequence[_Result]
    kind: str = "BindingResultList"
    apiVersion: str = "mainstay.dev/v1"  # noqa: N815 - as it is called on the wire


_decode = msgspec.json.Decoder(_List).decode
_encode = msgspec.json.Encoder().encode


async def bind_all(
    binder: BindingHandler, request: Request, user: User, context: WriteContext, clock: Clock, *, dry_run: bool
) -> bytes:
    """Carry out a request, and the body of its answer. Raises `StatusError` (400) for one that makes no sense."""
    found = _read(request)
    items, scheduler = found.items, found.scheduler
    now = format_time(clock.wall())
    if context.operation is not None:
        raise bad_request("a batch is not one write: name the operation in each of its items")
    results: list[_Result] = [_Result("Unknown")] * len(items)

    async def bind(number: int, item: _Item) -> None:
        try:
            written = await binder.bind(
                _build_request(item, scheduler),
                now,
                _build_context(item, context, request, user, clock),
                dry_run=dry_run,
            )
            results[number] = _Result("Bound", written.revision)
        except StatusError as error:
            results[number] = _refused(error)
            if context.asked is not None and not dry_run:
                metadata = item.metadata
                subject = Subject("pods", metadata.namespace, metadata.name, metadata.uid)
                context.asked.refused(error, subject, item.decision or context.decision)
        except StoreError as error:
            results[number] = _failed(error)

    await tasks.together((bind(number, item) for number, item in enumerate(items)), name="binding")
    return _encode(_Results(results))


def _read(request: Request) -> _List:
    media = (request.headers.get("content-type") or "application/json").partition(";")[0].strip()
    if media != "application/json":
        text = f"unsupported content type {media!r}: a BindingList must be application/json"
        raise StatusError(415, StatusReason.UNSUPPORTED_MEDIA_TYPE, text, {})
    try:
        found = _decode(request.body)
    except UNREADABLE as error:
        raise bad_request(f"request body is not a valid BindingList: {error}") from None
    if len(found.items) > ITEMS_MAX:
        raise bad_request(f"items: too many: {len(found.items)}: must have at most {ITEMS_MAX} items")
    if len(found.scheduler) > SCHEDULER_LENGTH_MAX:  # It is kept in ledgers.
        raise bad_request(f"scheduler: too long: must have at most {SCHEDULER_LENGTH_MAX} characters")
    return found


def _build_request(item: _Item, scheduler: str) -> BindRequest:
    metadata = item.metadata
    if item.target.kind not in ("", "Node") or not item.target.name or not metadata.name:
        raise bad_request("a binding needs the name of a pod, and a target of kind Node with a name")
    _require_time(item.scheduledAt)
    return BindRequest(
        metadata.namespace,
        metadata.name,
        item.target.name,
        metadata.uid,
        metadata.annotations,
        metadata.labels,
        Observed(
            item.observed,
            item.observed if item.observedNodes is None else item.observedNodes,
            item.observed if item.observedReservations is None else item.observedReservations,
            scheduler,
            item.strict,
        ),
        item.reservation or metadata.annotations.get(RESERVATION, ""),
        item.scheduledAt,
    )


def _require_time(text: str) -> None:
    try:
        if text:
            parse_time(text)
    except ValueError as problem:
        raise bad_request(f"scheduledAt: {problem}") from None


def _build_context(item: _Item, whole: WriteContext, request: Request, user: User, clock: Clock) -> WriteContext:
    if not item.operation and not item.decision and not item.cause:
        return whole
    operation = None
    if item.operation:
        about = (request.method, request.target)
        # What is asked for; not which decision asks, and what that has seen.
        asked = _encode((item.metadata, item.target, item.reservation))
        operation = build_operation(item.operation, about, asked, user, clock)
    return WriteContext(
        item.decision or whole.decision,
        item.cause or whole.cause,
        whole.term,
        operation,
        whole.agent_of,
        whole.asked,
    )


def _refused(error: StatusError) -> _Result:
    causes = (error.details or {}).get("causes") or ()
    reason = causes[0]["reason"] if causes else str(error.reason)
    message = causes[0]["message"] if causes else error.message
    return _Result("Refused", code=error.code, reason=reason, message=message)


def _failed(error: StoreError) -> _Result:
    status = "Unknown" if isinstance(error, OutcomeUnknown) else "Refused"
    told = translate_store_error(error)
    return _Result(status, code=told.code, reason=str(told.reason), message=told.message)
