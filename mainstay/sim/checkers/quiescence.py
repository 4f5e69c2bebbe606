"""When no fault is active and users want nothing new, the cluster comes to rest.

After all faults are healed there is a time in which things may still be put in order. Past it, nothing may be written
but what is declared to be a heartbeat: leases, the state that nodes and components report. Two controllers that undo
each other, or one that writes what it sees, never come to rest; the message names who writes what, and how often.

`is_quiet_since` is for code that waits for the end of a run.
"""

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.server.storage.keyspace import CORE, INTERNAL_PREFIX
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.addresses import parse_address
from mainstay.sim.cluster.history import Event, FaultsHealed, RequestReceived, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

WITHIN: Final = timedelta(minutes=5)
_REMEMBERED_MAX: Final = 200  # Of the last writes: enough to tell who they are from.
_WRITERS_NAMED_MAX: Final = 5

HEARTBEATS: Final = ("coordination.k8s.io/leases/", "mainstay.dev/componentstates/")
"""Keys under which writing never ends. Of nodes it is only their status."""
_NODES: Final = f"{CORE}/nodes/"


class Quiescence:
    name = "quiescence"
    hears_restores = True  # What was undone was written all the same.

    def __init__(self, within: timedelta = WITHIN) -> None:
        """`within`: how long after healing things may take."""
        self._within = within
        self._asked: dict[int, RequestReceived] = {}
        self._healed_at_ns: int | None = None
        self._last: deque[tuple[int, str]] = deque(maxlen=_REMEMBERED_MAX)  # When, and who wrote what.
        self.last_write_ns = 0
        """Of what is no heartbeat."""

    def saw(self, event: Event) -> None:
        match event:
            case RequestReceived():
                if event.method != "GET":
                    self._asked[event.request] = event
            case RevisionCommitted():
                self._committed(event)
            case FaultsHealed():
                self._healed_at_ns = event.at_ns
                self._last.clear()
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def is_quiet_since(self, silence: timedelta, now_ns: int) -> bool:
        """Whether nothing but heartbeats was written for so long."""
        return now_ns - self.last_write_ns >= silence / timedelta(microseconds=1) * 1000

    def _committed(self, commit: RevisionCommitted) -> None:
        asked = None if commit.request is None else self._asked.get(commit.request)
        if _is_heartbeat(commit.key, asked):
            return
        self.last_write_ns = commit.at_ns
        if self._healed_at_ns is None:
            return
        self._last.append((commit.at_ns, f"{_writer(asked)} {commit.key}"))
        if commit.at_ns - self._healed_at_ns > self._within / timedelta(microseconds=1) * 1000:
            text = f"{self._within.total_seconds():g} s after healing, writes still go on: {self._writers()}"
            raise Violated(self.name, text, [*([asked] if asked else []), commit])

    def _writers(self) -> str:
        counts: dict[str, int] = {}
        for _, what in self._last:
            counts[what] = counts.get(what, 0) + 1
        most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_WRITERS_NAMED_MAX]
        span_s = (self._last[-1][0] - self._last[0][0]) / 1e9
        named = ", ".join(f"{what} ({count} times)" for what, count in most)
        return f"in the last {span_s:.0f} s {named}"


def _is_heartbeat(key: str, asked: RequestReceived | None) -> bool:
    if key.startswith((INTERNAL_PREFIX, *HEARTBEATS)):
        return True
    if key.startswith(_NODES) and asked is not None:
        address = parse_address(asked.path)
        return address is not None and address.subresource == "status"
    return False


def _writer(asked: RequestReceived | None) -> str:
    return f"{asked.who}: {asked.method}" if asked is not None else "the server itself:"
