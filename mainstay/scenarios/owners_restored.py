"""An owner is deleted, its dependents are cleaned up, and the store is restored from a backup that has them all.

Who cleans up remembers for ten seconds which owners are gone. The store is restored later than that, and the watch of
the owners may come late: then only the server can say that they are there again, and it has to be asked.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, SERVICE_ACCOUNTS
from mainstay.client.client import Client
from mainstay.controllers.garbage.loop import ABSENT_FOR, OwnerCleanup
from mainstay.env import tasks
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.lease import LeaseSettings
from mainstay.scenarios._ownership import CLEANERS, OwnershipStage, named
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.cluster.world import KeptLog, World
from mainstay.sim.run.scenario import Scenario

CHILDREN: Final = ("child-1", "child-2", "child-3")
OWNER: Final = "owner"
_SOON: Final = timedelta(seconds=3)
LATE: Final = timedelta(seconds=8)
_OWNERS_PREFIX, _CHILDREN_PREFIX = "core/serviceaccounts/", "core/configmaps/"


class OwnersRestored(OwnershipStage):
    turn_every = timedelta(seconds=5)
    cleaners = CLEANERS[:1]
    lease = LeaseSettings()  # As usual: its holder must not lose it, and what it remembers, while servers restart.

    def __init__(self, world: World) -> None:
        super().__init__(world, [LoopSpec("owner-cleanup", OwnerCleanup)])
        self._families = 0
        self._restored: list[int] = []
        """The families that a restored store has had again."""

    async def turn(self, client: Client) -> None:
        self._families += 1
        family = self._families
        owner = await client.create(SERVICE_ACCOUNTS, _an_object(f"{OWNER}-{family}"))
        for child in CHILDREN:
            metadata = {"ownerReferences": [named(owner, SERVICE_ACCOUNTS)]}
            await client.create(CONFIG_MAPS, _an_object(f"{child}-{family}", **metadata))
        await tasks.sleep(_SOON)
        backup = self.world.backup()
        await client.delete(SERVICE_ACCOUNTS, f"{OWNER}-{family}", NAMESPACE)
        await tasks.sleep(_SOON + ABSENT_FOR + _SOON * self.choose("later", 3))
        if not self._is_over:  # Else all is healed by now, and only the checks are left.
            self._restored.append(family)
            await self._restore(backup)

    async def _restore(self, backup: KeptLog) -> None:
        if self.choose("owners are late", 4):
            self._hold_back_owners()
        self.world.faults.note("the store is restored")
        await self.world.restore(backup)
        await tasks.sleep(LATE)

    def _hold_back_owners(self) -> None:
        """The watches of the owners' kind deliver nothing for a while."""
        held: list[WatchProxy] = []

        def hold(tap: WatchProxy) -> None:
            if tap.who in CLEANERS and tap.prefix == _OWNERS_PREFIX:
                held.append(tap)
                tap.hold()

        def release() -> None:
            self.world.faults.stop_changing(hold)
            for tap in held:
                tap.release()

        self.world.faults.change_taps(hold)
        self.world.faults.undo_after(LATE, "the owners' watches are late", release)

    async def check(self) -> None:
        store = self.world.store
        for family in self._restored:
            if await store.get(f"{_OWNERS_PREFIX}{NAMESPACE}/{OWNER}-{family}") is None:
                continue  # It was made after a backup to which the store was restored later.
            for child in CHILDREN:
                if await store.get(f"{_CHILDREN_PREFIX}{NAMESPACE}/{child}-{family}") is None:
                    raise Violated("owners restored", f"{child}-{family} is deleted, but its owner exists")


def _an_object(name: str, **metadata: object) -> Object:
    return {"metadata": {"name": name, "namespace": NAMESPACE, **metadata}}


SCENARIO: Final = Scenario(
    name="owners-restored",
    about="A restored store has owners again that were deleted: their dependents stay.",
    make=OwnersRestored,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("watch-disconnect", "watch-delay", "pause", "latency"),
    lasts=timedelta(seconds=50),
    calm=timedelta(minutes=10),
    silence=SILENCE,
    ids=("22",),
)
