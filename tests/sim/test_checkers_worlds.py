"""What the checkers of whole worlds accept, and what they say at once: made-up histories of a few commits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, REPLICASETS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.server.placement.ledger.ledger import Ledger, encode_ledger, ledger_key
from mainstay.sim.checkers import Checker, Violated
from mainstay.sim.checkers.bound_in_time import BoundInTime
from mainstay.sim.checkers.bounded import BoundedAmplification
from mainstay.sim.checkers.budgets import BudgetChecker
from mainstay.sim.checkers.failure_domains import FailureDomains
from mainstay.sim.checkers.job_counts import JobCounts
from mainstay.sim.checkers.namespaces import Namespaces
from mainstay.sim.checkers.observed_generations import ObservedGenerations
from mainstay.sim.checkers.orphans import Orphans
from mainstay.sim.checkers.owned import OwnershipChecker
from mainstay.sim.checkers.quotas import QuotaChecker
from mainstay.sim.checkers.recovery import Recovery
from mainstay.sim.checkers.released import Released
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.cluster.history import Event, FaultsHealed, RequestReceived, RevisionCommitted
from mainstay.store.interface import Entry, RangePage

SECOND = 1_000_000_000
PLACES = {
    "Pod": "core/pods/default/",
    "Node": "core/nodes/",
    "Namespace": "core/namespaces/",
    "ReplicaSet": "apps/replicasets/default/",
    "Deployment": "apps/deployments/default/",
    "Job": "batch/jobs/default/",
    "Budget": "policy/poddisruptionbudgets/default/",
    "Quota": "core/resourcequotas/default/",
    "Reservation": "mainstay.dev/reservations/default/",
}


class Past:
    """A history that is being written: each write is a revision, and knows what was there before."""

    def __init__(self, *checkers: Checker) -> None:
        self.held: dict[str, bytes] = {}
        self._checkers = checkers
        self._revision = 0
        self._requests = 0

    def put(self, kind: str, obj: Object, *, at: float = 0, by: int | None = None) -> None:
        name = obj["metadata"]["name"]
        self.write(PLACES[kind] + name, msgspec.json.encode(obj), at=at, by=by)

    def remove(self, kind: str, name: str, *, at: float = 0, by: int | None = None) -> None:
        self.write(PLACES[kind] + name, None, at=at, by=by)

    def write(self, key: str, value: bytes | None, *, at: float = 0, by: int | None = None) -> None:
        self._revision += 1
        self.see(RevisionCommitted(int(at * SECOND), self._revision, key, value, self.held.get(key), by))
        self.held.pop(key, None)
        if value is not None:
            self.held[key] = value

    def ask(self, method: str, path: str, *, who: str = "controllers-1", decision: str = "") -> int:
        self._requests += 1
        self.see(RequestReceived(0, self._requests, who, "server-1", method, path, decision, "", "", "", b""))
        return self._requests

    def see(self, event: Event) -> None:
        for checker in self._checkers:
            checker.saw(event)

    async def end(self) -> None:
        for checker in self._checkers:
            await checker.at_end(HeldWorld(HeldStore(self.held)))  # type: ignore[arg-type]


@dataclass
class HeldStore:
    held: dict[str, bytes]

    async def range(self, prefix: str, *, at: int | None = None) -> RangePage:
        entries = [Entry(key, value, 1, 1, 1) for key, value in self.held.items() if key.startswith(prefix)]
        return RangePage(entries, 1, 0)

    async def get(self, key: str, *, at: int | None = None) -> Entry | None:
        return Entry(key, self.held[key], 1, 1, 1) if key in self.held else None


@dataclass
class HeldWorld:
    store: HeldStore
    lost: dict[str, None] = field(default_factory=dict)


def a_pod(
    name: str,
    owner: str = "",
    *,
    is_ready: bool = False,
    leaves: bool = False,
    phase: str = "Running",
    node: str = "n1",
) -> Object:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid of {name}", "labels": {"app": "web"}}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        ]
    if leaves:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ready = [{"type": "Ready", "status": "True" if is_ready else "False"}]
    container = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": ready}}


def a_set(name: str, replicas: int, owner: str = "") -> Object:
    references = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": owner, "controller": True}]
    metadata = {"name": name, "namespace": "default", "uid": name, **({"ownerReferences": references} if owner else {})}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def an_app(name: str, replicas: int) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"replicas": replicas}}


# Generations


def about(generation: int, observed: int, *, condition: int | None = None) -> Object:
    conditions = [] if condition is None else [{"type": "Ready", "status": "True", "observedGeneration": condition}]
    metadata = {"name": "web", "namespace": "default", "uid": "u", "generation": generation}
    return {"metadata": metadata, "status": {"observedGeneration": observed, "conditions": conditions}}


async def test_a_status_may_be_behind_and_catches_up():
    past = Past(ObservedGenerations(["apps/replicasets/"]))
    for generation, observed in ((1, 1), (2, 1), (3, 1), (3, 3)):
        past.put("ReplicaSet", about(generation, observed, condition=observed))
    await past.end()


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([about(1, 2)], "has generation 1, but its status is about 2"),
        ([about(1, 1, condition=2)], "has generation 1, but its condition Ready is about 2"),
        ([about(3, 3), about(4, 2)], "its status of apps/replicasets/default/web went back from generation 3 to"),
        ([about(1, 1), about(2, 1)], "has generation 2 at the end, but its status is about 1"),
    ],
)
async def test_a_status_about_an_unobserved_generation_is_found(objects: list[Object], problem: str):
    past = Past(ObservedGenerations(["apps/replicasets/"]))
    with pytest.raises(Violated, match=problem):
        for each in objects:
            past.put("ReplicaSet", each)
        await past.end()


# Bounds


async def test_a_set_may_have_what_was_wanted_a_while_ago():
    past = Past(BoundedAmplification())
    past.put("ReplicaSet", a_set("web", 2), at=0)
    past.put("ReplicaSet", a_set("web", 1), at=10)
    past.put("Pod", a_pod("a", "web"), at=20)
    past.put("Pod", a_pod("b", "web"), at=60)
    past.put("Pod", a_pod("b", "web", leaves=True), at=61)
    past.put("Pod", a_pod("c", "web"), at=62)
    await past.end()


def test_more_pods_than_were_ever_wanted_lately_are_too_many():
    past = Past(BoundedAmplification())
    past.put("ReplicaSet", a_set("web", 2), at=0)
    past.put("ReplicaSet", a_set("web", 1), at=10)
    past.put("Pod", a_pod("a", "web"), at=20)
    with pytest.raises(Violated, match="there are 2 pods of apps/replicasets/default/web, but at most 1"):
        past.put("Pod", a_pod("b", "web"), at=200)


def test_the_sets_of_a_deployment_want_no_more_together_than_it_does_with_its_surge():
    past = Past(BoundedAmplification())
    past.put("Deployment", an_app("app", 4))
    past.put("ReplicaSet", a_set("old", 4, "app"))
    past.put("ReplicaSet", a_set("new", 1, "app"))
    with pytest.raises(Violated, match="the sets of apps/deployments/default/app want 6 pods in total"):
        past.put("ReplicaSet", a_set("new", 2, "app"))


def test_a_pod_that_keeps_failing_is_not_replaced_all_the_time():
    past = Past(BoundedAmplification())
    past.put("ReplicaSet", a_set("web", 1))
    with pytest.raises(Violated, match="7 pods of apps/replicasets/default/web failed within a minute"):
        for number in range(10):
            past.put("Pod", a_pod(f"p{number}", "web"), at=number)
            past.put("Pod", a_pod(f"p{number}", "web", phase="Failed"), at=number + 0.5)


async def test_a_pod_that_its_set_has_let_go_does_not_count():
    past = Past(BoundedAmplification())
    past.put("ReplicaSet", a_set("web", 1))
    past.put("Pod", a_pod("p1", "web"))
    past.put("Pod", a_pod("p1"))
    past.put("Pod", a_pod("p2", "web"))
    await past.end()


async def test_a_set_may_take_more_than_it_wants_and_make_none():
    past = Past(BoundedAmplification())
    for name in ("p1", "p2"):
        past.put("Pod", a_pod(name))
    past.put("ReplicaSet", a_set("web", 1))
    for name in ("p1", "p2"):
        past.put("Pod", a_pod(name, "web"))
    await past.end()

    with pytest.raises(Violated, match="there are 3 pods of apps/replicasets/default/web, but at most 1"):
        past.put("Pod", a_pod("p3", "web"))


# Recovery


def rolling_out(past: Past, *ready: str) -> None:
    past.put("Deployment", an_app("app", 2))
    past.put("ReplicaSet", a_set("old", 2, "app"))
    past.put("ReplicaSet", a_set("new", 1, "app"))
    for name in ("old-a", "old-b", "new-a"):
        past.put("Pod", a_pod(name, name[:3], is_ready=name in ready))


def told_to_go(past: Past, name: str, at: float) -> None:
    request = past.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}", decision="replicaset-1")
    past.put("Pod", a_pod(name, name[:3], is_ready=True, leaves=True), at=at, by=request)


async def test_an_old_pod_goes_when_a_new_one_is_ready_or_when_it_is_of_no_use():
    past = Past(Recovery())
    rolling_out(past, "old-a", "old-b", "new-a")
    told_to_go(past, "old-a", 10)
    await past.end()

    past = Past(Recovery())
    rolling_out(past, "old-a")
    told_to_go(past, "old-b", 10)
    await past.end()


def test_a_healthy_pod_must_not_go_before_there_are_others():
    past = Past(Recovery())
    rolling_out(past, "old-a", "old-b")
    with pytest.raises(Violated, match=r"old-a was deleted while healthy: .*/app has 1 others and needs 2"):
        told_to_go(past, "old-a", 10)


async def test_what_users_or_accidents_remove_is_no_rollout():
    past = Past(Recovery())
    rolling_out(past, "old-a", "old-b")
    past.put("Pod", a_pod("old-a", "old", is_ready=True, leaves=True), at=10)
    past.put("Deployment", an_app("app", 0), at=20)
    told_to_go(past, "old-b", 21)
    await past.end()


# Failure domains


def over_zones(replicas: int, **pods: bool) -> Past:
    """An old set and a new one. The name of a pod tells its set, its zone and a number; whether it is ready."""
    past = Past(FailureDomains())
    for zone in "abc":
        metadata = {"name": f"node-{zone}", "uid": zone, "labels": {ZONE_LABEL: zone}}
        past.put("Node", {"metadata": metadata})
    past.put("Deployment", an_app("app", replicas))
    for name, revision in (("old", 1), ("new", 2)):
        number = sum(each.startswith(name) for each in pods)
        past.put("ReplicaSet", numbered(a_set(name, number, "app"), revision))
    for name, is_ready in pods.items():
        past.put("Pod", a_pod(name, name[:3], is_ready=is_ready, node=f"node-{name[4]}"))
    return past


def numbered(replica_set: Object, revision: int) -> Object:
    annotations = {"deployment.kubernetes.io/revision": str(revision)}
    return {**replica_set, "metadata": {**replica_set["metadata"], "annotations": annotations}}


def shrink_old_set(past: Past, replicas: int, at: float = 200) -> None:
    request = past.ask("PATCH", "/apis/apps/v1/namespaces/default/replicasets/old", decision="deployment-1")
    past.put("ReplicaSet", numbered(a_set("old", replicas, "app"), 1), at=at, by=request)


def take(past: Past, name: str, at: float = 201) -> None:
    request = past.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}", decision="replicaset-1")
    past.put("Pod", a_pod(name, name[:3], is_ready=True, leaves=True, node=f"node-{name[4]}"), at=at, by=request)


def test_the_last_ready_pod_of_a_zone_does_not_go_while_new_pods_are_still_to_become_ready():
    past = over_zones(3, old_a=True, old_b=True, old_c=True, new_a=True, new_b=False)
    shrink_old_set(past, 1)
    take(past, "old_a")
    with pytest.raises(Violated, match=r"old_c, the last ready pod of .*/old in zone 'c', was deleted for a rollout"):
        take(past, "old_c")


async def test_it_goes_when_waiting_cannot_help_any_more():
    past = over_zones(3, old_a=True, old_b=True, old_c=True, new_a=True)
    shrink_old_set(past, 2)
    take(past, "old_a")
    shrink_old_set(past, 1, at=300)
    take(past, "old_b", at=301)
    await past.end()


async def test_it_goes_when_a_user_asks_for_fewer_pods_than_zones():
    past = over_zones(3, old_a=True, old_b=True, old_c=True, new_a=False)
    past.put("Deployment", an_app("app", 1), at=199)
    shrink_old_set(past, 1)
    take(past, "old_b")
    take(past, "old_c")
    await past.end()


@pytest.mark.parametrize("spare", ["old_b_2", "old_c_2"])
def test_as_long_as_another_pod_could_go_the_last_of_a_zone_does_not(spare: str):
    past = over_zones(3, old_a=True, old_b=True, old_c=True, **{spare: True})
    shrink_old_set(past, 3)
    with pytest.raises(Violated, match=r"old_a, .* in zone 'a', was deleted: 1 had to go, and 1 others could"):
        take(past, "old_a")


async def test_pods_that_a_decision_takes_together_may_go_in_any_order():
    past = over_zones(3, old_a=True, old_b=True, old_c=True, old_c_2=True)
    shrink_old_set(past, 2)
    for name in ("old_a", "old_c"):
        take(past, name)
    await past.end()


async def test_what_changed_lately_may_be_unknown_to_who_decides():
    past = over_zones(3, old_a=True, old_b=True, old_c=True, old_c_2=True)
    past.put("Pod", a_pod("old_a_2", "old", is_ready=True, node="node-a"), at=150)
    past.put("Pod", a_pod("old_a_2", "old", node="node-a"), at=160)
    shrink_old_set(past, 3)
    take(past, "old_a")
    await past.end()


# Budgets


def with_budget(ready: Sequence[str]) -> Past:
    past = Past(BudgetChecker())
    metadata = {"name": "web", "namespace": "default", "uid": "b"}
    past.put(
        "Budget",
        {"metadata": metadata, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
    )
    for name in ready:
        past.put("Pod", a_pod(name, is_ready=True))
    return past


def evicted(past: Past, name: str, at: float = 10) -> None:
    request = past.ask("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", who="operator")
    past.put("Pod", a_pod(name, is_ready=True, leaves=True), at=at, by=request)


async def test_evictions_may_take_what_the_budget_does_not_need():
    past = with_budget(["a", "b"])
    evicted(past, "a")
    past.put("Pod", a_pod("c", is_ready=True))
    evicted(past, "b")
    await past.end()


def test_the_last_one_that_a_budget_needs_is_not_evicted():
    past = with_budget(["a", "b"])
    evicted(past, "a")
    with pytest.raises(Violated, match=r"b was evicted in default: 0 pods remain, but .*/web requires 1"):
        evicted(past, "b")


def test_only_a_loss_that_was_observed_counts_against_a_budget():
    past = with_budget(["a", "b"])
    past.remove("Pod", "a", at=10)
    evicted(past, "b", at=20)

    past = with_budget(["a", "b"])
    past.remove("Pod", "a", at=10)
    with pytest.raises(Violated, match="0 pods remain"):
        evicted(past, "b", at=500)


# Quotas


def a_quota(**hard: str) -> Object:
    return {"metadata": {"name": "limit", "namespace": "default"}, "spec": {"hard": hard}}


def test_what_was_there_before_a_quota_may_stay_and_no_more_may_come():
    past = Past(QuotaChecker())
    for name in ("a", "b"):
        past.put("Pod", a_pod(name))
    past.put("Quota", a_quota(pods="1"))
    past.put("Pod", a_pod("a", is_ready=True))
    past.put("Pod", a_pod("b", phase="Succeeded"))
    past.remove("Pod", "a")
    past.put("Pod", a_pod("c"))
    with pytest.raises(Violated, match=r"d was created, so that 2 of pods are used, but .*/limit allows 1"):
        past.put("Pod", a_pod("d"))


def test_a_quota_of_cpu_is_one_too():
    past = Past(QuotaChecker())
    past.put("Quota", a_quota(**{"requests.cpu": "1500m"}))
    past.put("Pod", a_pod("a"))
    with pytest.raises(Violated, match=r"so that 2000 of requests\.cpu are used"):
        past.put("Pod", a_pod("b"))


# Waiting


def a_ledger(past: Past, cpu: int) -> None:
    past.write(ledger_key("n1"), encode_ledger(Ledger("uid", allocatable={"cpu": cpu, "pods": 10})))


async def test_a_pod_waits_for_room_as_long_as_it_takes_and_while_faults_last():
    past = Past(BoundInTime())
    a_ledger(past, 2000)
    past.put("Pod", a_pod("early", node=""), at=1)
    past.put("Pod", a_pod("early"), at=1000)
    past.see(FaultsHealed(1001 * SECOND))
    a_ledger(past, 500)
    past.put("Pod", a_pod("late", node=""), at=1002)
    past.put("Pod", a_pod("other"), at=2000)
    await past.end()


def test_a_pod_that_a_node_would_take_does_not_wait_for_long():
    past = Past(BoundInTime())
    a_ledger(past, 2000)
    past.put("Pod", a_pod("late", node=""), at=1)
    past.see(FaultsHealed(10 * SECOND))
    past.put("Pod", a_pod("other"), at=200)
    with pytest.raises(Violated, match="late has waited for 490 s, although n1 would accept it"):
        past.put("Pod", a_pod("other"), at=500)


# What is left over


def a_reservation(owner: str, **more: Any) -> Object:
    workload = {"kind": "Deployment", "name": "app", "uid": owner}
    spec = {"nodeName": "n1", "workload": workload, "intent": "replica-1", "resources": {"cpu": "1"}}
    return {"metadata": {"name": "r", "namespace": "default"}, "spec": spec, **more}


async def test_orphaned_reservations_and_pods_are_found():
    past = Past(Orphans())
    past.put("Deployment", an_app("app", 0))
    past.put("Reservation", a_reservation("app"))
    past.put("Node", {"metadata": {"name": "n1"}})
    past.put("Pod", a_pod("a"))
    await past.end()

    past.put("Reservation", a_reservation("another"))
    with pytest.raises(Violated, match="is reserved for Deployment app, which does not exist at the end"):
        await past.end()

    past.remove("Reservation", "r")
    past.remove("Node", "n1")
    with pytest.raises(Violated, match="core/pods/default/a is on n1, which does not exist at the end"):
        await past.end()


async def test_what_is_held_and_what_is_reserved_agree_at_every_revision():
    past = Past(Reserved())
    past.write(ledger_key("n1"), encode_ledger(Ledger("uid")))
    past.put("Reservation", a_reservation("app"))
    with pytest.raises(Violated, match=r"the ledger of n1 holds \{\}, but reservations add up to \{'cpu': 1000\}"):
        await past.end()


# Those who do several things in one process


def test_of_a_process_that_does_many_things_only_the_cleaning_is_looked_at():
    past = Past(
        OwnershipChecker({"core/pods/": PODS, "apps/replicasets/": REPLICASETS}, ["controllers-1"], "owner-cleanup-")
    )
    past.put("ReplicaSet", a_set("web", 1))
    for name in ("a", "b"):
        past.put("Pod", a_pod(name, "web"))
    past.remove("Pod", "a", by=past.ask("DELETE", "/api/v1/namespaces/default/pods/a", decision="replicaset-1"))
    with pytest.raises(Violated, match="core/pods/default/b was deleted, but its owner ReplicaSet web exists"):
        past.remove("Pod", "b", by=past.ask("DELETE", "/api/v1/namespaces/default/pods/b", decision="owner-cleanup-1"))


def test_of_a_process_that_does_many_things_only_the_end_of_namespaces_is_looked_at():
    past = Past(Namespaces(["core/pods/"], ["controllers-1"], "namespace-"))
    past.put("Namespace", {"metadata": {"name": "default"}})
    for name in ("a", "b"):
        past.put("Pod", a_pod(name))
    past.remove("Pod", "a", by=past.ask("DELETE", "/api/v1/namespaces/default/pods/a", decision="replicaset-1"))
    with pytest.raises(Violated, match="core/pods/default/b was deleted, but its namespace was not"):
        past.remove("Pod", "b", by=past.ask("DELETE", "/api/v1/namespaces/default/pods/b", decision="namespace-1"))


@pytest.mark.parametrize(
    ("namespace", "problem"),
    [
        ({}, "core/pods/default/a was created, but its namespace did not exist"),
        ({"deletionTimestamp": "now"}, "core/pods/default/a was created, but its namespace was being deleted"),
    ],
)
async def test_nothing_is_created_in_a_namespace_that_is_gone_or_going(namespace: dict[str, str], problem: str):
    past = Past(Namespaces(["core/pods/"], []))
    past.put("Namespace", {"metadata": {"name": "default", **namespace}})
    if not namespace:
        past.remove("Namespace", "default")
    with pytest.raises(Violated, match=problem):
        past.put("Pod", a_pod("a"))
        await past.end()


async def test_a_namespace_may_be_created_with_what_is_in_it_in_one_commit():
    checker = Namespaces(["core/pods/"], [])
    for key in ("core/pods/default/a", "core/namespaces/default"):
        checker.saw(RevisionCommitted(0, 1, key, b'{"metadata":{}}', None, None))

    await checker.at_end(HeldWorld(HeldStore({})))  # type: ignore[arg-type]


def test_a_finished_pod_may_be_deleted_without_its_agent():
    past = Past(Released())
    past.put("Node", {"metadata": {"name": "n1"}})
    for name, phase in (("a", "Succeeded"), ("b", "Running")):
        past.put("Pod", a_pod(name, phase=phase), at=20)
    past.remove("Pod", "a", at=21, by=past.ask("DELETE", "/api/v1/namespaces/default/pods/a"))
    with pytest.raises(Violated, match="core/pods/default/b was deleted by controllers-1, but n1 exists"):
        past.remove("Pod", "b", at=21, by=past.ask("DELETE", "/api/v1/namespaces/default/pods/b"))


def test_an_unscheduled_pod_may_be_deleted_without_an_agent():
    past = Past(Released())
    pod = a_pod("a", phase="Pending")
    pod["spec"].pop("nodeName", None)
    past.put("Pod", pod, at=1)

    past.remove("Pod", "a", at=2, by=past.ask("DELETE", "/api/v1/namespaces/default/pods/a"))


async def test_a_job_whose_pod_is_on_a_lost_machine_may_never_end():
    checker = JobCounts()
    past = Past(checker)
    job: Object = {"metadata": {"name": "job", "namespace": "default", "uid": "job"}, "spec": {"completions": 1}}
    past.put("Job", job)
    pod = a_pod("a", "job", leaves=True)
    pod["metadata"]["ownerReferences"][0]["kind"] = "Job"
    past.put("Pod", pod)

    await checker.at_end(HeldWorld(HeldStore(past.held), {"n1": None}))  # type: ignore[arg-type]
    with pytest.raises(Violated, match="default/job does not finish"):
        await past.end()
