"""Containers that are only pretended: they start after a while, run, and end when they should. On one machine.

What a real machine would do by itself is done here: a container goes on without its agent, and at-most-one
containers end when the node's lease does. The simulator keeps one of these for each of its machines, where no crash of
an agent reaches it (sim/cluster/node_machine.py); thousands of pretend nodes have one each in their own process
(pretend.py).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mainstay.agent.runner import CannotRun, ContainerId, ContainerSpec, Exited, Running, Starting, State
from mainstay.env import Clock

KILLED: Final = 137
_MICROSECOND: Final = timedelta(microseconds=1)
_TIMER_NS: Final = 1000  # Timers have whole microseconds, and come a little too early rather than too late.


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a container turns out."""

    start: timedelta = timedelta(seconds=1)
    """From being begun to running."""
    stop: timedelta = timedelta(milliseconds=500)
    """From being asked to end to having done so. If that is longer than its grace, it is killed."""
    lasts: timedelta | None = None
    """How long it runs by itself. None: for ever."""
    code: int = 0
    """With which it then ends."""


CallLater = Callable[[timedelta, Callable[[], None]], asyncio.TimerHandle]
Behave = Callable[[ContainerSpec], Behaviour]
Watcher = Callable[[ContainerSpec, State], None]


class _Container:
    __slots__ = ("behaviour", "is_fenced", "kill_at_ns", "spec", "state", "timer")

    def __init__(self, spec: ContainerSpec, behaviour: Behaviour) -> None:
        self.spec = spec
        self.behaviour = behaviour
        self.state: State = Starting()
        self.timer: asyncio.TimerHandle | None = None
        self.kill_at_ns: int | None = None
        """When it is over at the latest, on the machine's clock. None: it was not asked to end."""
        self.is_fenced = False


class PretendContainers:
    """All containers of one machine, dead or alive."""

    def __init__(self, clock: Clock, call_later: CallLater, behave: Behave, watcher: Watcher | None = None) -> None:
        """`call_later` is on behalf of the machine. The `watcher` is called with each new state."""
        self._clock = clock
        self._call_later = call_later
        self._behave = behave
        self._watcher = watcher
        self._pods: dict[str, dict[ContainerId, _Container]] = {}
        self._subscribers: list[Callable[[str], None]] = []
        self._fenced: dict[ContainerId, _Container] = {}
        """Those at-most-one containers that have not ended."""
        self._held_until_ns: int | None = None
        self._stopping = timedelta()
        self._lease_timer: asyncio.TimerHandle | None = None

    # What is asked.

    def subscribe(self, changed: Callable[[str], None]) -> None:
        self._subscribers.append(changed)

    def unsubscribe(self, changed: Callable[[str], None]) -> None:
        if changed in self._subscribers:
            self._subscribers.remove(changed)

    def pods(self) -> Sequence[str]:
        return sorted(self._pods)

    def instances(self, pod_uid: str) -> Mapping[ContainerId, State]:
        found = self._pods.get(pod_uid)
        return {} if not found else {id_: each.state for id_, each in found.items()}

    def adopt(self, pod_uid: str, states: Mapping[ContainerId, State]) -> None:
        """These are there, as their status says. Nothing if anything of the pod is known."""
        if pod_uid in self._pods or not states:
            return
        found = self._pods[pod_uid] = {}
        for id_, state in states.items():
            spec = ContainerSpec(id=id_, namespace="", pod_name="", image="", command=("pretend",), env=())
            container = found[id_] = _Container(spec, self._behave(spec))
            container.state = state

    # What is done.

    def place(self, pod_uid: str) -> None:
        self._pods.setdefault(pod_uid, {})

    def run(self, spec: ContainerSpec) -> None:
        """Raises `CannotRun`."""
        found = self._pods.setdefault(spec.id.pod_uid, {})
        if spec.id in found:
            return
        if spec.is_at_most_one and not self.is_lease_held:
            raise CannotRun("LeaseNotHeld", "the node does not hold its lease, so at-most-one containers cannot start")
        container = found[spec.id] = _Container(spec, self._behave(spec))
        if spec.is_at_most_one:
            self._fenced[spec.id] = container
            self._watch_lease()
        container.timer = self._call_later(container.behaviour.start, lambda: self._started(container))
        if self._watcher is not None:  # The caller knows.
            self._watcher(spec, container.state)

    def end(self, id_: ContainerId, grace: timedelta) -> None:
        container = self._pods.get(id_.pod_uid, {}).get(id_)
        if container is not None:
            self._end(container, grace)

    def forget(self, pod_uid: str) -> None:
        for id_, container in self._pods.get(pod_uid, {}).items():
            if not isinstance(container.state, Exited):
                raise RuntimeError(f"cannot forget a pod with a running container: {id_}")
        self._pods.pop(pod_uid, None)

    def prune(self, pod_uid: str, name: str, keep: int) -> None:
        found = self._pods.get(pod_uid, {})
        ended = [id_ for id_, each in found.items() if id_.name == name and isinstance(each.state, Exited)]
        for id_ in sorted(ended)[: max(len(ended) - keep, 0)]:
            del found[id_]

    def kill_all(self, reason: str, message: str) -> None:
        """The machine is rebooted: nothing runs any more, and how it ended is unknown."""
        self._held_until_ns = None
        for found in list(self._pods.values()):
            for container in list(found.values()):
                if not isinstance(container.state, Exited):
                    self._exited(container, KILLED, reason, message)

    # The lease.

    @property
    def is_lease_held(self) -> bool:
        """Whether an at-most-one container may be begun."""
        begin_ns = self._begin_stopping_ns
        return begin_ns is not None and self._clock.monotonic_ns() < begin_ns

    def hold_until(self, monotonic_ns: int, stopping: timedelta) -> None:
        self._held_until_ns = max(monotonic_ns, self._held_until_ns or 0)
        self._stopping = stopping
        if self._fenced and self._lease_timer is None:
            self._watch_lease()

    @property
    def _begin_stopping_ns(self) -> int | None:
        held_ns = self._held_until_ns
        return None if held_ns is None else held_ns - _nanoseconds(self._stopping)

    def _watch_lease(self) -> None:
        begin_ns = self._begin_stopping_ns
        if self._lease_timer is None and begin_ns is not None:
            left_ns = max(begin_ns - self._clock.monotonic_ns(), 0)
            self._lease_timer = self._call_later(timedelta(microseconds=left_ns // 1000), self._look_at_lease)

    def _look_at_lease(self) -> None:
        self._lease_timer = None
        begin_ns, held_ns = self._begin_stopping_ns, self._held_until_ns
        now_ns = self._clock.monotonic_ns()
        if begin_ns is not None and held_ns is not None and now_ns >= begin_ns - _TIMER_NS:
            left = timedelta(microseconds=max(held_ns - now_ns, 0) // 1000)
            for container in list(self._fenced.values()):
                container.is_fenced = True
                self._end(container, left)
        elif self._fenced:
            self._watch_lease()  # It was renewed meanwhile.

    # What happens by itself.

    def _started(self, container: _Container) -> None:
        container.timer = None
        container.state = Running(self._clock.wall())
        behaviour = container.behaviour
        if behaviour.lasts is not None:
            container.timer = self._call_later(behaviour.lasts, lambda: self._ended_by_itself(container))
        self._tell(container)

    def _ended_by_itself(self, container: _Container) -> None:
        code = container.behaviour.code
        self._exited(container, code, "Error" if code else "Completed", "")

    def _end(self, container: _Container, grace: timedelta) -> None:
        if isinstance(container.state, Exited):
            return
        now_ns = self._clock.monotonic_ns()
        kill_at_ns = now_ns + _nanoseconds(grace)
        if container.kill_at_ns is not None and kill_at_ns >= container.kill_at_ns:
            return  # It was asked before, and has less time left.
        first = container.kill_at_ns is None
        container.kill_at_ns = kill_at_ns
        stop = container.behaviour.stop if first else grace
        is_killed = stop > grace or not first
        if container.timer is not None:
            container.timer.cancel()
        container.timer = self._call_later(min(stop, grace), lambda: self._ended(container, is_killed))

    def _ended(self, container: _Container, is_killed: bool) -> None:
        if container.is_fenced:
            self._exited(container, KILLED, "Fenced", "the node could not renew its lease in time")
        elif is_killed:
            self._exited(container, KILLED, "Error", "")
        else:
            self._exited(container, 0, "Completed", "")

    def _exited(self, container: _Container, code: int, reason: str, message: str) -> None:
        if container.timer is not None:
            container.timer.cancel()
            container.timer = None
        self._fenced.pop(container.spec.id, None)
        now = self._clock.wall()
        container.state = Exited(
            code=code,
            signal=code - 128 if code > 128 else 0,
            reason=reason,
            message=message,
            started_at=_started_at(container.state, now),
            finished_at=now,
        )
        self._tell(container)

    def _tell(self, container: _Container) -> None:
        if self._watcher is not None:
            self._watcher(container.spec, container.state)
        for changed in self._subscribers:
            changed(container.spec.id.pod_uid)


def _started_at(state: State, now: datetime) -> datetime:
    return state.started_at if isinstance(state, Running) else now


def _nanoseconds(duration: timedelta) -> int:
    return duration // _MICROSECOND * 1000
