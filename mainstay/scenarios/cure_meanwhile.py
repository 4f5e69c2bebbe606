"""What would cure a refused pod comes after it was refused and before it waits. (kubernetes #72122, #120334)

Pods are to be spread evenly over two zones, each pinned to one of them. One that would make the first zone too full is
refused; the next one, decided in the same step, goes to the second zone and so makes room for it. A queue that only
hears of changes while a pod waits has missed that for ever: nothing else is going to happen. The usual safety net, to
try all that waits again after minutes, is out of reach here.
"""

from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.scenarios._schedulers import CALM, SchedulingStage, a_pod, add_node
from mainstay.scenarios._stages import SILENCE
from mainstay.scheduler.component import SchedulerSettings
from mainstay.scheduler.queue.scheduling_queue import SchedulingQueueSettings
from mainstay.scheduler.settings import CycleSettings
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SCHEDULER: Final = "scheduler"
ZONES: Final = ("a", "b")
HELD_BACK: Final = timedelta(milliseconds=500)
SETTINGS: Final = SchedulerSettings(
    lease_name="", cycle=CycleSettings(recheck_one_in=1, queue=SchedulingQueueSettings(flush_after=timedelta(days=1)))
)
_decode = msgspec.json.Decoder(Object).decode


class CureMeanwhile(SchedulingStage):
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers(SCHEDULER, settings=SETTINGS)
        self._made = 0

    async def prepare(self, client: Client) -> None:
        for zone in ZONES:
            await add_node(client, f"node-{zone}", cpu="100")
            await client.patch(NODES, f"node-{zone}", "", {"metadata": {"labels": {ZONE_LABEL: zone}}})

    async def turn(self, client: Client) -> None:
        """As many pods for the one zone as for the other, of which the scheduler hears together."""
        taps = [
            tap
            for gate in self.world.gates.values()
            for tap in gate.taps.values()
            if tap.who == SCHEDULER and tap.prefix == "core/pods/"
        ]
        for tap in taps:
            tap.hold()
        try:
            zones = ZONES if self.choose("which first", 2) else ZONES[::-1]
            for zone in (zones[0], zones[0], zones[1], zones[1]):
                self._made += 1
                await client.create(PODS, _spread(f"{zone}-{self._made}", zone))
        finally:
            await tasks.sleep(HELD_BACK)
            for tap in taps:
                tap.release()

    async def check(self) -> None:
        """In each zone there is room for all, and the zones are wanted equally, but for pods that were never made."""
        self.require_agreement()
        counts = dict.fromkeys(ZONES, 0)
        waiting: dict[str, str] = {}
        for entry in (await self.world.store.range("core/pods/")).entries:
            pod = _decode(entry.value)
            zone = pod["spec"]["nodeSelector"][ZONE_LABEL]
            if pod["spec"].get("nodeName"):
                counts[zone] += 1
            else:
                waiting[zone] = entry.key
        for zone, key in waiting.items():
            if counts[zone] <= min(counts.values()):
                raise Violated(
                    "scheduling", f"{key} is unscheduled at the end, but zone {zone} has only {counts[zone]}"
                )


def _spread(name: str, zone: str) -> Object:
    pod = a_pod(name, cpu="100m")
    labels = {"app": "web"}
    constraint: dict[str, Any] = {
        "maxSkew": 1,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Ignore",
        "labelSelector": {"matchLabels": labels},
    }
    pod["metadata"]["labels"] = labels
    pod["spec"] |= {"nodeSelector": {ZONE_LABEL: zone}, "topologySpreadConstraints": [constraint]}
    return pod


SCENARIO: Final = Scenario(
    name="cure-meanwhile",
    about="A change that makes a rejected pod fit comes just before the pod is parked: it is not missed.",
    make=CureMeanwhile,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    calm=CALM,
    silence=SILENCE,
    ids=("6",),
)
