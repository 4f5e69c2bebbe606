"""All that makes the choice of a node true, put together: ledgers, bindings, ghosts, and who else counts pods.

The one place to add another `Tally` (what else is counted when a pod comes to a node or goes), or what reservations
hold (`Reservations` in binding.py).
"""

from mainstay.api.kind import Kind
from mainstay.server.binding import Binder
from mainstay.server.charging import Charging
from mainstay.server.ghosts import Ghosts
from mainstay.server.points import commit_points_of
from mainstay.server.shared_writes import SharedWrites
from mainstay.store.interface import Store


class Placing:
    def __init__(self, store: Store, pods: Kind) -> None:
        self.shared = SharedWrites(store)
        charging = Charging(self.shared, tallies=())
        self.points = commit_points_of(store, charging)
        self.binder = Binder(store, pods, self.shared, charging)
        self.ghosts = Ghosts(store, self.shared)
