"""Placement policies are activated, replaced and deactivated while pods come and go, and their watch is late. (SPEC W7)

Two versions of a policy bound the skew over zones of one workload, and tie: the server lets one be active at a time. A
wider policy, for the whole tenant, only weighs nodes; a canary is active beside them, limited to a share of the
workloads, or is decided by in shadow. In one zone there is little room, so that the bound keeps pods waiting.

In the end each recorded decision is looked at again, with the policies as its view had them: it names the most specific
one that was active then, by uid and revision, the same for all revisions of a workload; and no pod went where the skew
that its scheduler knew of would become too large. What a shadow would have decided is recorded where it differs from
what was decided, and only there. Folded forward, as `replay --policy` does it, the recorded policies decide each of
them as recorded, and nothing is not replayable but what the reference cannot replay either. When no bound is active any
more, all pods get a node at once: nothing else is going to wake them.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PLACEMENT_POLICIES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import is_over
from mainstay.api.policy_scope import WorkloadShare, has_workload
from mainstay.api.well_known_labels import HASH_LABEL, ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Invalid, NotFound
from mainstay.explain.placements import is_placement, node_chosen
from mainstay.explain.rebuild import CannotRebuild, RebuiltObjects
from mainstay.explain.replay import CannotReplay, Differs, compare
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord
from mainstay.scenarios._schedulers import CALM, SchedulingStage, a_pod, add_node, end_pod
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scheduler.comparison.comparison import decide_again
from mainstay.scheduler.comparison.fold import fold_decisions
from mainstay.scheduler.comparison.history import load_history
from mainstay.scheduler.component import SchedulerSettings
from mainstay.scheduler.queue.scheduling_queue import SchedulingQueueSettings
from mainstay.scheduler.settings import CycleSettings
from mainstay.scheduler.why.placement import Scheduling, choose_by, scheduling
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SCHEDULER: Final = "scheduler"
LATE: Final = timedelta(seconds=6)
ROOM: Final = {"a": "100", "b": "100", "c": "2"}
"""By zone. In the last one there is none for a third pod."""
API: Final = "risk-api"
OTHERS: Final = "batch"
CANARY: Final = "api-canary"
SHARES: Final = (10, 50, 100)
"""In percent. The workload that it is about is in all but the first."""
TEMPLATES: Final = ("6f4d", "9c1b")
"""A workload has pods of two revisions."""
LABELLED: Final = {"selector": {"matchLabels": {"app": API}}}
# The most specific first: the order that the check goes by.
POLICIES: Final[dict[str, dict[str, Any]]] = {
    CANARY: {"policyVersion": "v3", "scope": LABELLED, "limit": {"percent": SHARES[0]}},
    "api-v1": {"policyVersion": "v1", "scope": LABELLED, "maxZoneSkew": 1},
    "api-v2": {"policyVersion": "v2", "scope": LABELLED, "maxZoneSkew": 2, "scores": {"MostAllocated": 5}},
    "tenant-v1": {"policyVersion": "v1", "scope": {"tenant": NAMESPACE}, "scores": {"MostAllocated": 3}},
}
UNLIMITED: Final = tuple(name for name in POLICIES if name != CANARY)
BOUNDS: Final = tuple(name for name, spec in POLICIES.items() if "maxZoneSkew" in spec)
CHECK: Final = "policies"
REPLAY: Final = "policy replay"
SETTINGS: Final = SchedulerSettings(
    lease_name="", cycle=CycleSettings(recheck_one_in=1, queue=SchedulingQueueSettings(flush_after=timedelta(days=1)))
)
_decode = msgspec.json.Decoder(Object).decode


class PolicyScopes(SchedulingStage):
    turn_every = timedelta(seconds=1)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.journal = MemoryJournal()  # Before it boots, so that all of it is there.
        self.add_schedulers(SCHEDULER, settings=SETTINGS)
        self.judged = 0
        """How many decisions were compared with what their scheduler knew."""
        self.shadowed = 0
        """How many of them with what a policy in shadow would have decided."""
        self._made = 0

    async def prepare(self, client: Client) -> None:
        for zone, cpu in ROOM.items():
            await add_node(client, f"node-{zone}", cpu=cpu)
            await client.patch(NODES, f"node-{zone}", "", {"metadata": {"labels": {ZONE_LABEL: zone}}})
        for name in POLICIES:
            await self._create(client, name)

    async def turn(self, client: Client) -> None:
        with suppress(AlreadyExists, Invalid, NotFound):  # It is there, or gone, or ties with one that is active.
            match self.choose("what", 9):
                case 0 | 1:
                    await self._change_policy(client)
                case 2:
                    await self._change_canary(client)
                case 3 | 4 if self._made:
                    await end_pod(client, f"pod-{1 + self.choose('which pod', self._made)}")
                case _:
                    for _ in range(1 + self.choose("pods", 3)):
                        self._made += 1
                        app = (API, API, OTHERS)[self.choose("app", 3)]
                        template = TEMPLATES[self.choose("template", len(TEMPLATES))]
                        await client.create(PODS, _owned(f"pod-{self._made}", app, template))

    async def _change_policy(self, client: Client) -> None:
        """Activate a version or deactivate it; now and then make it again, which is another object. The scheduler may
        hear of it late."""
        if self.choose("late", 2):
            for gate in self.world.gates.values():
                for tap in gate.find_taps(SCHEDULER):
                    if tap.prefix.startswith("mainstay.dev/placementpolicies/"):
                        tap.hold()
                        self.world.after(LATE, tap.release)
        name = UNLIMITED[self.choose("which policy", len(UNLIMITED))]
        if not self.choose("again", 5):
            await client.delete(PLACEMENT_POLICIES, name)
            await self._create(client, name)
            return
        is_active = bool(self.choose("active", 3))
        if is_active and name in BOUNDS:  # A switch is two writes: the server refuses a tie.
            for other in BOUNDS:
                if other != name:
                    await client.patch(PLACEMENT_POLICIES, other, "", {"spec": {"active": False}})
        await client.patch(PLACEMENT_POLICIES, name, "", {"spec": {"active": is_active}})

    async def _change_canary(self, client: Client) -> None:
        spec: dict[str, Any]
        if self.choose("shadow", 2):
            spec = {"active": False, "limit": None, "shadow": {"percent": 100}}
        else:
            limit = {"percent": SHARES[self.choose("share", len(SHARES))]}
            spec = {"active": bool(self.choose("active", 3)), "limit": limit, "shadow": None}
        await client.patch(PLACEMENT_POLICIES, CANARY, "", {"spec": spec})

    async def _create(self, client: Client, name: str) -> None:
        await client.create(PLACEMENT_POLICIES, {"metadata": {"name": name}, "spec": POLICIES[name]})

    # After.

    async def check(self) -> None:
        self.require_agreement()
        await self._require_placed()
        journal = self.world.journal
        assert journal is not None
        past = RebuiltObjects(journal)
        for record in journal.records(is_placement):
            await self._require_applied(past, record)
            await self._require_level(past, record)
            await self._require_shadow(past, record)
        await self._require_replayed(journal, past)

    async def _require_placed(self) -> None:
        """Without a bound there is room for all."""
        policies = await self._stored("mainstay.dev/placementpolicies/")
        if any(each["metadata"]["name"] in BOUNDS and each["spec"]["active"] for each in policies):
            return
        for pod in await self._stored("core/pods/"):
            if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                raise Violated(
                    CHECK, f"{pod['metadata']['name']} is unscheduled at the end, but no policy bounds skews"
                )

    async def _stored(self, prefix: str) -> list[Object]:
        return [_decode(entry.value) for entry in (await self.world.store.range(prefix)).entries]

    async def _require_applied(self, past: RebuiltObjects, record: DecisionRecord) -> None:
        """It names the policy that applied to the pod, as far as its view goes."""
        seen = {each.kind: each.revision for each in record.view}
        policies, _ = await past.all(PLACEMENT_POLICIES, seen[PLACEMENT_POLICIES.text])
        pod, _ = await past.one(PODS, _key(record), record.looked_at[0].revision)
        app = next(iter(pod.entries())).object()["metadata"]["labels"]["app"]
        active = [each for each in policies if each["spec"]["active"] and _applies(each, app)]
        active.sort(key=lambda each: list(POLICIES).index(each["metadata"]["name"]))
        found = [each["metadata"] for each in active[:1]]
        expected = [(each["name"], each["uid"], int(each["resourceVersion"])) for each in found]
        named = [(each.name, each.uid, each.revision) for each in record.policies]
        if named != expected:
            raise Violated(
                CHECK, f"{record.id} about a pod of {app} went by {named}, but {expected} applied in its view"
            )

    async def _require_level(self, past: RebuiltObjects, record: DecisionRecord) -> None:
        """By what its scheduler knew, the pod did not go to a zone that has too many of its workload."""
        bound = max((POLICIES[each.name].get("maxZoneSkew", 0) for each in record.policies), default=0)
        if not bound or not node_chosen(record):
            return
        found = await _rebuild(past, record)
        if found is None:
            return
        self.judged += 1
        zones = _count_by_zone(found.objects.pods, found.objects.assumed, found.pod)
        zone = node_chosen(record).removeprefix("node-")
        if zones[zone] + 1 - min(zones.values()) > bound:
            raise Violated(CHECK, f"{record.id} chose zone {zone} under maxZoneSkew {bound}, with {zones} there before")

    async def _require_shadow(self, past: RebuiltObjects, record: DecisionRecord) -> None:
        """What the canary would have decided on the same view, if it was in shadow there."""
        canary = await self._find_shadow(past, record)
        found = None if canary is None else await _rebuild(past, record)
        expected: list[tuple[str, int, str]] = []
        if canary is not None:
            if found is None:
                return
            self.shadowed += 1
            node = choose_by(found, canary)
            if node != node_chosen(record):
                expected = [(CANARY, int(canary["metadata"]["resourceVersion"]), node)]
        recorded = [(each.policy, each.revision, each.node) for each in record.shadows]
        if recorded != expected:
            raise Violated(CHECK, f"{record.id} records {recorded} in shadow, but it should be {expected}")

    async def _find_shadow(self, past: RebuiltObjects, record: DecisionRecord) -> Object | None:
        seen = {each.kind: each.revision for each in record.view}
        policies, _ = await past.all(PLACEMENT_POLICIES, seen[PLACEMENT_POLICIES.text])
        pod, _ = await past.one(PODS, _key(record), record.looked_at[0].revision)
        app = next(iter(pod.entries())).object()["metadata"]["labels"]["app"]
        return next((each for each in policies if each["spec"].get("shadow") and app == API), None)

    async def _require_replayed(self, journal: MemoryJournal, past: RebuiltObjects) -> None:
        """What `replay --policy` rests on."""
        async for record, found in fold_decisions(await load_history(journal), journal.records()):
            if isinstance(found, CannotReplay):
                if await _rebuild(past, record) is not None:
                    raise Violated(REPLAY, f"{record.id} is replayable, but not when folded: {found.text}")
                continue
            answer = compare(record, decide_again(record, found)[1])
            if isinstance(answer, Differs):
                raise Violated(REPLAY, f"{record.id}: recorded {answer.recorded}, replayed {answer.now}")


async def _rebuild(past: RebuiltObjects, record: DecisionRecord) -> Scheduling | None:
    """What its scheduler knew. None: a scheduler that ends does not tell what it had sent."""
    try:
        found = await scheduling(past.journal, record, past)
    except CannotRebuild:
        return None
    return None if found.missing or found.gaps else found


def _count_by_zone(pods: Sequence[Object], assumed: Sequence[tuple[Object, str]], of: Object) -> dict[str, int]:
    found = dict.fromkeys(ROOM, 0)
    owner, placed = of["metadata"]["ownerReferences"][0]["uid"], {pod["metadata"]["uid"]: node for pod, node in assumed}
    for pod in pods:
        metadata = pod["metadata"]
        node = str(pod["spec"].get("nodeName") or placed.get(metadata["uid"], ""))
        is_counted = node and not is_over(pod) and "deletionTimestamp" not in metadata
        if is_counted and metadata["ownerReferences"][0]["uid"] == owner:
            found[node.removeprefix("node-")] += 1
    return found


def _applies(policy: Object, app: str) -> bool:
    """Whether it applies to the pods of a workload. That both its revisions are in a share or not is the promise."""
    spec = policy["spec"]
    if spec["scope"] == LABELLED and app != API:
        return False
    limit = spec.get("limit")
    share = WorkloadShare(policy["metadata"]["name"], limit["percent"] if limit else 100)
    return has_workload(share, f"{NAMESPACE}/ReplicaSet/{app}")


def _owned(name: str, app: str, template: str) -> Object:
    """A pod of one of the two workloads."""
    pod = a_pod(name, cpu="1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{template}", "uid": f"uid-{app}"}
    labels = {"app": app, HASH_LABEL: template}
    pod["metadata"] |= {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}
    return pod


def _key(record: DecisionRecord) -> ObjectKey:
    return ObjectKey(record.subject.namespace, record.subject.name)


SCENARIO: Final = Scenario(
    name="policy-scopes",
    about="Placement policies change while pods come and go: each decision goes by the one that applied in its view.",
    make=PolicyScopes,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    calm=CALM,
    silence=SILENCE,
    ids=("W7", "T4"),
)
