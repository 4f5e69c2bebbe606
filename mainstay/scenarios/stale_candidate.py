"""A scheduler hears of nodes twenty seconds late, while a policy is tried out. (SPEC W9)

A new version of a placement policy packs pods closely, and is active for a scope. What the scheduler knows of its nodes
is old: it chooses one that has shrunk, or is closed by now. Its choice is reasonable, and the commit refuses it: the
pod gets a fresh candidate, and no node is overcommitted. When the watch has caught up, all that can be placed is.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import PLACEMENT_POLICIES, PODS
from mainstay.client.client import Client
from mainstay.scenarios._schedulers import (
    CALM,
    RECHECKED,
    SchedulingStage,
    a_pod,
    add_node,
    cordon,
    end_pod,
    resize_node,
)
from mainstay.scenarios._stages import SILENCE
from mainstay.scheduler.component import SchedulerSettings
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SCHEDULER: Final = "scheduler"
NODES_THERE: Final = ("node-b7", "node-c3")
LATE: Final = timedelta(seconds=20)
AHEAD: Final = 5  # How many pods there are, about.
SIZES: Final = ("1", "3", "6")
POLICY: Final = "risk-placement-v41"
CANARY: Final = "risk-placement-v42"
SETTINGS: Final = SchedulerSettings(lease_name="", cycle=RECHECKED, policy_name=POLICY)
CANARY_AT: Final = 3  # The turn in which the new version becomes active.


class StaleCandidate(SchedulingStage):
    turn_every = timedelta(seconds=4)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers(SCHEDULER, settings=SETTINGS)
        self._turns = 0
        self._made = 0

    async def prepare(self, client: Client) -> None:
        spec = {"policyVersion": "v41", "active": True, "scores": {"LeastAllocated": 1}}
        await client.create(PLACEMENT_POLICIES, {"metadata": {"name": POLICY}, "spec": spec})
        spec = {"policyVersion": "v42", "scope": {"namespaces": ["default"]}, "scores": {"MostAllocated": 5}}
        await client.create(PLACEMENT_POLICIES, {"metadata": {"name": CANARY}, "spec": spec})
        for name in NODES_THERE:
            await add_node(client, name, cpu=SIZES[-1])

    async def turn(self, client: Client) -> None:
        self._turns += 1
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == SCHEDULER and tap.prefix == "core/nodes/":
                    tap.hold()
                    self.world.after(LATE, tap.release)
        if self._turns == CANARY_AT:
            await client.patch(PLACEMENT_POLICIES, CANARY, "", {"spec": {"active": True}})
        node = NODES_THERE[self.choose("which node", len(NODES_THERE))]
        if self.choose("what", 4):
            await resize_node(client, node, cpu=SIZES[self.choose("size", len(SIZES))])
        else:
            await cordon(client, node, bool(self.choose("cordon", 2)))
        for _ in range(1 + self.choose("pods", 2)):
            self._made += 1
            await client.create(PODS, a_pod(f"risk-api-{self._made}", cpu="1"))
            if self._made > AHEAD:
                await end_pod(client, f"risk-api-{self._made - AHEAD}")


SCENARIO: Final = Scenario(
    name="stale-candidate",
    about="A scheduler has a stale view of nodes: the server rejects its choices, and no node is overcommitted.",
    make=StaleCandidate,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    calm=CALM,
    silence=SILENCE,
    ids=("W9",),
)
