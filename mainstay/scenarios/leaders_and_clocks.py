"""Three candidates whose clocks differ by more than the lease lasts, and jump. (kubernetes #23731; client-go #448)

One-leader is about what gets written. This is about what they believe: no two of them that run may think at the same
moment that they lead. That is all there is where a server does not know terms.
"""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Final

from mainstay.client.client import Client
from mainstay.env import Env, tasks
from mainstay.loop.lease import Leader
from mainstay.loop.term import Term
from mainstay.scenarios._stages import LEASE, NAMESPACE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

CANDIDATES: Final = ("candidate-1", "candidate-2", "candidate-3")
JUMPS: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 10, -10, 3600, -3600))
LOOK_EVERY: Final = timedelta(milliseconds=100)
_FOR_EVER: Final = timedelta(days=365)


class LeadersAndClocks(UserStage):
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._terms: dict[str, tuple[int, Term]] = {}  # By candidate: its incarnation then, and its latest term.
        self._looking: asyncio.Task[None] | None = None
        for name in CANDIDATES:
            world.add_program(name, partial(self._candidate, name))

    async def ready(self) -> None:
        while not self._leaders():
            await tasks.sleep(LOOK_EVERY)

    async def begin(self) -> None:
        await super().begin()
        self._looking = tasks.spawn(self._look(), name="who leads")

    async def turn(self, client: Client) -> None:
        name = CANDIDATES[self.choose("whose clock", len(CANDIDATES))]
        self.world.sim.get_clock(name).jump(JUMPS[self.choose("jump", len(JUMPS))])

    async def check(self) -> None:
        if not self._leaders():
            raise Violated("leaders and clocks", "there is no leader at the end")

    async def _look(self) -> None:
        while True:
            await tasks.sleep(LOOK_EVERY)
            if len(leaders := self._leaders()) > 1:
                raise Violated("leaders and clocks", f"{' and '.join(leaders)} both believe that they lead")

    def _leaders(self) -> list[str]:
        """Those that run, and would write now. One that stands still would not, and looks at its clock afterwards."""
        programs = self.world.programs
        return [
            name
            for name, (incarnation, term) in self._terms.items()
            if programs[name].is_running
            and not programs[name].is_paused
            and programs[name].incarnation == incarnation
            and term.is_valid
        ]

    async def _candidate(self, name: str, env: Env) -> None:
        incarnation = self.world.programs[name].incarnation
        async with self.world.client_for(name, env) as client:

            async def lead(term: Term) -> None:
                self._terms[name] = incarnation, term
                await tasks.sleep(_FOR_EVER)

            await Leader(client, env, NAMESPACE, "leading", f"{name}_{incarnation}", LEASE).run(lead)


SCENARIO: Final = Scenario(
    name="leaders-and-clocks",
    about="Candidates have clocks that are hours apart and jump: no two believe at the same time that they lead.",
    make=LeadersAndClocks,
    checkers=lambda: [OneActingLeader()],
    ids=("18",),
)
