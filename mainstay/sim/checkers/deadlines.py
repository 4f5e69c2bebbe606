"""A pod with `activeDeadlineSeconds` runs no longer than that, whatever becomes of its agent meanwhile.

Counted from when the pod was first said to have started, or from when it got a deadline that had passed by then. What
is late by less than a moment is in time: an agent that is restarted has to learn of its pods first, and containers have
some time to end.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import ContainerEnded, ContainerStarted, Event, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

MOMENT: Final = timedelta(seconds=25)
_PODS: Final = "core/pods/"


class DeadlineChecker:
    name = "deadlines"

    def __init__(self) -> None:
        self._started_ns: dict[str, int] = {}
        """By uid of the pod: when it was said to have started."""
        self._seconds: dict[str, int] = {}
        self._until_ns: dict[str, int] = {}
        """By uid: when it must have ended."""
        self._running: dict[tuple[str, str, int], ContainerStarted] = {}

    def saw(self, event: Event) -> None:
        match event:
            case RevisionCommitted() if event.key.startswith(_PODS) and event.value is not None:
                self._saw_pod(event, event.value)
            case ContainerStarted():
                self._running[event.uid, event.container, event.attempt] = event
            case ContainerEnded():
                started = self._running.pop((event.uid, event.container, event.attempt), None)
                if started is not None and event.at_ns > self._until_ns.get(event.uid, event.at_ns):
                    raise Violated(self.name, f"{event.pod} has run for longer than it may", [started, event])
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        for started in self._running.values():
            if started.uid in self._until_ns:
                raise Violated(self.name, f"{started.pod} still runs at the end, past its deadline", [started])

    def _saw_pod(self, event: RevisionCommitted, value: bytes) -> None:
        pod = decode_commit(value)
        uid, seconds = pod["metadata"]["uid"], pod["spec"].get("activeDeadlineSeconds")
        if (pod.get("status") or {}).get("startTime"):
            self._started_ns.setdefault(uid, event.at_ns)
        if seconds is None or uid not in self._started_ns:
            return
        if self._seconds.get(uid) != seconds:
            self._seconds[uid] = seconds
            due_ns = self._started_ns[uid] + _ns(timedelta(seconds=seconds))
            self._until_ns[uid] = max(due_ns, event.at_ns) + _ns(MOMENT)


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
