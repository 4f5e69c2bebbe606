"""A simulated machine with containers on it, which outlive the agent that looks after them.

An agent is a program, and crashes. What it has started goes on: the containers are the machine's, and so is what they
do by themselves, above all that at-most-one containers end when the node's lease does
(agent/runners/pretend_containers.py). Each incarnation of the agent asks for a runner of its own. What happens to
containers is noted in the history, where checkers see it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from datetime import timedelta
from typing import Final

from mainstay.agent.runner import ContainerId, ContainerSpec, Exited, State
from mainstay.agent.runners.pretend import Answer, Load, PretendRunner, use_little
from mainstay.agent.runners.pretend_containers import Behave, Behaviour, PretendContainers
from mainstay.agent.runners.pretend_images import PretendImages
from mainstay.env import Env
from mainstay.env.machine import MachineFacts
from mainstay.sim.cluster.history import ContainerEnded, ContainerStarted, History
from mainstay.sim.simulation import Simulation

GIB: Final = 1024**3


class SimMachine:
    """Made once for a node; lives as long as the world."""

    def __init__(self, sim: Simulation, name: str, history: History, behave: Behave | None = None) -> None:
        self.name = name
        self.behave: Behave = behave or (lambda spec: Behaviour())
        """How each container turns out that is begun from now on."""
        self.answer: Answer = _succeeds
        """What commands beside containers end with."""
        self.load: Load = use_little
        """What each container uses that runs."""
        self.images = PretendImages()
        """All are there, unless it is given a registry to pull from."""
        self._sim = sim
        self._history = history
        self._began: dict[ContainerId, None] = {}
        self.containers = PretendContainers(sim.get_clock(name), self._later, lambda spec: self.behave(spec), self._saw)

    def runner(self, env: Env) -> PretendRunner:
        """For one incarnation of the agent."""
        return PretendRunner.on(
            self.containers,
            self.images,
            env,
            lambda id_, command: self.answer(id_, command),
            lambda id_: self.load(id_),
        )

    def reboot(self) -> None:
        """Reboot the machine: nothing runs any more. The caller has to crash and start the agent."""
        self.containers.kill_all("ContainerStatusUnknown", "the machine was rebooted")

    def facts(self) -> MachineFacts:
        """Implements `Machine`."""
        return MachineFacts(
            cpus=8,
            memory_bytes=32 * GIB,
            memory_free_bytes=16 * GIB,
            disk_bytes=100 * GIB,
            disk_free_bytes=50 * GIB,
            machine_id=self.name,
        )

    def _later(self, duration: timedelta, call: Callable[[], None]) -> asyncio.TimerHandle:
        loop = self._sim.loop
        # Outside of all programs: it happens whichever are dead or paused by then.
        return loop.call_at_ns(loop.time_ns() + duration // timedelta(microseconds=1) * 1000, call, context=Context())

    def _saw(self, spec: ContainerSpec, state: State) -> None:
        now_ns, pod = self._sim.loop.time_ns(), f"{spec.namespace}/{spec.pod_name}"
        if isinstance(state, Exited):
            self._history.add(ContainerEnded(now_ns, self.name, pod, *_parts(spec.id), state.reason))
        elif spec.id not in self._began:
            self._began[spec.id] = None
            self._history.add(ContainerStarted(now_ns, self.name, pod, *_parts(spec.id), spec.is_at_most_one))


def _parts(id_: ContainerId) -> tuple[str, str, int]:
    return id_.pod_uid, id_.name, id_.attempt


def _succeeds(container: ContainerId, command: Sequence[str]) -> int:
    return 0
