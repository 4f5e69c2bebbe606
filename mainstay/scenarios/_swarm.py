"""How much users do in a run, and what they do it to: the stage of a world, as their deeds see it.

Which deeds there are, how often users do one and how much of it are *swarm options*: drawn from the seed before
anything begins, and said with the verdict. A few deeds that meet each other find more than all of them at once. Choice
0 is always the simplest: the deed is off, the pace is slow, sizes are small.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from mainstay.client.client import Client
from mainstay.loop.controller import Controller
from mainstay.sim.cluster.program_lifecycle import ProgramStep
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Stage

TEMPOS: Final = tuple(timedelta(seconds=seconds) for seconds in (6, 4, 2))
REPLICAS_MAX: Final = (2, 3, 4)


@dataclass(frozen=True, slots=True)
class UserAction:
    """Something that a user may do, more often the greater its weight is."""

    name: str
    weight: int
    do: "Callable[[SwarmStage, Client], Awaitable[None]]"
    """May raise `ApiError`: then that was it for this time."""


@dataclass(frozen=True, slots=True)
class SwarmOptions:
    """How much of what there is in a run."""

    deeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each user, those that are on."""
    tempo: timedelta = TEMPOS[0]
    replicas_max: int = REPLICAS_MAX[0]
    has_priorities: bool = False
    says_lost: bool = False
    """Whether an operator says of a machine that is lost for good that it is off. Else its pods are never heard of."""

    def list_actions(self, user: str, known: Sequence[UserAction]) -> list[UserAction]:
        """Each as often as it weighs."""
        return [each for each in known if each.name in self.deeds[user] for _ in range(each.weight)]

    def __str__(self) -> str:
        who = "; ".join(f"{user}: {', '.join(names)}" for user, names in self.deeds.items())
        more = (", priorities" if self.has_priorities else "") + (
            ", lost machines are reported" if self.says_lost else ""
        )
        return f"{who}; every {self.tempo.total_seconds():g} s, up to {self.replicas_max} replicas{more}"


def draw_options(choose: Callable[[str, int], int], users: Mapping[str, Sequence[UserAction]]) -> SwarmOptions:
    """Those of this run. The first deed of each user is always on: else there would be nothing to look at."""
    deeds = {
        user: tuple([each.name for number, each in enumerate(known) if number == 0 or choose(f"{each.name}/is-on", 2)])
        for user, known in users.items()
    }
    return SwarmOptions(
        deeds=deeds,
        tempo=TEMPOS[choose("tempo", len(TEMPOS))],
        replicas_max=REPLICAS_MAX[choose("replicas-max", len(REPLICAS_MAX))],
        has_priorities=bool(choose("priorities", 2)),
        says_lost=bool(choose("says-lost", 2)),
    )


class SwarmStage(Stage):
    """What deeds of users may look at and change. `WorldStage` (_worlds.py) is the only one, and runs the cluster."""

    controllers: Sequence[Controller] = ()
    observed: Sequence[str] = ()
    """How the keys of those kinds begin in the store whose controllers say which generation they have observed."""
    users: Mapping[str, Sequence[UserAction]] = MappingProxyType({})
    """What each of them may do."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.options = SwarmOptions()
        self.sizes: dict[str, dict[str, str]] = {}
        """What each machine has. Its agent sees a change when it is started the next time."""
        self.load = 0
        """What each container uses, in billionths of a core."""
        self.singles: dict[str, None] = {}
        """Pods of which there must be one, and never two."""

    def choose(self, what: str, options: int) -> int:
        """A choice of the users'."""
        return self.world.sim.choices.choose(f"users/{what}", options)

    def come_back(self, node: str) -> None:
        """Start the agent of a node again, unless its machine is lost for good."""
        program = self.world.programs[node]
        if program.ended is ProgramStep.CRASHED and node not in self.world.lost:
            program.start()
