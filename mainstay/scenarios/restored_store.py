"""The store is put back to a backup: revisions go back, and what was done since was never done. (kubernetes #107457)

A watcher holds a revision that the store has not reached, and would get no changes until it does. All find out
within a minute or so, read everything again and believe it; what their caches have and the store has not is gone,
leaders from the lost time are none any more, and each workload that the store knows gets what it wants. (Catalogue 22)
"""

from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import REPLICASETS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("web", "api", "db")
BACKUP_AT: Final = 3
RESTORE_AT: Final = 7


class RestoredStore(WorkloadStage):
    controllers = (ReplicaSets(),)
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turns = 0
        self._backup = world.backup

    async def turn(self, client: Client) -> None:
        self._turns += 1
        if self._turns == BACKUP_AT:
            backup = self.world.backup()
            self._backup = lambda: backup
        elif self._turns == RESTORE_AT:
            await tasks.sleep(timedelta(seconds=self.choose("when", 4)))
            self.world.faults.note("the store is restored")
            self.world.faults.spawn(self.world.restore(self._backup()), "restore")
        elif self._turns < RESTORE_AT or self.choose("is used", 2):
            name = NAMES[self.choose("which", len(NAMES))]
            replicas = self.choose("replicas", 4)
            try:
                await client.create(REPLICASETS, a_workload(name, replicas))
            except AlreadyExists:
                await client.patch(REPLICASETS, name, NAMESPACE, {"spec": {"replicas": replicas}})

    async def check(self) -> None:
        pods = await self.objects(PODS_PREFIX)
        for each in await self.objects("apps/replicasets/"):
            wanted = each["spec"]["replicas"]
            own = [pod for pod in pods if _belongs_to(pod, each)]
            if len(own) != wanted or not all(pod_state.is_ready(pod) for pod in own):
                name = each["metadata"]["name"]
                raise Violated("restored store", f"{name} wants {wanted} pods at the end, but has {len(own)}")
        for component in self.components.values():
            for informer in component.informers.all():
                if informer.cache.revision > await self.world.store.revision():
                    raise Violated(
                        "restored store", f"a cache of {component.instance} is ahead of the store at the end"
                    )


def _belongs_to(pod: Object, replica_set: Object) -> bool:
    references = pod["metadata"].get("ownerReferences") or ()
    return any(each["uid"] == replica_set["metadata"]["uid"] for each in references)


SCENARIO: Final = Scenario(
    name="restored-store",
    about="The store is restored from a backup: all watchers notice, and each workload gets what it wants.",
    make=RestoredStore,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("crash", "pause", "watch-disconnect"),
    lasts=timedelta(seconds=40),
    calm=timedelta(minutes=15),
    silence=SILENCE,
    ids=("22",),
)
