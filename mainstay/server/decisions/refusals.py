"""What was refused, as decisions in the journal: by admission, by a quota, at a commit point.

A refusal is an answer of this server that a client cannot change by asking again: a pod that a quota has no room
for, a binding to a node that is full, an eviction that a budget does not allow, a write of a deposed leader. Conflicts
between versions are none: that is how writers take turns. Nor is what a user has no right to: that is in the audit log.

The same refusal again, of the same user for the same reason, within `REPEATED_WITHIN` is counted and not repeated: the
record is written once more in the end, with the number in `attempts`. How many different ones are taken in that time is
bounded; what is beyond is counted as dropped.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED, FENCED, QUOTA_CAUSES, QUOTA_REQUESTED, find_cause
from mainstay.api.errors import StatusError
from mainstay.api.headers import DECISION, TERM
from mainstay.api.json_values import UNREADABLE
from mainstay.api.kinds import REVIEWS
from mainstay.api.quota_refusal import find_quota
from mainstay.env import Clock, tasks
from mainstay.http.messages import Request
from mainstay.journal.record import (
    DecisionRecord,
    Ending,
    Outcome,
    RecordedAction,
    Subject,
    WhyNot,
    WriteResult,
    micros,
)
from mainstay.server.decisions.collector import Collector
from mainstay.server.decisions.counts import DecisionCounts
from mainstay.server.request.context import ApiCall
from mainstay.server.request.target import Options, RequestTarget, Verb

REPEATED_WITHIN: Final = timedelta(seconds=10)
OPEN_MAX: Final = 1_000
"""Different refusals in that time."""

_READS: Final = (Verb.GET, Verb.LIST, Verb.WATCH)
_NO_WRITES: Final = frozenset({"token", "exec", "attach", "portforward", "proxy", "log", "ghosts", "recount"})
_NAME_LENGTH_MAX: Final = 253
_Key = tuple[str, str, str, Subject]


class _Open(msgspec.Struct):
    record: DecisionRecord
    count: int
    since_ns: int


class Refusals:
    """One for each server. `close` writes down what was counted."""

    def __init__(self, collector: Collector, counts: DecisionCounts, clock: Clock, build: str = "") -> None:
        self._build = build
        self._collector = collector
        self._counts = counts
        self._clock = clock
        self._open: dict[_Key, _Open] = {}
        self._waiting: asyncio.Task[None] | None = None

    def note(self, call: ApiCall, error: StatusError, subject: Subject | None = None, decision: str = "") -> None:
        """Note the answer to a request, if it is a refusal. Does not wait and does not fail."""
        request, target = call.request, call.target
        if target is None or not call.is_allowed or not _is_write(target):
            return
        component = find_component(target, error)
        if not component or ("dryRun" in request.query and Options(request.query).all("dryRun")):
            return
        subject = subject or _subject(target, request, error)
        reason = find_cause(error.code, str(error.reason), error.details)
        key = (call.user.name, component, reason, subject)
        known = self._open.get(key)
        if known is not None:
            known.count += 1
            known.record = msgspec.structs.replace(
                known.record, at=micros(self._clock.wall()), audits=(known.record.audits[0], call.audit)
            )
            return
        if len(self._open) >= OPEN_MAX:
            self._counts.dropped("refusals")
            return
        record = self._record(call, target, error, component, reason, subject, decision)
        self._open[key] = _Open(record, 1, self._clock.monotonic_ns())
        self._collector.decided(record)
        if self._waiting is None:
            self._waiting = tasks.spawn(self._settle(), name="count refusals")

    async def close(self) -> None:
        if self._waiting is not None:
            await tasks.stop(self._waiting)
        for key in list(self._open):
            self._end(key)

    async def _settle(self) -> None:
        """Write down what was counted, each when its time is over, until there is none."""
        within_ns = REPEATED_WITHIN // timedelta(microseconds=1) * 1000
        while self._open:
            first = next(iter(self._open))
            left_ns = self._open[first].since_ns + within_ns - self._clock.monotonic_ns()
            if left_ns > 0:
                await tasks.sleep(timedelta(microseconds=left_ns // 1000 + 1))
            else:
                self._end(first)
        self._waiting = None

    def _end(self, key: _Key) -> None:
        done = self._open.pop(key)
        if done.count > 1:
            self._collector.decided(msgspec.structs.replace(done.record, attempts=done.count))

    def _record(
        self,
        call: ApiCall,
        target: RequestTarget,
        error: StatusError,
        component: str,
        reason: str,
        subject: Subject,
        decision: str,
    ) -> DecisionRecord:
        headers = call.request.headers
        at = micros(self._clock.wall())
        # The same request may have several parts that are refused.
        part = f"-{subject.namespace}-{subject.name}" if target.kind.plural == "bindings" else ""
        verb, subresource = str(target.verb), target.subresource or ("binding" if part else "")
        traceparent = headers.get("traceparent") or ""
        is_secret = subject.kind == "secrets"
        return DecisionRecord(
            id=f"{component}-{call.audit}{part}",
            at=at,
            component=component,
            build=self._build,
            subject=subject,
            outcome=Outcome(Ending.REFUSED, reason, _message(error, is_secret)),
            term=headers.get(TERM) or "",
            now=at,
            attempts=1,
            policies=() if call.notes is None else call.notes.policies,
            reasons=(*_reasons(error, is_secret), *_find_expression(call), *_list_mutations(call)),
            actions=(RecordedAction(verb, subject.kind, subject.namespace, subject.name, subresource),),
            writes=(_result(subject, error, reason),),
            trace=traceparent[3:35],
            audits=(call.audit,),
            why_not=(str(WhyNot.READ_OUTSIDE),),
            user=call.user.name,
            parent=decision or headers.get(DECISION) or "",
        )


def find_component(target: RequestTarget, error: StatusError) -> str:
    """Who has refused. Empty: this is no refusal, or not one for the journal."""
    causes = _causes(error)
    what = target.subresource or target.kind.plural
    if causes and causes[0].get("reason") == ADMISSION_POLICY_VIOLATED:
        return "admission"
    match error.code:
        case 409 if not causes:
            return ""  # Another write was faster, or the name is taken. The client looks again.
        case 409 if causes[0].get("reason") == FENCED:
            return "term"
        case 400 | 403 | 409 | 422 | 429 | 500 if what in ("binding", "bindings"):
            return "binding"
        case 400 | 403 | 409 | 422 | 429 | 500 if what == "eviction":
            return "eviction"
        case 409 if what == "reservations":
            return "reservation"
        case 403 | 409 if any(each.get("reason") in QUOTA_CAUSES for each in causes):
            return "quota"
        case 400 | 403 | 409 | 422:
            return "admission"
        case 507:
            return "store"
        case _:
            return ""


def _is_write(target: RequestTarget) -> bool:
    if target.verb in _READS or target.subresource in _NO_WRITES:
        return False
    return target.kind.plural == "bindings" or not any(target.kind is each for each in REVIEWS)


class _Metadata(msgspec.Struct):
    name: str = ""
    generate_name: str = msgspec.field(name="generateName", default="")


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_named = msgspec.json.Decoder(_Named).decode


def _subject(target: RequestTarget, request: Request, error: StatusError) -> Subject:
    """What was to be written, as far as it is known. What is to be made says its name only in the body."""
    name = target.name
    if not name and target.verb is Verb.CREATE:
        try:
            given = _named(request.body).metadata
        except UNREADABLE:
            given = _Metadata()  # It is not in JSON, or nested too deeply. Then the refusal may say it.
            details = error.details or {}
            if details.get("kind") in (target.kind.plural, target.kind.kind):
                given.name = str(details.get("name") or "")
        # A name that is made up each time would make each refusal another one.
        name = given.name or given.generate_name
    kind = "pods" if target.kind.plural == "bindings" else target.kind.reference.text
    return Subject(kind, target.namespace, name[:_NAME_LENGTH_MAX])


def _causes(error: StatusError) -> list[dict[str, str]]:
    causes = (error.details or {}).get("causes")
    return [each for each in causes if isinstance(each, dict)] if isinstance(causes, list) else []


def _result(subject: Subject, error: StatusError, cause: str) -> WriteResult:
    causes = _causes(error)
    quota, requested = find_quota(
        (each.get("reason", ""), each.get("field", ""), each.get("message", "")) for each in causes
    )
    where = subject.kind, subject.namespace, subject.name
    return WriteResult(*where, error=str(error.reason), cause=cause, quota=quota, requested=requested)


def _message(error: StatusError, is_secret: bool) -> str:
    # What is wrong with a value is often said with the value.
    return f"{error.code} {error.reason}" if is_secret else error.message


def _find_expression(call: ApiCall) -> tuple[str, ...]:
    """That of an admission policy, which its message need not contain. It is the policy's: no secret is in it."""
    return (f"expression: {call.notes.expression}",) if call.notes is not None and call.notes.expression else ()


def _list_mutations(call: ApiCall) -> Iterator[str]:
    """What was refused need not be what the user sent."""
    for each in () if call.notes is None else call.notes.mutations:
        yield f"changed by policy: {each.name}@{each.revision}"


def _reasons(error: StatusError, is_secret: bool) -> tuple[str, ...]:
    return tuple(
        f"{each.get('field') or each.get('reason', '')}: {each.get('reason' if is_secret else 'message', '')}"
        for each in _causes(error)
        if each.get("reason") != QUOTA_REQUESTED  # That is in the result of the write.
    )
