"""Objects in memory go on as in a cluster: controllers decide, pods get nodes, rollouts come to their end."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainstay.api import pod_state
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, NODES, PODS, REPLICASETS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.object_key import ObjectKey
from mainstay.explain.plan import projection as expand
from mainstay.explain.plan.projection import KINDS, USUAL, Expansion, Variant
from mainstay.explain.plan.quotas import QuotaBook, kinds_behind, read_limit, uses
from mainstay.explain.why.causes import Cause
from mainstay.registry import REGISTRY
from mainstay.scheduler.active_policies import NO_POLICIES
from mainstay.scheduler.why.plan import SchedulerModel
from mainstay.server.quota import tally as quota_tally
from tests.scheduler.objects import a_node, a_pod, a_zone_quota

Object = dict[str, Any]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WEB = ObjectKey("default", "web")


def nodes(count: int = 3, **more: Any) -> list[Object]:
    found = [a_node(f"n{number}", **more) for number in range(1, count + 1)]
    for node in found:
        node["metadata"]["uid"] = f"uid-{node['metadata']['name']}"
    return found


def a_deployment(replicas: int, *, image: str = "one", cpu: str = "1", generation: int = 1, **spec: Any) -> Object:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    metadata = {"name": "web", "namespace": "default", "generation": generation}
    return {"metadata": metadata, "spec": wanted}


def a_world(
    objects: Mapping[KindName, Iterable[Object]],
    now: datetime = NOON,
    *,
    ghosts: Mapping[str, Iterable[Object]] | None = None,
    variant: Variant = USUAL,
    **more: Any,
) -> Expansion:
    placing = SchedulerModel(NO_POLICIES, ghosts or {}, variant.seed)
    return Expansion(REGISTRY.plans(), placing, objects, now, variant=variant, **more)


def settled(world: Expansion) -> Expansion:
    world.settle()
    assert world.is_settled
    return world


def later(world: Expansion, **more: Any) -> Expansion:
    """Another one that begins where this one has ended."""
    objects = {kind: world.all(kind) for kind in (*world.workloads, *KINDS)}
    return a_world(objects, world.now + timedelta(hours=1), **more)


def on_nodes(world: Expansion) -> Counter[str]:
    return Counter(pod_state.get_node_name(pod) for pod in world.pods if pod_state.is_active(pod))


def test_a_deployment_becomes_a_set_and_pods_with_nodes() -> None:
    world = a_world({NODES: nodes()})
    world.put(DEPLOYMENTS, a_deployment(3))
    settled(world)
    assert on_nodes(world) == {"n1": 1, "n2": 1, "n3": 1}
    (replica_set,) = world.all(REPLICASETS)
    assert replica_set["status"]["availableReplicas"] == 3
    deployment = world.get(DEPLOYMENTS, WEB)
    assert deployment is not None
    assert deployment["status"]["availableReplicas"] == 3
    assert not world.waiting


def test_pods_without_a_place_wait_and_say_why() -> None:
    world = a_world({NODES: nodes(1)})
    world.put(DEPLOYMENTS, a_deployment(6))
    settled(world)
    assert on_nodes(world) == {"n1": 4, "": 2}
    waiting = [pod for pod in world.pods if pod["metadata"]["uid"] in world.waiting]
    objects = {kind: world.all(kind) for kind in (NODES, PODS, RESERVATIONS, ZONE_QUOTAS)}
    (wait,) = world.placing.waits(waiting, objects)
    assert (wait.count, wait.cause) == (2, Cause.INSUFFICIENT_RESOURCES)


def test_a_rollout_goes_through_its_steps_and_ends_with_the_new_pods_alone() -> None:
    world = a_world({NODES: nodes()})
    world.put(DEPLOYMENTS, a_deployment(4))
    after = later(settled(world))
    after.put(DEPLOYMENTS, a_deployment(4, image="two", generation=2))
    settled(after)
    assert len(after.removed) == 4
    assert {pod["spec"]["containers"][0]["image"] for pod in after.pods} == {"two"}
    said = [told.text for told in after.told if told.kind == DEPLOYMENTS]
    assert said[:2] == ["no ReplicaSet has this template", "scaling down old ReplicaSets"]
    assert said[-1] == "scaling down old ReplicaSets"


def test_a_rollout_into_a_full_cluster_goes_on_as_old_pods_leave() -> None:
    world = a_world({NODES: nodes(2)})
    world.put(DEPLOYMENTS, a_deployment(8))
    after = later(settled(world))
    after.put(DEPLOYMENTS, a_deployment(8, image="two", generation=2))
    settled(after)
    assert on_nodes(after) == {"n1": 4, "n2": 4}
    assert after.waiting == {}
    assert {pod["spec"]["containers"][0]["image"] for pod in after.pods} == {"two"}


def test_a_rollout_whose_pods_get_no_node_leaves_the_old_ones() -> None:
    world = a_world({NODES: nodes(2)})
    world.put(DEPLOYMENTS, a_deployment(4))
    after = later(settled(world))
    after.put(DEPLOYMENTS, a_deployment(4, cpu="9", generation=2))
    settled(after)
    images = Counter(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in after.pods)
    assert images == {"1": 3, "9": 2}
    assert len(after.waiting) == 2


def test_all_of_the_old_go_before_the_new_come_with_recreate() -> None:
    world = a_world({NODES: nodes(1)})
    strategy = {"type": "Recreate"}
    world.put(DEPLOYMENTS, a_deployment(4, strategy=strategy))
    after = later(settled(world))
    after.put(DEPLOYMENTS, a_deployment(4, image="two", generation=2, strategy=strategy))
    settled(after)
    assert on_nodes(after) == {"n1": 4}
    assert len(after.removed) == 4


def test_a_deployment_with_fewer_replicas_loses_pods() -> None:
    world = a_world({NODES: nodes()})
    world.put(DEPLOYMENTS, a_deployment(5))
    after = later(settled(world))
    after.put(DEPLOYMENTS, a_deployment(2, generation=2))
    settled(after)
    assert len(after.pods) == 2
    assert len(after.removed) == 3


def test_a_job_has_as_many_pods_as_it_may_have_at_a_time_and_none_of_them_ends() -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "one"}]}}
    spec = {"parallelism": 2, "completions": 5, "activeDeadlineSeconds": 60, "template": template}
    world = a_world({NODES: nodes()})
    world.put(JOBS, {"metadata": {"name": "report", "namespace": "default"}, "spec": spec})
    settled(world)
    assert len(world.pods) == 2
    job = world.get(JOBS, ObjectKey("default", "report"))
    assert job is not None
    assert job["status"]["active"] == 2


def test_the_higher_priority_gets_the_last_room() -> None:
    world = a_world({NODES: nodes(1)}, priorities={"high": 1000})
    world.put(PODS, a_pod("low", cpu="3"))
    world.put(PODS, a_pod("high", cpu="3", priorityClassName="high"))
    settled(world)
    assert {pod["metadata"]["name"]: pod_state.get_node_name(pod) for pod in world.pods} == {"high": "n1", "low": ""}


def test_a_taint_that_removes_pods_has_them_recreated_elsewhere() -> None:
    world = a_world({NODES: nodes(2)})
    world.put(DEPLOYMENTS, a_deployment(4))
    after = later(settled(world))
    (node,) = [each for each in after.all(NODES) if each["metadata"]["name"] == "n1"]
    after.put(NODES, {**node, "spec": {"taints": [{"key": "old", "effect": "NoExecute"}]}})
    settled(after)
    assert on_nodes(after) == {"n2": 4}
    assert {each.why for each in after.removed.values()} == {"does not tolerate a taint of n1"}


def test_a_quota_keeps_pods_from_being_made_and_says_so_as_the_server_does() -> None:
    quota = {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}}
    world = a_world({NODES: nodes()}, quotas=QuotaBook([read_limit(quota)]))
    world.put(DEPLOYMENTS, a_deployment(4))
    settled(world)
    assert len(world.pods) == 2
    (refused,) = world.refused.values()
    assert "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2" in refused.message
    (replica_set,) = world.all(REPLICASETS)
    assert [each["reason"] for each in replica_set["status"]["conditions"]] == ["FailedCreate"]


def test_what_is_given_back_to_a_quota_is_used_by_who_was_refused() -> None:
    quota = {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": {"pods": "4"}}}
    world = a_world({NODES: nodes()}, quotas=QuotaBook([read_limit(quota)]))
    world.put(DEPLOYMENTS, a_deployment(4))
    used = {**quota, "status": {"used": {"pods": "4"}}}
    after = later(settled(world), quotas=QuotaBook([read_limit(used)]))
    after.put(DEPLOYMENTS, a_deployment(4, image="two", generation=2))
    settled(after)
    assert {pod["spec"]["containers"][0]["image"] for pod in after.pods} == {"two"}
    assert after.refused == {}


def test_a_zone_quota_keeps_pods_out_of_a_zone() -> None:
    there = [
        *nodes(1, zone="a"),
        {**a_node("m1", zone="b"), "metadata": {**a_node("m1", zone="b")["metadata"], "uid": "m"}},
    ]
    quota = a_zone_quota("a", cpu="1")
    quota["metadata"]["uid"] = "q"
    world = a_world({NODES: there, ZONE_QUOTAS: [quota]})
    world.put(DEPLOYMENTS, a_deployment(4))
    settled(world)
    assert on_nodes(world) == {"n1": 1, "m1": 3}


def test_ghosts_hold_their_room() -> None:
    ghost = {"uid": "g", "namespace": "default", "name": "g", "resources": {"cpu": "3", "pods": "1"}}
    world = a_world({NODES: nodes(1)}, ghosts={"n1": (ghost,)})
    world.put(DEPLOYMENTS, a_deployment(2))
    settled(world)
    assert on_nodes(world) == {"n1": 1, "": 1}


def test_a_world_that_does_not_come_to_rest_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand, "STEPS_MAX", 5)
    world = a_world({NODES: nodes()})
    world.put(DEPLOYMENTS, a_deployment(3))
    world.settle()
    assert not world.is_settled


def test_what_was_given_stays_as_it_was() -> None:
    given = a_deployment(3)
    kept = nodes()
    world = a_world({NODES: kept})
    world.put(DEPLOYMENTS, given)
    settled(world)
    assert given == a_deployment(3)
    assert kept == nodes()


# Quotas.


@pytest.mark.parametrize(
    ("hard", "used", "pod"),
    [
        ({"pods": "2"}, {"pods": "2"}, a_pod("web", cpu="1")),
        ({"requests.cpu": "2", "pods": "9"}, {"requests.cpu": "1500m", "pods": "1"}, a_pod("web", cpu="1")),
        ({"requests.cpu": "2"}, {"requests.cpu": "0"}, a_pod("web")),
        ({"limits.memory": "1Gi"}, {"limits.memory": "0"}, a_pod("web", cpu="1")),
        ({"requests.cpu": "2"}, {"requests.cpu": "500m"}, a_pod("web", cpu="1")),
        ({"count/pods": "0"}, {"count/pods": "0"}, a_pod("web", cpu="1")),
    ],
)
def test_the_words_of_a_refusal_are_the_server_s(hard: dict[str, str], used: dict[str, str], pod: Object) -> None:
    quota = {
        "metadata": {"name": "team", "namespace": "default", "uid": "u"},
        "spec": {"hard": hard},
        "status": {"used": used},
    }
    tally = quota_tally.QuotaTally({"team": quota_tally.QuotaLimit("u", hard, used)})
    servers = quota_tally.find_exceeded(tally, ("", "pods"), pod, None)
    assert QuotaBook([read_limit(quota)]).refusal(PODS, pod, None) == servers


def test_a_new_quota_counts_what_is_there() -> None:
    quota = {"metadata": {"name": "team", "namespace": "default"}, "spec": {"hard": {"pods": "5", "requests.cpu": "4"}}}
    there = [(("", "pods"), a_pod(f"p{number}", cpu="500m")) for number in range(3)]
    there.append((("", "pods"), a_pod("elsewhere", namespace="other", cpu="1")))
    assert kinds_behind([quota]) == [("", "pods")]
    limit = read_limit(quota, there)
    (cpu, pods) = (str(limit.used[name]) for name in ("requests.cpu", "pods"))
    assert (cpu, pods) == ("1500m", "3")
    found = uses(QuotaBook(), QuotaBook([limit]))
    assert [(each.resource, each.used_after, each.hard_before, each.is_full) for each in found] == [
        ("pods", "3", "", False),
        ("requests.cpu", "1500m", "", False),
    ]
