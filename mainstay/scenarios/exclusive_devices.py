"""Two schedulers give devices away, and hear of nodes late. (SPEC W4)

Nodes have devices (an extended resource), and get fewer, more, or are cordoned. Each binding of a pod with devices says
up to which revision its scheduler has seen the nodes and the pods, and asks to be refused if the node has changed
since. In the end each binding that was made is compared with what happened before it: its scheduler had seen the last
change of that node, and the last pod that another scheduler bound there. And no pod waits for devices that are free:
a scheduler that was refused decides again when its caches show what it had missed.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.explain.placements import is_placement, node_chosen
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord
from mainstay.scenarios._schedulers import CALM, SchedulingStage, a_pod, add_node, cordon, end_pod, resize_node
from mainstay.scenarios._stages import SILENCE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.history import RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

DEVICE: Final = "nvidia.com/gpu"
SCHEDULERS: Final = ("scheduler-1", "scheduler-2")
LATE: Final = timedelta(seconds=8)
NODES_THERE: Final = ("node-1", "node-2")
DEVICES: Final = ("1", "2", "4")
AHEAD: Final = 4  # How many pods there are, about.
CHECK: Final = "exclusive devices"
_decode = msgspec.json.Decoder(Object).decode


class ExclusiveDevices(SchedulingStage):
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.journal = MemoryJournal()  # Before it boots, so that all of it is there.
        self.add_schedulers(*SCHEDULERS)
        self.judged = 0
        """How many bindings were compared with what had happened before them."""
        self._made = 0

    async def prepare(self, client: Client) -> None:
        for name in NODES_THERE:
            await add_node(client, name, **{DEVICE: DEVICES[-1]})

    async def turn(self, client: Client) -> None:
        late = SCHEDULERS[self.choose("who is late", len(SCHEDULERS))]
        for gate in self.world.gates.values():
            for tap in gate.find_taps(late):
                if tap.prefix == "core/nodes/":
                    tap.hold()
                    self.world.after(LATE, tap.release)
        node = NODES_THERE[self.choose("which node", len(NODES_THERE))]
        if self.choose("what", 4):
            await resize_node(client, node, **{DEVICE: DEVICES[self.choose("devices", len(DEVICES))]})
        else:
            await cordon(client, node, bool(self.choose("cordon", 2)))
        for _ in range(1 + self.choose("pods", 3)):
            self._made += 1
            await client.create(PODS, _with_a_device(f"train-{self._made}"))
            if self._made > AHEAD:
                with suppress(NotFound):
                    await end_pod(client, f"train-{self._made - AHEAD}")

    # After.

    async def check(self) -> None:
        await super().check()
        journal = self.world.journal
        assert journal is not None
        bound = [each for each in journal.records(is_placement) if each.writes and each.writes[0].revision]
        changes = self._find_changes()
        for record in bound:
            self._require_seen(record, NODES.text, changes[node_chosen(record)])
            others = [each for each in bound if node_chosen(each) == node_chosen(record) and _who(each) != _who(record)]
            self._require_seen(record, PODS.text, [each.writes[0].revision for each in others])
            self.judged += 1

    def _find_changes(self) -> dict[str, list[int]]:
        """By node, the revisions at which what it is, or has to give, changed."""
        found: dict[str, list[int]] = {name: [] for name in NODES_THERE}
        for each in self.world.history.events:
            if isinstance(each, RevisionCommitted) and each.key.startswith("core/nodes/") and each.value is not None:
                before = None if each.previous is None else _facts(_decode(each.previous))
                if _facts(_decode(each.value)) != before:
                    found[each.key.removeprefix("core/nodes/")].append(each.revision)
        return found

    def _require_seen(self, record: DecisionRecord, kind: str, changes: list[int]) -> None:
        revision, node = record.writes[0].revision, node_chosen(record)
        seen = next(each.revision for each in record.view if each.kind == kind)
        missed = [each for each in changes if seen < each < revision]
        if missed:
            text = f"{record.id} bound a pod to {node} at revision {revision} with {kind} as of {seen}"
            raise Violated(CHECK, f"{text}, but the node changed at {missed[-1]}")


def _with_a_device(name: str) -> Object:
    pod = a_pod(name)
    # Devices are not overcommitted: the server insists on equal limits.
    pod["spec"]["containers"][0]["resources"] = {"requests": {DEVICE: "1"}, "limits": {DEVICE: "1"}}
    return pod


def _who(record: DecisionRecord) -> str:
    """The scheduler, and which life of it: one that starts again knows nothing of what it had sent."""
    return record.id.rpartition(".")[0]


def _facts(node: Mapping[str, Any]) -> tuple[Any, ...]:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return status.get("allocatable"), bool(spec.get("unschedulable")), spec.get("taints"), node["metadata"]["labels"]


SCENARIO: Final = Scenario(
    name="exclusive-devices",
    about="Pods with devices are bound only by schedulers that have seen the last change of the node.",
    make=ExclusiveDevices,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    calm=CALM,
    silence=SILENCE,
    ids=("W4",),
)
