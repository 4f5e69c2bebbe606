"""Which commit points there are: the one table of what happens together with a write, besides the write."""

from mainstay.env import Clock
from mainstay.server.placement.charges import Charging
from mainstay.server.placement.holds import HoldPoint
from mainstay.server.placement.node_commit import NodePoint
from mainstay.server.placement.pod_commit import PodPoint
from mainstay.server.placement.reservations import ReservationPoint
from mainstay.server.quota.resource_quota import Quotas
from mainstay.server.quota.zone_quota import ZoneQuotaPoint
from mainstay.server.services.addresses import Addresses, released
from mainstay.server.storage.commit_points import Beside, CommitPoints, Intended
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.server.storage.terms import term_writes
from mainstay.store.interface import Store


def commit_points_of(store: Store, shared: SharedWrites, charging: Charging, clock: Clock) -> CommitPoints:
    return CommitPoints(
        {
            ("", "Service"): (ServicePoint(Addresses(store)),),
            ("coordination.k8s.io", "Lease"): (LeasePoint(),),
            ("", "Pod"): (PodPoint(store, charging),),
            ("", "Node"): (NodePoint(),),
            ("mainstay.dev", "Reservation"): (ReservationPoint(store, shared),),
            ("mainstay.dev", "ZoneQuota"): (ZoneQuotaPoint(store, shared),),
            ("mainstay.dev", "Hold"): (HoldPoint(clock),),
        },
        everywhere=(Quotas(store, shared),),
    )


class ServicePoint:
    """A Service takes its addresses, and gives them back."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses

    def concerns(self, intended: Intended) -> bool:
        return True

    async def beside(self, intended: Intended) -> Beside:
        if intended.new is None:
            return Beside(writes=released(intended.kind, intended.old or {}))
        placed = await self._addresses.placed(intended.kind, intended.key, intended.new, intended.old)
        return Beside(placed.checks, placed.writes, object=placed.object)


class LeasePoint:
    """A lease that changes hands begins a term."""

    def concerns(self, intended: Intended) -> bool:
        return True

    async def beside(self, intended: Intended) -> Beside:
        return Beside(writes=term_writes(intended.kind, intended.new, intended.old))
