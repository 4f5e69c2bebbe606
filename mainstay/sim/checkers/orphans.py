"""At the end nothing is orphaned: no room is held without need, and no pod is on a node that does not exist.

(SPEC T1: repair eventually removes orphaned state.) That this takes a while is no violation, so it is only asked for in
the end, by `find_orphans`. What owners leave behind is in owned.py.
"""

from typing import TYPE_CHECKING, Final

from mainstay.api.reservations import is_active
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

NAME: Final = "orphans"
_WORKLOADS: Final = {
    "Deployment": "apps/deployments/",
    "ReplicaSet": "apps/replicasets/",
    "Job": "batch/jobs/",
    "Pod": "core/pods/",
}


class Orphans:
    name = NAME

    def saw(self, event: Event) -> None:
        """It is only asked for in the end."""

    async def at_end(self, world: "World") -> None:
        if problem := await find_orphans(world):
            raise Violated(self.name, problem)


async def find_orphans(world: "World") -> str:
    """The first orphan; empty if there is none."""
    store = world.store
    for entry in (await store.range("mainstay.dev/reservations/")).entries:
        reservation = decode_commit(entry.value)
        workload = reservation["spec"]["workload"]
        prefix = _WORKLOADS.get(workload["kind"])
        if prefix is None or not is_active(reservation):
            continue
        owner = await store.get(f"{prefix}{reservation['metadata']['namespace']}/{workload['name']}")
        if owner is None or decode_commit(owner.value)["metadata"]["uid"] != workload["uid"]:
            return f"{entry.key} is reserved for {workload['kind']} {workload['name']}, which does not exist at the end"
    for entry in (await store.range("core/pods/")).entries:
        node = decode_commit(entry.value)["spec"].get("nodeName")
        if node and await store.get(f"core/nodes/{node}") is None:
            return f"{entry.key} is on {node}, which does not exist at the end"
    return ""
