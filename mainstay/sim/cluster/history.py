"""All that happens in a simulated cluster, as one list in order: what checkers judge by and stories are told from.

Who asked which server for what, and what was answered; what was committed; what watches delivered; faults, and what
became of programs. Everything is seen from outside of the programs: at the servers' door (server_proxy.py) and at the
store. So an answer that a server gave is here, also if its program never got it, and says so.

Bodies and values are kept as bytes and not looked into. A commit is noted when the store tells of it, which may be a
step after an answer or a watch has shown it.
"""

from collections.abc import Callable
from typing import Final

import msgspec

EVENTS_MAX: Final = 5_000_000  # A run that has more is one that should have been stopped.


class RequestReceived(msgspec.Struct, frozen=True, gc=False):
    """A request has reached a server. `request` is its number, which its answer and its commits have too."""

    at_ns: int
    request: int
    who: str
    """The program; empty if unknown."""
    server: str
    method: str
    path: str
    """With the query."""
    decision: str
    cause: str
    term: str
    operation: str
    body: bytes
    user: str = ""
    """Whom the program asks as: several may be one user, whose operation ids they share. Empty if unknown."""

    def __str__(self) -> str:
        extra = "".join(
            f" {name}={value}"
            for name, value in (("decision", self.decision), ("term", self.term), ("operation", self.operation))
            if value
        )
        return f"{_time(self.at_ns)} #{self.request} {self.who} → {self.server}: {self.method} {self.path}{extra}"

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


class ResponseSent(msgspec.Struct, frozen=True, gc=False):
    """A server has answered. A watch is answered when it begins."""

    at_ns: int
    request: int
    who: str
    server: str
    status: int
    revision: int
    """That of the object that was written; 0 if it is not about one."""
    body: bytes
    """Of a refusal, its message. Empty for what is sent piece by piece."""
    is_delivered: bool
    """False: a fault has kept it back. True does not mean that it arrived: the network has a say too."""

    def __str__(self) -> str:
        lost = "" if self.is_delivered else "(lost)"
        at = f" at revision {self.revision}" if self.revision else ""
        return f"{_time(self.at_ns)} #{self.request} {self.server} → {self.who}: {self.status}{at}{lost}"


class RevisionCommitted(msgspec.Struct, frozen=True, gc=False):
    """What one revision did to one key of the store."""

    at_ns: int
    revision: int
    key: str
    value: bytes | None
    """None: the key was deleted."""
    previous: bytes | None
    request: int | None
    """The request that this was done for. None: a server did it by itself."""

    def __str__(self) -> str:
        did = "deletes" if self.value is None else "creates" if self.previous is None else "updates"
        cause = "" if self.request is None else f" for #{self.request}"
        return f"{_time(self.at_ns)} revision {self.revision} {did} {self.key}{cause}"


class WatchOpened(msgspec.Struct, frozen=True, gc=False):
    """A watch begins. `watch` is the number of its request."""

    at_ns: int
    watch: int
    who: str
    server: str
    prefix: str
    """Of the keys in the store that it is about."""
    after: int
    wants_state: bool
    """It is first told what is there."""
    is_selecting: bool
    """It has label or field selectors."""
    has_end_of_state: bool = True
    """A bookmark says where the state ends, if it wants one. Old clients do not ask for that."""

    def __str__(self) -> str:
        start = "with state" if self.wants_state else f"after {self.after}"
        return f"{_time(self.at_ns)} #{self.watch} {self.who} watches {self.prefix} on {self.server} {start}"


class WatchDelivered(msgspec.Struct, frozen=True, gc=False):
    """A server has sent an event of a watch, and no fault has kept it back."""

    at_ns: int
    watch: int
    who: str
    type: str
    key: str
    """In the store; empty for bookmarks."""
    revision: int
    is_end_of_state: bool = False

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} #{self.watch} delivers to {self.who}: {self.type} {self.key} at {self.revision}"


class WatchEnded(msgspec.Struct, frozen=True, gc=False):
    """A watch is over."""

    at_ns: int
    watch: int
    who: str

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} #{self.watch} of {self.who} ends"


class FaultInjected(msgspec.Struct, frozen=True, gc=False):
    at_ns: int
    what: str

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} fault: {self.what}"


class FaultsHealed(msgspec.Struct, frozen=True, gc=False):
    """All faults are undone, and there will be no more."""

    at_ns: int

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} all faults are healed"


class StoreReopened(msgspec.Struct, frozen=True, gc=False):
    """The store has come back, with what its disk has kept: everything up to this revision."""

    at_ns: int
    revision: int

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} the store reopens at revision {self.revision}"


class StoreRestored(msgspec.Struct, frozen=True, gc=False):
    """The store was put back to this revision: what was committed after it was never committed."""

    at_ns: int
    revision: int

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} the store is restored to revision {self.revision}"


class ProgramStarted(msgspec.Struct, frozen=True, gc=False):
    at_ns: int
    program: str
    incarnation: int

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} {self.program} starts ({self.incarnation})"


class ProgramCrashed(msgspec.Struct, frozen=True, gc=False):
    at_ns: int
    program: str
    incarnation: int

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} {self.program} crashes ({self.incarnation})"


class ProgramChanged(msgspec.Struct, frozen=True, gc=False):
    """Something else has become of a program: it is paused, has resumed, or has ended in order."""

    at_ns: int
    program: str
    incarnation: int
    step: str

    def __str__(self) -> str:
        return f"{_time(self.at_ns)} {self.program} {self.step} ({self.incarnation})"


class ContainerStarted(msgspec.Struct, frozen=True, gc=False):
    """A container was begun on a simulated machine."""

    at_ns: int
    machine: str
    pod: str
    """Its namespace and name."""
    uid: str
    container: str
    attempt: int
    is_at_most_one: bool

    def __str__(self) -> str:
        which = f"{self.container} ({self.attempt}) of {self.pod}, {self.uid}"
        return f"{_time(self.at_ns)} {self.machine} starts {which}"


class ContainerEnded(msgspec.Struct, frozen=True, gc=False):
    """Nothing of it runs any more."""

    at_ns: int
    machine: str
    pod: str
    uid: str
    container: str
    attempt: int
    reason: str

    def __str__(self) -> str:
        which = f"{self.container} ({self.attempt}) of {self.pod}, {self.uid}"
        return f"{_time(self.at_ns)} {self.machine} ended {which}: {self.reason}"


Event = (
    RequestReceived
    | ResponseSent
    | RevisionCommitted
    | WatchOpened
    | WatchDelivered
    | WatchEnded
    | FaultInjected
    | FaultsHealed
    | StoreReopened
    | StoreRestored
    | ProgramStarted
    | ProgramCrashed
    | ProgramChanged
    | ContainerStarted
    | ContainerEnded
)
Subscriber = Callable[[Event], None]


class History:
    """Everything so far, and subscribers that are called at once."""

    __slots__ = ("_requests", "_subscribers", "events")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._requests = 0
        self._subscribers: tuple[Subscriber, ...] = ()

    def add(self, event: Event) -> None:
        if len(self.events) >= EVENTS_MAX:
            raise RuntimeError(f"the run has more than {EVENTS_MAX} events")
        self.events.append(event)
        for subscriber in self._subscribers:
            subscriber(event)

    def next_request(self) -> int:
        self._requests += 1
        return self._requests

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call a subscriber with each event from now on. It must not raise, nor await, nor change anything."""
        self._subscribers += (subscriber,)


def _time(at_ns: int) -> str:
    return f"{at_ns / 1e9:10.6f}"
