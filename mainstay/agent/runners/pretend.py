"""A runner that only says so: for demos, for scale tests with thousands of nodes, and, in the simulator, for all.

    PretendRunner(env, Delays(start=timedelta(seconds=1)), failure_rate=0.01)

Containers start after a delay, run for ever (or fail at once, as often as one likes), and end when they are asked to. A
process that pretends remembers nothing: after it was started again, what a pod's status says was so is so (`recover`).
In the simulator the machine remembers (sim/cluster/node_machine.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.agent.runner import (
    ContainerId,
    ContainerSpec,
    ContainerUsage,
    Exited,
    LogLine,
    LogQuery,
    NoSuchContainer,
    PodPlace,
    Pull,
    Running,
    Session,
    State,
    Usage,
    VolumePlan,
)
from mainstay.agent.runners.pretend_containers import Behave, Behaviour, PretendContainers
from mainstay.agent.runners.pretend_images import PretendImages
from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.env import Clock, Env

Answer = Callable[[ContainerId, Sequence[str]], int]
"""With which code a command beside a container ends."""

Load = Callable[[ContainerId], ContainerUsage]
"""What a container that runs uses."""

_WINDOW: Final = timedelta(seconds=10)
_CPU_NANOCORES: Final = 1_000_000
_MEMORY_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Delays:
    """How long a container takes."""

    start: timedelta = timedelta(seconds=1)
    """From when it is begun to running."""
    stop: timedelta = timedelta(milliseconds=500)
    """From being asked to end to having done so; never longer than its grace."""


def choose_behaviour(env: Env, delays: Delays, failure_rate: float, label: str = "") -> Behave:
    """Containers that all take as long, of which some fail as soon as they run."""
    well = Behaviour(delays.start, delays.stop)
    badly = Behaviour(delays.start, delays.stop, timedelta(), 1)
    chance = env.chance.stream("pretend failures", label)
    return lambda spec: badly if failure_rate and chance.random() < failure_rate else well


class PretendRunner:
    """Implements `Runner`."""

    def __init__(self, env: Env, delays: Delays | None = None, failure_rate: float = 0.0, *, label: str = "") -> None:
        """`label`: of runners in one process that should not all fail in the same way."""
        self._clock: Clock = env.clock
        behave = choose_behaviour(env, delays or Delays(), failure_rate, label)
        self._containers = PretendContainers(env.clock, _later, behave)
        self._images = PretendImages()
        self._remembers = False
        self._answer: Answer = _succeeds
        self._load: Load = use_little
        self._changed: Callable[[str], None] | None = None

    @classmethod
    def on(
        cls, containers: PretendContainers, images: PretendImages, env: Env, answer: Answer, load: Load
    ) -> "PretendRunner":
        """One for a machine that outlives it."""
        runner = cls(env)
        runner._containers, runner._images, runner._remembers = containers, images, True
        runner._answer, runner._load = answer, load
        return runner

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        if self._changed is not None:
            self._containers.unsubscribe(self._changed)

    def subscribe(self, changed: Callable[[str], None]) -> None:
        # As a step of the subscriber, and not of the machine: one that is dead or stopped meanwhile gets nothing.
        loop, context = asyncio.get_running_loop(), copy_context()
        self._changed = lambda uid: _drop(loop.call_soon(changed, uid, context=context))
        self._containers.subscribe(self._changed)

    def pods(self) -> Sequence[str]:
        return self._containers.pods()

    def instances(self, pod_uid: str) -> Mapping[ContainerId, State]:
        return self._containers.instances(pod_uid)

    def recover(self, pod: Object) -> None:
        if not self._remembers:
            self._containers.adopt(pod["metadata"]["uid"], _states_in(pod))

    async def place(self, pod_uid: str, namespace: str, name: str, volumes: Sequence[VolumePlan]) -> PodPlace:
        self._containers.place(pod_uid)
        directory = f"/pretend/{pod_uid}"
        return PodPlace(directory=directory, volumes={each.name: f"{directory}/{each.name}" for each in volumes})

    def pull(self, image: str, policy: str) -> Pull | None:
        return self._images.pull(image, policy)

    async def run(self, spec: ContainerSpec) -> None:
        self._containers.run(spec)

    async def end(self, container: ContainerId, grace: timedelta, *, with_signal: str = "SIGTERM") -> None:
        self._containers.end(container, grace)

    async def forget(self, pod_uid: str) -> None:
        self._containers.forget(pod_uid)

    async def prune(self, pod_uid: str, name: str, keep: int) -> None:
        self._containers.prune(pod_uid, name, keep)

    async def log(self, pod_uid: str, name: str, query: LogQuery) -> AsyncIterator[LogLine]:
        attempts = sorted(id_ for id_ in self.instances(pod_uid) if id_.name == name)
        which = 2 if query.is_previous else 1
        if len(attempts) < which:
            raise NoSuchContainer(f"{name} has no {'earlier ' if query.is_previous else ''}log")
        state = self.instances(pod_uid)[attempts[-which]]
        if isinstance(state, Running | Exited):
            moment = times.format_micro_time(state.started_at)
            yield LogLine(moment.replace("Z", "000Z"), "stdout", b"this container is only pretended\n")

    async def execute(
        self, container: ContainerId, command: Sequence[str], *, stdin: bool = False, terminal: bool = False
    ) -> Session:
        if not isinstance(self.instances(container.pod_uid).get(container), Running):
            raise NoSuchContainer(f"container {container.name!r} is not running")
        return _Session(self._answer(container, command))

    async def usage(self) -> Usage:
        running = {
            id_: self._load(id_)
            for uid in self.pods()
            for id_, state in self.instances(uid).items()
            if isinstance(state, Running)
        }
        used = running.values()
        node = ContainerUsage(sum(each.cpu_nanocores for each in used), sum(each.memory_bytes for each in used))
        return Usage(self._clock.wall(), _WINDOW, node, running)

    async def hold_until(self, monotonic_ns: int, stopping: timedelta) -> None:
        self._containers.hold_until(monotonic_ns, stopping)


class _Session:
    """A command that says nothing and has ended. Implements `Session`."""

    def __init__(self, code: int) -> None:
        self._code = code

    async def read(self) -> tuple[int, bytes] | None:
        return None

    async def write(self, data: bytes) -> None:
        pass

    async def close_input(self) -> None:
        pass

    def resize(self, columns: int, rows: int) -> None:
        pass

    async def wait(self) -> int:
        return self._code

    async def kill(self) -> None:
        pass


def _states_in(pod: Object) -> dict[ContainerId, State]:
    """What a pod's status says of its containers: the present attempt of each."""
    status, uid = pod.get("status") or {}, pod["metadata"]["uid"]
    found: dict[ContainerId, State] = {}
    for group in ("initContainerStatuses", "containerStatuses"):
        for said in status.get(group) or ():
            state = _state_in(said.get("state") or {})
            if state is not None:
                found[ContainerId(uid, said["name"], said.get("restartCount") or 0)] = state
    return found


def _state_in(said: Mapping[str, Any]) -> State | None:
    running, ended = said.get("running"), said.get("terminated")
    if running is not None and running.get("startedAt"):
        return Running(times.parse_time(running["startedAt"]))
    if ended is None:
        return None
    finished = _moment(ended.get("finishedAt"))
    return Exited(
        code=ended.get("exitCode") or 0,
        signal=ended.get("signal") or 0,
        reason=ended.get("reason") or "",
        message=ended.get("message") or "",
        started_at=_moment(ended.get("startedAt")) if ended.get("startedAt") else finished,
        finished_at=finished,
    )


def _moment(text: str | None) -> datetime:
    return times.parse_time(text or "1970-01-01T00:00:00Z")


def use_little(container: ContainerId) -> ContainerUsage:
    return ContainerUsage(_CPU_NANOCORES, _MEMORY_BYTES)


def _succeeds(container: ContainerId, command: Sequence[str]) -> int:
    return 0


def _later(duration: timedelta, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(duration.total_seconds(), call)


def _drop(handle: asyncio.Handle) -> None:
    """It is never taken back."""
