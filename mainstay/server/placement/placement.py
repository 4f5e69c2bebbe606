"""All that makes the choice of a node true, put together: ledgers, bindings, reservations, ghosts, and quotas.

The one place to add another `ChargeCounter` (charges.py), which is what else is counted when a pod comes to a node or
goes; and the one table of commit points: what happens together with a write of a kind, besides the write.
"""

from collections.abc import Mapping, Sequence

from mainstay.env import Clock
from mainstay.server.placement.binding import BindingHandler
from mainstay.server.placement.charges import Charging
from mainstay.server.placement.ghosts import Ghosts
from mainstay.server.placement.holds import HoldPoint
from mainstay.server.placement.ledger.ledger import LEDGERS
from mainstay.server.placement.ledger.ledger_sum import LEDGER_SUM
from mainstay.server.placement.node_commit import NodePoint
from mainstay.server.placement.pod_commit import PodPoint
from mainstay.server.placement.policy_commit import PolicyPoint
from mainstay.server.placement.reservations import Claims, Expiry, ReservationPoint
from mainstay.server.quota.quota_sums import QUOTA_SUMS
from mainstay.server.quota.resource_quota import Quotas
from mainstay.server.quota.status import QuotaStatuses
from mainstay.server.quota.zone_quota import ZoneQuotaPoint, ZoneTally
from mainstay.server.services.addresses import ServiceAddresses, ServicePoint
from mainstay.server.storage.commit_points import CommitPoint, CommitPoints, Intended, TransactionParts
from mainstay.server.storage.committer import Committer
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.server.storage.sums import SumChecks
from mainstay.server.storage.terms import term_writes
from mainstay.store.interface import Store

PointsByKind = Mapping[tuple[str, str], Sequence[CommitPoint]]


class Placement:
    """`start` begins what goes on in the background: reservations expire, and the statuses of quotas follow."""

    def __init__(self, store: Store, clock: Clock, points: PointsByKind) -> None:
        """`points` are those of other rooms."""
        self.shared = SharedWrites(store)
        self._sums = SumChecks(store, {LEDGERS: LEDGER_SUM, **QUOTA_SUMS})
        self.shared.on_commit = self._sums.committed
        charging = Charging(self.shared, (ZoneTally(self.shared),))
        own = build_commit_points(store, charging, self.shared, clock)
        self.points = CommitPoints(
            {kind: (*points.get(kind, ()), *own.get(kind, ())) for kind in (*own, *points)},
            everywhere=(Quotas(store, self.shared),),
        )
        self.committer = Committer(store, self.shared)
        self.binder = BindingHandler(store, self.shared, self.committer, charging, Claims(self.shared))
        self.ghosts = Ghosts(store, self.shared)
        self._store = store
        self._clock = clock
        self._background: list[Expiry | QuotaStatuses] = []

    def start(self) -> None:
        self._background = [Expiry(self._store, self.shared, self._clock), QuotaStatuses(self._store)]

    async def stop(self) -> None:
        for each in self._background:
            await each.stop()
        await self._sums.stop()


def build_commit_points(store: Store, charging: Charging, shared: SharedWrites, clock: Clock) -> PointsByKind:
    return {
        ("", "Service"): (ServicePoint(ServiceAddresses(store)),),
        ("coordination.k8s.io", "Lease"): (LeasePoint(),),
        ("", "Pod"): (PodPoint(store, charging),),
        ("", "Node"): (NodePoint(),),
        ("mainstay.dev", "Reservation"): (ReservationPoint(store, shared),),
        ("mainstay.dev", "ZoneQuota"): (ZoneQuotaPoint(store, shared),),
        ("mainstay.dev", "Hold"): (HoldPoint(clock),),
        ("mainstay.dev", "PlacementPolicy"): (PolicyPoint(store),),
    }


class LeasePoint:
    """Implements `CommitPoint`: a lease that changes hands begins a term."""

    def applies_to(self, intended: Intended) -> bool:
        return True

    async def parts_for(self, intended: Intended) -> TransactionParts:
        return TransactionParts(writes=term_writes(intended.kind, intended.new, intended.old))
