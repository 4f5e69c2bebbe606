"""A stage with one scheduler and one process of controllers, beside nodes that have agents of their own."""

from collections.abc import Sequence
from functools import partial

from mainstay.controllers.component import Controllers
from mainstay.env import Env
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.lease import LeaseSettings
from mainstay.scenarios._stages import LEASE, UserStage
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.cluster.world import World


class ControlProgramsStage(UserStage):
    controllers: Sequence[Controller] = ()
    loops: Sequence[LoopSpec] = ()
    lease: LeaseSettings = LEASE

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.scheduler: Scheduler | None = None
        """That of the present incarnation."""

    def add_control_programs(self, scheduler: str, program: str, *, is_scheduler_spared: bool = False) -> None:
        """Call it once, after the nodes were added."""
        schedule = partial(self._schedule, scheduler)
        self.world.add_program(scheduler, schedule, user=identities.SCHEDULER, is_spared=is_scheduler_spared)
        self.world.add_program(program, partial(self._look_after, program), user=identities.CONTROLLERS)
        self._expected += 1

    async def _schedule(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            settings = SchedulerSettings(lease_name="")
            self.scheduler = Scheduler(client, env, instance=name, settings=settings, recorder=self.world.recorder)
            await self.scheduler.run()

    async def _look_after(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            component = self.components[name] = Controllers(
                client,
                env,
                instance=name,
                controllers=self.controllers,
                loops=self.loops,
                settings=ComponentSettings(lease=self.lease),
                recorder=self.world.recorder,
            )
            await component.run()
