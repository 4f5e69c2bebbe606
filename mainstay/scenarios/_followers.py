"""Programs that follow a collection and believe only what they are told, while a user writes it.

Each keeps a copy by the changes that its informer tells, and looks at each change: it must fit what the copy has. In
the end the copy, the cache and the store are equal.
"""

from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.entry import CachedObject, Change, ChangeType
from mainstay.client.errors import AlreadyExists
from mainstay.client.informer import Informer
from mainstay.client.pump import Collection
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import NAMESPACE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World

NAMES: Final = tuple(f"map-{number}" for number in range(8))
FOLLOWERS: Final = ("streamer-1", "streamer-2", "lister")
LISTS_MAX: Final = 60  # Of one follower in a run of two minutes: with their backoff they cannot list more often.
SILENCE_MAX: Final = timedelta(seconds=15)  # Before a watch is taken for dead.
_TICK: Final = timedelta(milliseconds=10)
_FOR_EVER: Final = timedelta(days=365)


class Copy:
    """What a program holds that only watches."""

    def __init__(self, who: str, informer: Informer) -> None:
        self.who = who
        self.informer = informer
        self.held: dict[ObjectKey, CachedObject] = {}
        informer.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        held = self.held.pop(change.key, None)
        fits = (
            held is None
            if change.type is ChangeType.ADDED
            else held is not None and change.old is not None and (held.uid, held.revision) == _at(change.old)
        )
        if not fits:
            raise Violated("following", f"{self.who} received {change.type} of {change.key}, but holds {held}")
        if change.new is not None:
            if held is not None and change.new.revision <= held.revision:
                raise Violated("following", f"{self.who} received an older version of {change.key}")
            self.held[change.key] = change.new


class FollowerStage(UserStage):
    turn_every = timedelta(milliseconds=400)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.copies: dict[str, Copy] = {}
        """By program: that of its present incarnation."""
        self._changes = 0
        for name in FOLLOWERS:
            world.add_program(name, partial(self._follow, name))

    async def ready(self) -> None:
        await super().ready()
        while len(self.copies) < len(FOLLOWERS):
            await tasks.sleep(_TICK)
        for copy in self.copies.values():
            await copy.informer.synced()

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        try:
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}})
        except AlreadyExists:
            if self.choose("deletes", 2):
                await client.delete(CONFIG_MAPS, name, NAMESPACE)
            else:
                self._changes += 1
                await client.patch(CONFIG_MAPS, name, NAMESPACE, {"data": {"changes": str(self._changes)}})

    async def check(self) -> None:
        page = await self.world.store.range(f"core/configmaps/{NAMESPACE}/")
        there = {
            entry.key.rpartition("/")[2]: (msgspec.json.decode(entry.value)["metadata"]["uid"], entry.revision)
            for entry in page.entries
        }
        for copy in self.copies.values():
            cached = {entry.key.name: _at(entry) for entry in copy.informer.cache.entries()}
            held = {key.name: _at(entry) for key, entry in copy.held.items()}
            for what, found in (("the cache of", cached), ("what was delivered to", held)):
                if found != there:
                    raise Violated("following", f"{what} {copy.who} is {found}, but the store has {there}")
            if copy.informer.counters.lists > LISTS_MAX:
                lists = copy.informer.counters.lists
                raise Violated("following", f"{copy.who} listed everything again {lists} times")

    async def _follow(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            streams = name != "lister"
            informer = Informer(
                client,
                env,
                Collection(CONFIG_MAPS, NAMESPACE),
                streams_state=streams,
                page_limit=3,
                silence_max=SILENCE_MAX,
            )
            self.copies[name] = Copy(name, informer)
            informer.start()
            await tasks.sleep(_FOR_EVER)


def _at(entry: CachedObject) -> tuple[str, int]:
    return entry.uid, entry.revision
