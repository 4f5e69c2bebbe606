"""Of three candidates for one lease only the one in office gets anything done, whatever they believe.

The leader counts upwards in one ConfigMap, and writes what it counts without any other condition than its term: if a
leader that was deposed still got a write through, the count would go back or be wrong. In the end it must have gone up
one by one, and there must have been a leader.
"""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Fenced, NotFound
from mainstay.env import Env, tasks
from mainstay.loop.lease import Leader
from mainstay.loop.term import Deposed, Term
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage

SERVERS: Final = ("server-1", "server-2")
CANDIDATES: Final = ("candidate-1", "candidate-2", "candidate-3")
NAMESPACE: Final = "default"
COUNTER: Final = "counter"
LEASE: Final = "counting"
COUNT_EVERY: Final = timedelta(seconds=1)
COUNTER_KEY: Final = f"core/configmaps/{NAMESPACE}/{COUNTER}"


class OneLeader(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._begun = asyncio.Event()
        self._is_over = False
        self._led: dict[str, None] = {}
        for name in SERVERS:
            world.add_server(name)
        for name in CANDIDATES:
            world.add_program(name, partial(self._candidate, name))

    async def ready(self) -> None:
        while not self._led:
            await tasks.sleep(timedelta(milliseconds=100))

    async def begin(self) -> None:
        self._begun.set()

    async def finish(self) -> None:
        self._is_over = True

    async def check(self) -> None:
        commits = [event for event in self.world.history.events if isinstance(event, RevisionCommitted)]
        last = 0
        for commit in commits:
            if commit.key != COUNTER_KEY:
                continue
            count = int(msgspec.json.decode(commit.value or b"")["data"]["count"])
            if count not in (last, last + 1):
                raise Violated("one leader", f"the count went from {last} to {count}", [commit])
            last = count
        if last == 0:
            raise Violated("one leader", "no candidate has ever counted")

    async def _candidate(self, name: str, env: Env) -> None:
        identity = f"{name}_{self.world.programs[name].incarnation}"
        async with self.world.client_for(name, env) as client:

            async def lead(term: Term) -> None:
                self._led[identity] = None
                await self._begun.wait()
                await self._count(client, term)

            await Leader(client, env, NAMESPACE, LEASE, identity).run(lead)

    async def _count(self, client: Client, term: Term) -> None:
        count: int | None = None  # The last one that is known to be written.
        while True:
            await tasks.sleep(COUNT_EVERY)
            if self._is_over:
                continue
            # A careless leader: it does not ask `term.require()` before it acts, and what it has sent goes on by itself
            # when it has stopped. Nothing but the server's check stands between it and its successor.
            try:
                if count is None:
                    count = await self._last_count(client, term)
                wrong = await asyncio.shield(tasks.spawn(_written(client, term, count + 1), name="count"))
            except ApiError as error:
                wrong = error
            if isinstance(wrong, Fenced):
                raise Deposed(str(wrong))
            if wrong is None and count is not None:
                count += 1
            # Otherwise it may have been written all the same. The next time it is the same operation.

    async def _last_count(self, client: Client, term: Term) -> int:
        try:
            found = await client.get(CONFIG_MAPS, COUNTER, NAMESPACE)
        except NotFound:
            made = {"metadata": {"name": COUNTER, "namespace": NAMESPACE}, "data": {"count": "0"}}
            found = await client.create(CONFIG_MAPS, made, write=WriteOptions(term=term.text))
        return int(found["data"]["count"])


async def _written(client: Client, term: Term, count: int) -> ApiError | None:
    """Write a count. Returns what was wrong: the client may be gone by then."""
    made = {"metadata": {"name": COUNTER, "namespace": NAMESPACE}, "data": {"count": str(count), "term": term.text}}
    # With an id: a request that was given up may still be under way, and must not be done after later ones.
    write = WriteOptions(term=term.text, operation=f"{LEASE}.{term.revision}.{count}")
    try:
        await client.replace(CONFIG_MAPS, made, write=write)
    except ApiError as error:
        return error
    return None


SCENARIO: Final = Scenario(
    name="one-leader",
    about="Three candidates for one lease, each of which counts while it leads: only the current leader can write.",
    make=OneLeader,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OneActingLeader()],
    ids=("18", "F8"),
)
