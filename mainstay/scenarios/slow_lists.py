"""A client reads a list page by page, for minutes, while the store forgets what is old.

All pages of a list are of one revision. The store keeps its history for five minutes, so a list that takes less than
that is read to its end, whatever is written meanwhile and however often the store is compacted.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Expired
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import NAMESPACE, UserStage
from mainstay.server.storage.compaction import KEEP, compact_regularly
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

READER, COMPACTOR = "reader", "compactor"
NAMES: Final = tuple(f"map-{number}" for number in range(10))
PAGE: Final = 3
PAUSES: Final = tuple(timedelta(seconds=seconds) for seconds in (10, 45, 80))
READ_WITHIN: Final = KEEP - timedelta(seconds=30)
_RETRY: Final = timedelta(seconds=2)


class SlowLists(UserStage):
    turn_every = timedelta(seconds=8)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._changes = 0
        self._lists = 0
        world.add_program(READER, self._read, is_spared=True)
        # In the simulator servers do not do this themselves.
        world.add_program(COMPACTOR, lambda env: compact_regularly(world.store, env.clock), is_spared=True)

    async def prepare(self, client: Client) -> None:
        for name in NAMES:
            await self._write(client, name)

    async def turn(self, client: Client) -> None:
        await self._write(client, NAMES[self.choose("which", len(NAMES))])

    async def check(self) -> None:
        if not self._lists:
            raise Violated("slow lists", "no list was read to its end")

    async def _write(self, client: Client, name: str) -> None:
        self._changes += 1
        data = {"changes": str(self._changes)}
        try:
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data})
        except AlreadyExists:
            await client.patch(CONFIG_MAPS, name, NAMESPACE, {"data": data})

    async def _read(self, env: Env) -> None:
        async with self.world.client_for(READER, env) as client:
            await self._begun.wait()
            while not self._is_over:
                began_ns = env.clock.monotonic_ns()
                pages: list[Sequence[Object]] = []
                continue_ = ""
                while _since(env, began_ns) < READ_WITHIN:
                    try:
                        page = await client.list(CONFIG_MAPS, NAMESPACE, limit=PAGE, continue_=continue_)
                    except Expired as error:
                        text = f"a list that began {_since(env, began_ns)} ago cannot be continued: {error}"
                        raise Violated("slow lists", text) from error
                    except ApiError:
                        await tasks.sleep(_RETRY)
                        continue
                    pages.append(page.items)
                    continue_ = page.continue_
                    if not continue_:
                        self._finish(pages)
                        break
                    await tasks.sleep(PAUSES[self.choose("reads on after", len(PAUSES))])

    def _finish(self, pages: Sequence[Sequence[Object]]) -> None:
        self._lists += 1
        names = [item["metadata"]["name"] for page in pages for item in page]
        if names != sorted(NAMES):
            raise Violated("slow lists", f"a list has {names}, but there are {sorted(NAMES)}")


def _since(env: Env, began_ns: int) -> timedelta:
    return timedelta(microseconds=(env.clock.monotonic_ns() - began_ns) // 1000)


SCENARIO: Final = Scenario(
    name="slow-lists",
    about="Lists are read page by page for minutes while history is compacted: no page expires too early.",
    make=SlowLists,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("answer-lost", "request-lost", "latency", "server-crash"),
    lasts=timedelta(minutes=15),
    ids=("W5",),
)
