"""Who did what: a line of JSON for each request, in the form `audit.k8s.io/v1`, at level Metadata.

`record` only puts down what it was told; a task writes, many lines at once and on a worker. When
the disk is slower than the requests, what waits is bounded, and what is beyond is dropped and counted: a server that
stops answering because of its log would be worse than a gap in it that is known. The same goes for a full disk. Lines
are with the operating system within about `WRITE_EVERY`, and synced only when the log is closed.

An impersonated request is shown with both users. One that wrote something names the object as it is
now, and has annotations by which it is found in the journal: the revision, the decision that asked for it, the trace.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from mainstay.api.annotations import DECISION, MUTATIONS, POLICIES, REVISION, TRACE
from mainstay.api.errors import StatusError
from mainstay.api.headers import DECISION as DECISION_HEADER
from mainstay.env import Disk, tasks, vital
from mainstay.env.disk import DiskFull
from mainstay.env.invariants import broken
from mainstay.http.messages import Request
from mainstay.journal.record import AppliedPolicy
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.request.context import ApiCall
from mainstay.server.request.target import RequestTarget
from mainstay.server.storage.stored import uid_in

RECEIVED: Final = "RequestReceived"
STARTED: Final = "ResponseStarted"
COMPLETE: Final = "ResponseComplete"

WRITE_EVERY: Final = timedelta(milliseconds=100)
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
BATCH_MAX: Final = 5_000

_EVENT_BYTES: Final = 1_000  # About what one takes, besides the texts that the client chose.

_TRACE: Final = slice(3, 35)  # Where a `traceparent` has it.

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode_lines


# None of these can be part of a cycle, so the garbage collector is spared them.


class _User(msgspec.Struct, omit_defaults=True, gc=False):
    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()


class _Object(msgspec.Struct, omit_defaults=True, gc=False, rename="camel"):
    resource: str
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""


class _Event(msgspec.Struct, omit_defaults=True, gc=False, tag_field="kind", tag="Event", rename="camel"):
    """A line. It keeps nothing of the request but texts: the request itself may have a large body."""

    api_version: str
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: _User
    source_ips: tuple[str, ...] = msgspec.field(name="sourceIPs")
    request_received_timestamp: datetime | str
    stage_timestamp: datetime | str
    impersonated_user: _User | None = None
    user_agent: str = ""
    object_ref: _Object | None = None
    response_status: dict[str, Any] | None = None
    annotations: dict[str, str] | None = None


_REASON: Final = "authorization.k8s.io/reason"
_ALLOWED: Final = {"authorization.k8s.io/decision": "allow", _REASON: ""}
_FORBIDDEN: Final = {"authorization.k8s.io/decision": "forbid", _REASON: ""}


class Audit:
    """The log. Make one with `Audit.start`."""

    def __init__(self, disk: Disk, name: str, authenticator: Authenticator) -> None:
        self._disk = disk
        self._name = name
        self._authenticator = authenticator
        self._worker = tasks.Worker("audit")
        self._waiting: list[_Event] = []
        self._waiting_bytes = 0
        self._news = asyncio.Event()
        self._is_torn = False
        self._is_failing = False
        self._writer: asyncio.Task[None] | None = None
        self._written = 0
        self._dropped = 0

    @classmethod
    async def start(cls, disk: Disk, name: str, authenticator: Authenticator) -> "Audit":
        """Append to a file. Raises `OSError`, `DiskFull` if that cannot be done."""
        audit = cls(disk, name, authenticator)
        await audit._worker.run(disk.append, name, b"")
        audit._writer = vital.spawn(audit._write_all(), name="audit-writer")
        return audit

    def record(
        self,
        call: ApiCall,
        code: int,
        received: datetime,
        at: datetime,
        stage: str = COMPLETE,
        error: StatusError | None = None,
    ) -> None:
        """Put down a request, and what it led to. Never waits and never fails."""
        request, user, target = call.request, call.user, call.target
        is_allowed = call.is_allowed or code != 403
        headers = request.headers
        uri = request.target
        agent = headers.get("user-agent") or ""
        size = _EVENT_BYTES + len(uri) + len(agent)
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self._dropped += 1
            return
        sender, acts_as = user, None
        if "impersonate-user" in headers:
            sender, acts_as = self._find_sender(request, user)
        self._waiting_bytes += size
        self._waiting.append(
            _Event(
                "audit.k8s.io/v1",
                "Metadata",
                call.audit,
                stage,
                uri,
                target.verb.value if target is not None else request.method.lower(),
                _User(sender.name, sender.uid, sender.groups),
                (request.peer.host,),
                _time(received),
                _time(at),
                None if acts_as is None else _User(acts_as.name, acts_as.uid, acts_as.groups),
                agent,
                None if target is None else _object(target, call),
                None if stage == RECEIVED else _status(code, error),
                None if code == 401 else _annotations(_ALLOWED if is_allowed else _FORBIDDEN, call),
            )
        )
        self._news.set()

    def count_written(self) -> int:
        """How many lines went into the log."""
        return self._written

    def count_dropped(self) -> int:
        """How many did not."""
        return self._dropped

    async def close(self) -> None:
        """Write what is waiting, and make it durable."""
        if self._writer is not None:
            await tasks.stop(self._writer)
        while self._waiting:
            await self._write_some()
        with contextlib.suppress(OSError, DiskFull):
            await self._worker.run(self._disk.sync, self._name)
        self._worker.close()

    def _find_sender(self, request: Request, user: User) -> tuple[User, User | None]:
        try:
            return self._authenticator.authenticate_sender(request), user
        except StatusError:  # A wrong token. Then no user was impersonated either.
            return user, None

    async def _write_all(self) -> None:
        while True:
            await self._news.wait()
            await tasks.sleep(WRITE_EVERY)
            self._news.clear()
            while self._waiting:
                await self._write_some()

    async def _write_some(self) -> None:
        """Write the next batch. It is off the list before it is written, so that nothing is written twice."""
        batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
        self._waiting_bytes -= sum(_EVENT_BYTES + len(event.request_uri) + len(event.user_agent) for event in batch)
        if self._waiting_bytes < 0 or (self._waiting_bytes and not self._waiting):
            story = {"events": len(self._waiting), "bytes": self._waiting_bytes}
            raise broken("the bytes that wait are those of the events that wait", "audit log", **story)
        writing = self._worker.run(self._write, batch)
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])  # Closing: what has begun is finished, and told apart from what has not.
            self._account(batch, writing.exception())
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the log, requests go on.
            self._account(batch, error)
        else:
            self._account(batch, None)

    def _account(self, batch: list[_Event], error: BaseException | None) -> None:
        if error is None:
            self._written += len(batch)
            if self._is_failing:
                _log.warning("audit log writable again; %d requests are missing", self._dropped)
            self._is_failing = False
            return
        self._dropped += len(batch)
        if not self._is_failing:
            _log.error("cannot write the audit log; requests are missing: %s", error)
        self._is_failing = True

    def _write(self, batch: list[_Event]) -> None:
        lines = _encode(batch)
        # After a failure the last line may have been cut short; the next one must not be glued to it.
        prefix = b"\n" if self._is_torn else b""
        self._is_torn = True
        self._disk.append(self._name, prefix + lines)
        self._is_torn = False


def _object(target: RequestTarget, call: ApiCall) -> _Object:
    kind = target.kind
    if call.writes != 1:  # Of many, none is what the request is about.
        return _Object(kind.plural, target.namespace, target.name, kind.group, kind.version, target.subresource)
    name = target.name or call.key.rpartition("/")[2]
    revision = str(call.revision)
    return _Object(
        kind.plural, target.namespace, name, kind.group, kind.version, target.subresource, uid_in(call.value), revision
    )


def _annotations(given: dict[str, str], call: ApiCall) -> dict[str, str]:
    headers = call.request.headers
    decision = headers.get(DECISION_HEADER) or (call.decision if call.writes == 1 else "")
    trace = headers.get("traceparent")
    revision = call.revision
    admission = call.notes.audit if call.notes is not None else None
    policies = call.notes.policies if call.notes is not None else ()
    mutations = call.notes.mutations if call.notes is not None else ()
    named = policies or mutations
    if not decision and not trace and not revision and not admission and not named and not call.access_reason:
        return given
    found = {**given, _REASON: call.access_reason, **(admission or {})}
    if policies:
        found[POLICIES] = _list_policies(policies)
    if mutations:
        found[MUTATIONS] = _list_policies(mutations)
    if decision:
        found[DECISION] = decision
    if trace:
        found[TRACE] = trace[_TRACE]
    if revision:
        found[REVISION] = str(revision)
    return found


def _list_policies(policies: Iterable[AppliedPolicy]) -> str:
    return ", ".join(f"{each.name} uid={each.uid} revision={each.revision}" for each in policies)


def _status(code: int, error: StatusError | None) -> dict[str, Any]:
    if error is None:
        return {"metadata": {}, "code": code}
    return {name: value for name, value in error.status().items() if name not in ("kind", "apiVersion")}


def _time(at: datetime) -> datetime | str:
    # Readers insist on six digits after the point, which the encoder leaves out when they are all zero.
    return at if at.microsecond else at.isoformat(timespec="microseconds")[:26] + "Z"
