"""What most scenarios begin with: two servers, a user who wants things, and controllers that see to them."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import Env, tasks
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.lease import LeaseSettings
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Stage

SERVERS: Final = ("server-1", "server-2")
USER: Final = "user"
NAMESPACE: Final = "default"
SILENCE: Final = timedelta(minutes=2)
"""How long nothing must be written before a controller has come to rest: it takes a watch for dead after 90 seconds,
and after a minute of failures it tries again within one more."""

_TICK: Final = timedelta(milliseconds=100)
# Shorter than usual, so that several leaders fit into a run.
LEASE: Final = LeaseSettings(
    times=LeaseTimes(duration=timedelta(seconds=5), renew_every=timedelta(seconds=1.5)),
    retry_every=timedelta(seconds=1),
)


class UserStage(Stage):
    """The user takes turns while things are wanted, and is spared by faults: only the servers may fail it."""

    turn_every = timedelta(seconds=1)
    """Up to twice as long, by chance."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.components: dict[str, Component] = {}
        """By program: that of the present incarnation."""
        self._expected = 0
        self._is_prepared = False
        self._begun = asyncio.Event()
        self._is_over = False
        for name in SERVERS:
            world.add_server(name)
        world.add_program(USER, self._use, is_spared=True)

    # For subclasses.

    async def prepare(self, client: Client) -> None:
        """What the user does before all else, while nothing fails."""

    async def turn(self, client: Client) -> None:
        """One thing that the user does. May raise `ApiError`."""

    def choose(self, what: str, options: int) -> int:
        """A choice of the user's."""
        return self.world.sim.choices.choose(f"work/{what}", options)

    def add_controller(self, controller: Controller, *programs: str) -> None:
        """Let these programs run a controller. If there are several, they elect one of them."""
        for program in programs:
            self.world.add_program(
                program,
                lambda env, program=program: self._control(controller, program, env, len(programs) > 1),  # type: ignore[misc]
            )
            self._expected += 1

    # As a stage.

    async def ready(self) -> None:
        while not self._is_prepared or len(self.components) < self._expected:
            await tasks.sleep(_TICK)
        for component in self.components.values():
            await component.informers.synced()

    async def begin(self) -> None:
        self._begun.set()

    async def finish(self) -> None:
        self._is_over = True

    # Programs.

    async def _use(self, env: Env) -> None:
        async with self.world.client_for(USER, env) as client:
            await self.prepare(client)
            self._is_prepared = True
            await self._begun.wait()
            while not self._is_over:
                await tasks.sleep(self.turn_every * (1 + self.choose("pause", 5) / 4))
                with suppress(ApiError):  # A server is away. The next turn is another one.
                    await self.turn(client)
            await asyncio.Event().wait()

    async def _control(self, controller: Controller, program: str, env: Env, is_elected: bool) -> None:
        async with self.world.client_for(program, env) as client:
            settings = ComponentSettings(lease=LEASE)
            component = self.components[program] = Component(
                controller.name,
                [controller],
                client,
                env,
                instance=program,
                elected=is_elected,
                settings=settings,
                recorder=self.world.recorder,
            )
            await component.run()
