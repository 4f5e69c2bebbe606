"""Objects of three kinds own each other, change owners, and are deleted in all three ways, while the clean-up fails.

It is restarted, and begins with a graph that is not whole (kubernetes #88097); owners go while it is away (#109748);
objects get another owner right before the first one goes (#114603); some name an owner in another namespace (#65200);
names come again. (Catalogue 14 and 15.)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NAMESPACES
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Conflict, NotFound, Unavailable
from mainstay.controllers.garbage.loop import OwnerCleanup
from mainstay.env import tasks
from mainstay.loop.kernel import LoopSpec
from mainstay.scenarios._ownership import CLEANERS, KINDS, OwnershipStage, define, named
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.owned import OwnershipChecker
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

OTHER: Final = "other"
NAMES: Final = 8  # So few that they come again.
WAYS: Final = (Propagation.BACKGROUND, Propagation.FOREGROUND, Propagation.ORPHAN)
_KINDS: Final = tuple(KINDS.values())
_SOON: Final = timedelta(milliseconds=300)
_LATE: Final = timedelta(seconds=5)


class OwnersAndDependents(OwnershipStage):
    turn_every = timedelta(milliseconds=700)

    def __init__(self, world: World) -> None:
        super().__init__(world, [LoopSpec("owner-cleanup", OwnerCleanup)])
        self._made: list[tuple[KindName, Object]] = []
        """In the order in which they were made: owners are older than what they own, so there are no circles."""
        self._count = 0

    async def prepare(self, client: Client) -> None:
        await define(client)
        await client.create(NAMESPACES, {"metadata": {"name": OTHER}})

    async def turn(self, client: Client) -> None:
        match self.choose("what", 9):
            case 0:
                await self._family(client)
            case 1:
                await self._make(client, [])
            case 2 | 3:
                await self._make(client, self._some(1 + self.choose("owners", 2)))
            case 4 | 5:
                await self._delete(client, self._pick("deleted"))
            case 6:
                await self._change_owner(client)
            case 7:
                await self._rescue(client)
            case _:
                await self._make(client, self._some(1), namespace=OTHER)  # Wrong: the owner is elsewhere.

    async def _family(self, client: Client) -> None:
        """An owner that is deleted as soon as it has dependents: who is late to hear of them?"""
        owner = await self._make(client, [])
        if owner is None:
            return
        if self.choose("late", 2):
            await tasks.sleep(_SOON * 4)  # Until all know of the owner.
            self._keep_in_the_dark(tuple(KINDS)[self.choose("late kind", len(KINDS))])
        for _ in range(1 + self.choose("children", 3)):
            child = await self._make(client, [owner])
            if child is not None and self.choose("grandchild", 2):
                await self._make(client, [child])
        if self.choose("waits", 2):
            await tasks.sleep(_SOON * 4)
        await self._delete(client, owner)

    def _keep_in_the_dark(self, prefix: str) -> None:
        """Those who clean up hear late of what happens to one kind."""
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who in CLEANERS and tap.prefix == prefix:
                    tap.hold()
                    self.world.after(_LATE, tap.release)

    async def _change_owner(self, client: Client) -> None:
        """Another owner, and then the first one goes at once."""
        found = self._some(2)
        if len(found) < 2:
            return
        first, second = found
        child = await self._make(client, [first])
        if child is None:
            return
        await tasks.sleep(_SOON * self.choose("change", 3))
        kind, obj = child
        body = {"metadata": {"ownerReferences": [named(second[1], second[0])]}}
        try:
            await client.patch(kind, obj["metadata"]["name"], NAMESPACE, body)
        except NotFound:
            return
        await self._delete(client, first)

    async def _rescue(self, client: Client) -> None:
        """The owner goes, and its dependents get another one at the last moment, if they are still there."""
        first, second = await self._make(client, []), await self._make(client, [])
        if first is None or second is None:
            return
        children = [await self._make(client, [first]) for _ in range(4)]
        kind, obj = first
        await client.delete(kind, obj["metadata"]["name"], NAMESPACE, propagation=Propagation.BACKGROUND)
        body = {"metadata": {"ownerReferences": [named(second[1], second[0])]}}
        for child in children:
            if child is not None:
                with suppress(NotFound):
                    await client.patch(child[0], child[1]["metadata"]["name"], NAMESPACE, body)

    async def _make(
        self, client: Client, owners: list[tuple[KindName, Object]], namespace: str = NAMESPACE
    ) -> tuple[KindName, Object] | None:
        kind = _KINDS[self.choose("kind", len(_KINDS))]
        self._count += 1
        metadata: Object = {"name": f"thing-{self.choose('name', NAMES)}", "namespace": namespace}
        if owners:
            is_loose = self.choose("loose", 4) == 3
            metadata["ownerReferences"] = [named(obj, of, blocks=not is_loose) for of, obj in owners]
        try:
            made = kind, await client.create(kind, {"metadata": metadata})
        except AlreadyExists:
            return None
        if namespace == NAMESPACE:
            self._made.append(made)
        return made

    async def _delete(self, client: Client, which: tuple[KindName, Object] | None) -> None:
        if which is None:
            return
        kind, obj = which
        metadata = obj["metadata"]
        way = WAYS[self.choose("way", len(WAYS))]
        try:
            current = await client.get(kind, metadata["name"], NAMESPACE)
            if "deletionTimestamp" not in current["metadata"]:  # What it was told first holds.
                await client.delete(kind, metadata["name"], NAMESPACE, uid=metadata["uid"], propagation=way)
        except (NotFound, Conflict):
            pass  # It is gone.
        except Unavailable as error:
            if error.may_have_happened:
                return
            raise

    def _pick(self, what: str) -> tuple[KindName, Object] | None:
        recent = self._made[-8:]
        return recent[self.choose(what, len(recent))] if recent else None

    def _some(self, count: int) -> list[tuple[KindName, Object]]:
        """Some that were made, oldest first; they may be gone."""
        recent = self._made[-8:]
        if not recent:
            return []
        numbers = sorted({self.choose("owner", len(recent)) for _ in range(count)})
        return [recent[number] for number in numbers]


SCENARIO: Final = Scenario(
    name="owners-and-dependents",
    about="Owners and dependents change, with all deletion policies: only objects without owners are deleted.",
    make=OwnersAndDependents,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OneActingLeader(), OwnershipChecker(KINDS, CLEANERS)],
    lasts=timedelta(seconds=60),
    calm=timedelta(minutes=15),
    silence=SILENCE,
    ids=("14", "15", "F8", "W6"),
)
