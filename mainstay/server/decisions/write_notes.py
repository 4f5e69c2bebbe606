"""Who asked for what: a note of every revision that a request has made, and of what a commit point has refused.

The context of a write (server/storage/write_context.py) carries a `WriteRequest` to where it is committed, because only
there the revision is known: one request may make many, a deletion of a collection or a batch of bindings, and others
none. What it finds out is also told to the audit log, by `ApiCall`.

Not noted: leases, Events and the states of components, which are written all the time and say by themselves who writes
them; dry runs; and what the server does of its own accord.
"""

from typing import Final

from msgspec import Struct

from mainstay.api.errors import StatusError
from mainstay.env import Clock
from mainstay.journal.keys import CORE
from mainstay.journal.record import Subject, WriteRecord, micros
from mainstay.journal.trace_id import derive_trace_id
from mainstay.server.decisions.collector import Collector
from mainstay.server.decisions.refusals import Refusals
from mainstay.server.request.context import ApiCall
from mainstay.server.request.target import RequestTarget

UNNOTED: Final = ("coordination.k8s.io/leases/", "core/events/", "mainstay.dev/componentstates/")
_AGENT_LENGTH_MAX: Final = 100
_TRACEPARENT_LENGTH: Final = 55


class WriteNotes(Struct, frozen=True):
    """Where notes go."""

    collector: Collector
    refusals: Refusals
    clock: Clock


class _Asker(Struct, frozen=True, gc=False):
    """What is the same for all that a request writes."""

    verb: str
    user: str
    agent: str
    manager: str
    traceparent: str | None
    subresource: str


class WriteRequest(Struct, gc=False):
    """A request to write something. Without `notes` nothing is noted, and only `call` is filled in."""

    notes: WriteNotes | None
    call: ApiCall
    target: RequestTarget
    manager: str
    """Of the fields, if the request named one."""
    _asker: _Asker | None = None

    def committed(self, key: str, revision: int, value: bytes, decision: str) -> None:
        """Something was written for this request. Costs a few microseconds, with every write."""
        call, notes = self.call, self.notes
        call.key, call.revision, call.value, call.decision = key, revision, value, decision
        call.writes += 1
        if notes is None or key.startswith(UNNOTED):
            return
        asker = self._asker
        if asker is None:
            asker = self._asker = self._found_asker()
        group, plural, rest = key.split("/", 2)
        namespace, _, name = rest.rpartition("/")
        notes.collector.wrote(
            WriteRecord(
                revision,
                plural if group == CORE else f"{plural}.{group}",
                namespace,
                name,
                micros(notes.clock.wall()),
                asker.verb,
                asker.user,
                asker.agent,
                asker.manager,
                call.audit,
                "" if asker.traceparent is None else trace_in(asker.traceparent, decision),
                decision,
                asker.subresource,
                () if call.notes is None else call.notes.mutations,
                () if call.notes is None else call.notes.mutated,
            )
        )

    def _found_asker(self) -> _Asker:
        headers, target = self.call.request.headers, self.target
        return _Asker(
            target.verb,
            self.call.user.name,
            (headers.get("user-agent") or "")[:_AGENT_LENGTH_MAX],
            self.manager,
            headers.get("traceparent"),
            # A batch of bindings is a kind of its own; each of them is what a binding is.
            target.subresource or ("binding" if target.kind.plural == "bindings" else ""),
        )

    def refused(self, error: StatusError, subject: Subject, decision: str) -> None:
        """A part of what this request asks for was refused, and the rest of it goes on."""
        if self.notes is not None:
            self.notes.refusals.note(self.call, error, subject, decision)


def trace_in(traceparent: str | None, decision: str = "") -> str:
    """The trace that a request belongs to; empty if it says none, or one that follows from its decision."""
    if not traceparent or len(traceparent) != _TRACEPARENT_LENGTH:
        return ""
    trace = traceparent[3:35]
    return "" if decision and trace == derive_trace_id(decision) else trace
