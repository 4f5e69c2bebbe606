"""Images are pulled slowly, or not at all for a while: pods start once they are there, and not before.

A user makes and deletes pods, each with an image of its own, on nodes whose registry is slow or fails now and then.
Whatever happens, no container begins before its machine has the image; a failed pull is tried again after a while that
doubles, and is no attempt of the container: it counts as no restart. When the registry is well again, every pod comes
to run.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from mainstay.agent.runner import ContainerSpec
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.agent.runners.pretend_images import PullOutcome
from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.scenarios._agents import CALM, SILENCE, AgentStage, a_pod
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = tuple(f"pod-{number}" for number in range(4))
USUAL: Final = PullOutcome(timedelta(seconds=1))
CHECK: Final = "image pulls"
BACKOFF_FIRST: Final = timedelta(seconds=10)
BACKOFF_MAX: Final = timedelta(minutes=5)
_EARLY: Final = timedelta(milliseconds=1)  # Agents go by clocks of their own, with whole microseconds.


class ImagePullsStage(AgentStage):
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.pulls = 0
        self.pulls_again = 0
        self._made = 0
        self._pull_times: dict[tuple[str, int, str], list[timedelta]] = {}
        """When pulls began: by node, incarnation of its agent, and image."""
        self._problems: list[str] = []
        for name in self.nodes:
            world.machines[name].images.registry = partial(self._pull, name)
            world.machines[name].behave = partial(self._begin, name)

    def _pull(self, node: str, image: str) -> PullOutcome:
        """A pull begins. The first may at once, the others after the backoff; an agent that restarts forgets it."""
        now = timedelta(microseconds=self.world.sim.loop.time_ns() // 1000)
        began = self._pull_times.setdefault((node, self.world.programs[node].incarnation, image), [])
        if began:
            self.pulls_again += 1
            delay = min(BACKOFF_FIRST * 2 ** (len(began) - 1), BACKOFF_MAX)
            if now - began[-1] < delay - _EARLY:
                waited = (now - began[-1]).total_seconds()
                self._problems.append(f"{node} pulls {image} again after {waited:.1f} s, and not after {delay}")
        self.pulls += 1
        began.append(now)
        return USUAL

    def _begin(self, node: str, spec: ContainerSpec) -> Behaviour:
        """A container begins. None ends by itself here, so that each has one attempt."""
        if not self.world.machines[node].images.has(spec.image):
            self._problems.append(f"{node} begins a container of {spec.pod_name}, and {spec.image} is not there")
        if spec.id.attempt:
            self._problems.append(f"{node} begins attempt {spec.id.attempt} of {spec.pod_name}, which has not failed")
        return Behaviour(self.delays.start, self.delays.stop)

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which pod", len(NAMES))]
        if self.choose("deletes", 3) == 0:
            with suppress(NotFound):
                await client.delete(PODS, name, NAMESPACE)
            return
        self._made += 1
        pod = a_pod(name, self.nodes[self.choose("which node", len(self.nodes))])
        pod["spec"]["containers"][0]["image"] = f"app:{self._made}"
        with suppress(AlreadyExists):
            await client.create(PODS, pod)

    async def check(self) -> None:
        if self._problems:
            raise Violated(CHECK, self._problems[0])
        await super().check()


SCENARIO: Final = Scenario(
    name="image-pulls",
    about="Pulls of images are slow or fail: containers begin when their image is there, after a backoff that doubles.",
    make=ImagePullsStage,
    checkers=list,
    faults=("slow-pull", "failed-pull", "crash", "pause", "cut", "answer-lost", "watch-delay"),
    calm=CALM,
    silence=SILENCE,
    ids=("F4", "T2"),
)
