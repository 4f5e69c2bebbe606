"""All that makes the choice of a node true, put together: ledgers, bindings, reservations, ghosts, and quotas.

The one place to add another `Tally` (charges.py): what else is counted when a pod comes to a node or goes.
"""

from mainstay.api.kind import Kind
from mainstay.env import Clock
from mainstay.server.placement.binding import Binder
from mainstay.server.placement.charges import Charging
from mainstay.server.placement.commit_point_table import commit_points_of
from mainstay.server.placement.ghosts import Ghosts
from mainstay.server.placement.reservations import Claims, Expiry
from mainstay.server.quota.status import QuotaStatuses
from mainstay.server.quota.zone_quota import ZoneTally
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.store.interface import Store


class Placing:
    """`start` begins what goes on in the background: reservations expire, and the statuses of quotas follow."""

    def __init__(self, store: Store, pods: Kind, clock: Clock) -> None:
        self.shared = SharedWrites(store)
        charging = Charging(self.shared, (ZoneTally(store),))
        self.points = commit_points_of(store, self.shared, charging, clock)
        self.binder = Binder(store, pods, self.shared, charging, Claims(store))
        self.ghosts = Ghosts(store, self.shared)
        self._store = store
        self._clock = clock
        self._background: list[Expiry | QuotaStatuses] = []

    def start(self) -> None:
        self._background = [Expiry(self._store, self.shared, self._clock), QuotaStatuses(self._store)]

    async def stop(self) -> None:
        for each in self._background:
            await each.stop()
