"""Placement policies in the scheduler: which one a pod goes by, and what each of them makes of a decision."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import PLACEMENT_POLICIES
from mainstay.api.policy_names import OPTIONAL_FILTERS, REQUIRED_FILTERS, SCORES
from mainstay.env import tasks
from mainstay.journal.record import AppliedPolicy
from mainstay.scheduler.active_policies import NO_POLICIES, ActivePolicies, build_policies
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.component import SchedulerSettings
from mainstay.scheduler.decide import decide, decide_batch
from mainstay.scheduler.filters import table
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT, Allocation, Policy, parse_policy
from mainstay.scheduler.policy_class import class_under
from mainstay.scheduler.reasons import Cure, Placed, RefusalReason, Unschedulable
from mainstay.scheduler.settings import CycleSettings
from mainstay.scheduler.what_if import Objects, build_columns, what_if
from tests.scheduler.objects import a_node, a_pod, spread_over
from tests.scheduler.running import SHARED, a_scheduler, conditions

ZONE = "topology.kubernetes.io/zone"
LEVEL = Policy("level", max_zone_skew=1)
RELAXED = Policy("relaxed", enforces_spread=False)
A1, A2, B1, C1 = (a_node(name, zone=name[0]) for name in ("a1", "a2", "b1", "c1"))


def a_policy(name: str, scope: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    given = {"policyVersion": "v1", "active": True, **({} if scope is None else {"scope": scope}), **spec}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}, "spec": given}


def created(policy: dict[str, Any]) -> dict[str, Any]:
    return {**policy, "metadata": {"name": policy["metadata"]["name"]}}


# What a policy says.


def test_the_server_and_the_scheduler_know_the_same_names():
    plain = Policy(name="p")
    for score in SCORES:
        assert parse_policy(a_policy("p", scores={score: 77})) != plain

    assert sorted((*REQUIRED_FILTERS, *OPTIONAL_FILTERS)) == sorted(each.PLUGIN for each in table.ALL)


def test_what_a_policy_does_not_name_keeps_its_default():
    found = parse_policy(a_policy("p", scores={"MostAllocated": 5}, resources={"memory": 2, "nvidia.com/gpu": 9}))

    expected = Policy("p", "v1", Allocation.MOST, (("memory", 2), ("nvidia.com/gpu", 9)), allocation_weight=5)
    assert found == expected


def test_filters_as_an_earlier_version_stored_them_turn_nothing_off():
    assert parse_policy(a_policy("p", filters=["PodTopologySpread"])).enforces_spread


def test_resources_are_what_fullness_is_measured_by():
    nodes = (a_node("cpu-left", cpu="8", memory="2Gi"), a_node("memory-left", cpu="2", memory="8Gi"))
    pod = a_pod(cpu="1", memory="1Gi")
    scores = {"BalancedAllocation": 0, "LeastAllocated": 10}

    chosen = {}
    for resource in ("cpu", "memory"):
        policy = parse_policy(a_policy("p", scores=scores, resources={resource: 1}))
        [decision] = what_if(Objects(nodes=nodes), [pod], policy, "s")
        assert isinstance(decision, Placed)
        chosen[resource] = decision.node

    assert chosen == {"cpu": "cpu-left", "memory": "memory-left"}


# Which policy a pod goes by.


def name_of(policies: ActivePolicies, **pod: Any) -> str:
    return policies.choose(pod_to_place(a_pod(**pod))).policy.name


def test_the_most_specific_scope_wins():
    policies = build_policies(
        [
            a_policy("all", {}),
            a_policy("tenant", {"tenant": "risk"}),
            a_policy("api", {"namespaces": ["risk"], "selector": {"matchLabels": {"app": "api"}}}),
            a_policy("urgent", {"priorityClasses": ["urgent"]}),
            a_policy("zone-a", {"zones": ["a"]}),
            a_policy("off", {"selector": {"matchLabels": {"app": "api", "tier": "1"}}}, active=False),
        ]
    )

    api = {"app": "api", "tier": "1"}
    assert name_of(policies) == "all"
    assert name_of(policies, namespace="risk") == "tenant"
    assert name_of(policies, namespace="risk", labels=api, priorityClassName="urgent") == "api"
    assert name_of(policies, namespace="risk", priorityClassName="urgent") == "urgent"
    assert name_of(policies, namespace="risk", nodeSelector={ZONE: "a"}) == "zone-a"
    assert name_of(policies, namespace="risk", nodeSelector={ZONE: "b"}) == "tenant"


def test_a_policy_without_a_scope_applies_only_where_it_is_named():
    objects = [a_policy("base"), a_policy("other"), a_policy("risk", {"tenant": "risk"})]

    assert name_of(build_policies(objects)) == "default"
    assert name_of(build_policies(objects, base="base")) == "base"
    assert name_of(build_policies(objects, base="base"), namespace="risk") == "risk"
    assert name_of(build_policies(objects, base="risk")) == "default"
    assert build_policies([a_policy("base", active=False)], base="base") == NO_POLICIES


def test_a_limited_policy_takes_its_share_of_the_workloads_and_leaves_the_rest_to_the_version_before():
    canary = a_policy("v2", {"namespaces": ["risk"]}, limit={"percent": 30})
    policies = build_policies([a_policy("v1", {"namespaces": ["risk"]}), canary, a_policy("all", {})])

    chosen = {
        number: {
            name_of(policies, namespace="risk", labels={"pod-template-hash": template}, owner=f"web{number}-{template}")
            for template in ("6f4d", "9c1b")
        }
        for number in range(100)
    }

    assert all(len(each) == 1 for each in chosen.values())
    assert 15 <= sum(each == {"v2"} for each in chosen.values()) <= 45
    assert {name for each in chosen.values() for name in each} == {"v1", "v2"}
    assert name_of(policies, namespace="shop") == "all"


def test_a_limited_policy_takes_no_pod_from_one_with_a_narrower_scope():
    policies = build_policies([a_policy("all-v2", {}, limit={"percent": 100}), a_policy("risk", {"tenant": "risk"})])

    assert [name_of(policies, namespace=each) for each in ("risk", "shop")] == ["risk", "all-v2"]


def test_a_choice_names_the_policy_by_uid_and_revision():
    chosen = build_policies([a_policy("all", {})]).choose(pod_to_place(a_pod()))

    assert chosen.named == (AppliedPolicy("placementpolicies.mainstay.dev", "all", "uid-all", 7),)


def test_the_order_in_which_policies_are_known_does_not_matter():
    objects = [a_policy(name, {"namespaces": [name, "shared"]}) for name in ("a", "b")]

    assert build_policies(objects) == build_policies(list(reversed(objects)))


# What it makes of a class.


@pytest.mark.parametrize(
    ("pod", "policy"),
    [
        (a_pod(owner="w"), DEFAULT),
        (a_pod(), LEVEL),
        (a_pod(owner="w"), RELAXED),
        (a_pod(owner="w", topologySpreadConstraints=[spread_over(ZONE, hard=False)]), RELAXED),
    ],
)
def test_a_policy_that_has_nothing_to_say_leaves_the_class_as_it_is(pod, policy):
    placing = pod_to_place(pod)

    assert class_under(placing, policy) is placing.pod_class


def test_pods_of_two_workloads_are_two_classes_only_under_a_bound_on_the_skew():
    one, other = pod_to_place(a_pod("p", owner="w1")), pod_to_place(a_pod("q", owner="w2"))

    assert class_under(one, DEFAULT) is class_under(other, DEFAULT)
    assert class_under(one, LEVEL) != class_under(other, LEVEL)
    assert class_under(one, LEVEL) is class_under(pod_to_place(a_pod("r", owner="w1")), LEVEL)


# maxZoneSkew.


def zones_of(nodes: tuple[Any, ...], count: int, policy: Policy, *bound: Any) -> Counter[str]:
    """Where so many pods of a workload go, by zone; those without a node under nothing."""
    vectors = Vectors(build_columns(Objects(nodes=nodes, pods=bound)))
    pods = [pod_to_place(a_pod(f"p{number}", owner="w", cpu="1")) for number in range(count)]
    return Counter(
        each.node[0] if isinstance(each, Placed) else "" for each in decide_batch(vectors, pods, policy, "s")
    )


def test_pods_of_a_workload_keep_within_the_skew_though_other_nodes_are_emptier():
    small, large = a_node("a1", cpu="2", zone="a"), a_node("b1", cpu="64", memory="64Gi", zone="b")

    assert zones_of((small, large), 8, DEFAULT) == {"b": 8}
    assert zones_of((small, large), 8, LEVEL) == {"a": 2, "b": 3, "": 3}
    assert zones_of((small, large), 8, Policy("loose", max_zone_skew=3)) == {"a": 2, "b": 5, "": 1}


def test_only_pods_of_the_same_owner_count():
    others = [a_pod(f"o{number}", node="a1", owner="other") for number in range(3)]

    assert zones_of((A1, B1), 2, LEVEL, *others) == {"a": 1, "b": 1}
    assert zones_of((A1, B1), 1, LEVEL, a_pod("o", node="a1", owner="w")) == {"b": 1}


def test_a_zone_in_which_the_pod_may_not_run_does_not_hold_back_the_others():
    lost = a_node("c1", zone="c", taints=["node.kubernetes.io/unreachable:NoSchedule"])

    assert zones_of((A1, B1, lost), 4, LEVEL) == {"a": 2, "b": 2}


def test_the_reason_names_the_policy_and_waits_for_another_one():
    full = a_node("b1", cpu="1", zone="b")
    bound = (a_pod("o", node="a1", owner="w"), a_pod("x", node="b1", cpu="1"))
    vectors = Vectors(build_columns(Objects(nodes=(A1, full), pods=bound)))

    decision = decide(vectors, pod_to_place(a_pod(owner="w", cpu="1")), LEVEL, "s")

    assert isinstance(decision, Unschedulable)
    skew = next(each for each in decision.refusals if each.reason is RefusalReason.ZONE_SKEW_TOO_LARGE)
    assert (skew.plugin, skew.nodes, skew.detail) == ("PodTopologySpread", ("a1",), "level")
    assert (skew.wanted, skew.free) == (1, (2,))
    assert Cure.PLACEMENT_POLICY in skew.cures


# Filters.


def test_a_policy_that_turns_the_spread_filter_off_makes_it_a_preference():
    pods = tuple(a_pod(f"web-{number}", node="a1", labels={"app": "web"}) for number in range(3))
    pod = a_pod(labels={"app": "web"}, cpu="1", topologySpreadConstraints=[spread_over(ZONE)])
    room, none = a_node("b1", zone="b"), a_node("b1", zone="b", cpu="0")

    decided = {}
    for name, policy in (("hard", DEFAULT), ("soft", RELAXED)):
        for kind, node in (("room", room), ("none", none)):
            [decision] = what_if(Objects(nodes=(A1, node), pods=pods), [pod], policy, "s")
            decided[name, kind] = decision.node if isinstance(decision, Placed) else ""

    assert decided == {("hard", "room"): "b1", ("soft", "room"): "b1", ("hard", "none"): "", ("soft", "none"): "a1"}


# A scheduler at work.

RECHECKED = SchedulerSettings(lease_name="", cycle=CycleSettings(recheck_one_in=1))


async def test_pods_in_two_scopes_go_by_two_policies_and_their_records_say_which(sim):
    async with a_scheduler(sim, settings=RECHECKED) as running:
        await running.add_nodes("n1", "n2", "n3", cpu="16")
        made = {}
        for name, app, scores in (
            ("packed", "batch", {"MostAllocated": 50, "BalancedAllocation": 0}),
            ("even", "web", {"LeastAllocated": 50, "BalancedAllocation": 0}),
        ):
            policy = a_policy(name, {"selector": {"matchLabels": {"app": app}}}, scores=scores)
            made[app] = await running.client.create(PLACEMENT_POLICIES, created(policy))
        await tasks.sleep(timedelta(seconds=1))
        nodes: dict[str, set[str]] = {}
        for app in ("batch", "web", "plain"):
            for number in range(6):
                await running.add_pod(f"{app}-{number}", cpu="1", labels={"app": app})
            nodes[app] = {await running.bound(f"{app}-{number}") for number in range(6)}
        await running.until(lambda: len(running.records) == 18)

        assert len(nodes["batch"]) == 1
        assert nodes["web"] == {"n1", "n2", "n3"} - nodes["batch"]
        for record in running.records:
            applied = made.get(record.subject.name.partition("-")[0])
            named = [(each.name, each.uid, str(each.revision)) for each in record.policies]
            metadata = {} if applied is None else applied["metadata"]
            assert named == ([(metadata["name"], metadata["uid"], metadata["resourceVersion"])] if metadata else [])
        assert running.scheduler.counts.disagreements == 0
        assert running.scheduler.counts.rechecked >= 18
        assert running.scheduler.state().policies.keys() == {"packed", "even"}


async def test_a_pod_that_a_policy_holds_back_is_placed_as_soon_as_it_is_deactivated(sim):
    async with a_scheduler(sim, settings=replace(SHARED)) as running:
        await running.add_nodes("a1", zone="a", cpu="8")
        await running.add_nodes("b1", zone="b", cpu="1")
        await running.client.create(PLACEMENT_POLICIES, created(a_policy("level", {}, maxZoneSkew=1)))
        await tasks.sleep(timedelta(seconds=1))
        for number in range(4):
            await running.add_pod(f"web-{number}", cpu="1", owner="w")
        await tasks.sleep(timedelta(seconds=20))
        waiting = [number for number in range(4) if not await running.find_node(f"web-{number}")]
        said = (await conditions(running, f"web-{waiting[0]}"))["PodScheduled"]["message"]

        await running.client.patch(PLACEMENT_POLICIES, "level", "", {"spec": {"active": False}})

        assert len(waiting) == 1
        assert "1 node(s) would exceed maxZoneSkew of PlacementPolicy level (at most 1 allowed" in said
        assert "or another placement policy applies" in said
        assert await running.bound(f"web-{waiting[0]}", within=timedelta(seconds=5)) == "a1"


async def test_a_policy_that_is_replaced_applies_to_the_pods_that_come_after(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", "n2", cpu="16")
        for name in ("v1", "v2"):
            await running.client.create(PLACEMENT_POLICIES, created(a_policy(name, {}, active=name == "v1")))
        await tasks.sleep(timedelta(seconds=1))
        await running.add_pod("first")
        await running.bound("first")

        await running.client.patch(PLACEMENT_POLICIES, "v1", "", {"spec": {"active": False}})
        await running.client.patch(PLACEMENT_POLICIES, "v2", "", {"spec": {"active": True}})
        await tasks.sleep(timedelta(seconds=1))
        await running.add_pod("second")
        await running.bound("second")
        await running.until(lambda: len(running.records) == 2)

        assert [[each.name for each in record.policies] for record in running.records] == [["v1"], ["v2"]]
