"""Policies in shadow: they are decided by as well, the difference is recorded, and nothing else depends on them."""

from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mainstay.api.feature_gates import parse_gates
from mainstay.api.kind_names import COMPONENT_STATES, PLACEMENT_POLICIES
from mainstay.env import tasks
from mainstay.journal.record import ShadowDecision
from mainstay.scheduler import shadow
from mainstay.scheduler.active_policies import build_policies
from mainstay.scheduler.component import SchedulerSettings
from mainstay.scheduler.metrics import SchedulerMetrics
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.settings import CycleSettings
from mainstay.server.decisions.objects import build_object
from tests.scheduler.objects import a_pod
from tests.scheduler.running import Running, a_scheduler
from tests.scheduler.test_policies import a_policy, created

RECHECKED = SchedulerSettings(lease_name="", cycle=CycleSettings(recheck_one_in=1))
PACKS = {"MostAllocated": 50, "BalancedAllocation": 0}
ALL: dict[str, Any] = {}


def a_shadow(name: str = "next", scope: dict[str, Any] | None = None, percent: int = 100, **spec: Any) -> Any:
    return a_policy(name, ALL if scope is None else scope, active=False, shadow={"percent": percent}, **spec)


def shadows_of(objects: list[Any], decision: str = "d.1", **pod: Any) -> list[str]:
    policies, placing = build_policies(objects), pod_to_place(a_pod(**pod))
    return [each.policy.name for each in policies.find_shadows(placing, policies.choose(placing), decision)]


def test_a_policy_in_shadow_applies_to_no_pod():
    policies = build_policies([a_shadow()])

    assert policies.choose(pod_to_place(a_pod())).policy.name == "default"
    assert policies.named == ()
    assert [each.name for each in policies.named_in_shadow] == ["next"]


def test_a_policy_is_decided_by_in_shadow_where_it_would_apply_if_it_were_active():
    objects = [
        a_policy("v1", {"tenant": "risk"}),
        a_policy("api", {"selector": {"matchLabels": {"app": "api"}}}),
        a_shadow("v2", {"tenant": "risk"}),
        a_shadow("all"),
    ]

    assert shadows_of(objects, namespace="risk") == ["v2"]
    assert shadows_of(objects, namespace="risk", labels={"app": "api"}) == []
    assert shadows_of(objects, namespace="shop") == ["all"]


def test_it_is_compared_with_a_limited_version_of_the_same_scope():
    assert shadows_of([a_policy("v1", {}, limit={"percent": 100}), a_shadow("v2")]) == ["v2"]


@pytest.mark.parametrize(
    "change", [{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"spec": {"active": True}}]
)
def test_a_policy_that_is_active_or_about_to_be_removed_is_not_in_shadow(change):
    policy = a_shadow()
    changed = {part: {**policy[part], **change.get(part, {})} for part in policy}

    assert build_policies([changed]).shadowed == ()


def test_so_many_percent_of_the_decisions_are_sampled():
    sampled = [number for number in range(1000) if shadows_of([a_shadow(percent=10)], f"d.{number}")]

    assert 70 <= len(sampled) <= 130


async def published(running: Running) -> dict[str, Any]:
    await tasks.sleep(timedelta(seconds=30))
    state = await running.client.get(COMPONENT_STATES, running.scheduler.instance)
    return {each["policy"]: each for each in state["status"]["policyFigures"]}


async def test_the_difference_is_recorded_and_counted_and_the_real_decisions_stay_as_they_are(sim):
    async with a_scheduler(sim, settings=RECHECKED) as running:
        await running.add_nodes("n1", "n2", "n3", cpu="16")
        candidate = await running.client.create(PLACEMENT_POLICIES, created(a_shadow(scores=PACKS)))
        await tasks.sleep(timedelta(seconds=1))
        nodes = []
        for number in range(6):
            await running.add_pod(f"web-{number}", cpu="1")
            nodes.append(await running.bound(f"web-{number}"))
        await running.until(lambda: len(running.records) == 6)
        figures = await published(running)

        metadata = candidate["metadata"]
        assert sorted(nodes) == ["n1", "n1", "n2", "n2", "n3", "n3"]
        for record, node in zip(running.records, nodes, strict=True):
            assert record.policies == ()
            assert all(each.node != node for each in record.shadows)
            assert {each.revision for each in record.shadows} <= {int(metadata["resourceVersion"])}
        different = [record for record in running.records if record.shadows]
        first, *_ = different
        expected = ShadowDecision("next", metadata["uid"], int(metadata["resourceVersion"]), first.shadows[0].node)
        assert first.shadows == (expected,)
        assert build_object(first)["shadows"][0]["policy"] == "next"
        shown = {name: figures["next"][name] for name in ("decided", "shadowed", "shadowDifferent", "shadowUnplaced")}
        assert shown == {"decided": 0, "shadowed": 6, "shadowDifferent": len(different), "shadowUnplaced": 0}
        assert (figures["default"]["decided"], figures["default"]["placed"]) == (6, 6)
        assert running.scheduler.counts.disagreements == 0
        assert (running.scheduler.counts.rechecked, running.scheduler.counts.shadowing.count) == (6, 6)


async def test_without_its_feature_gate_nothing_is_decided_in_shadow_and_each_record_says_so(sim):
    settings = SchedulerSettings(cycle=CycleSettings(gates=parse_gates("ShadowPlacement=false")))
    async with a_scheduler(sim, settings=settings) as running:
        await running.add_nodes("n1", cpu="16")
        await running.client.create(PLACEMENT_POLICIES, created(a_shadow(scores=PACKS)))
        await tasks.sleep(timedelta(seconds=1))
        await running.add_pod("web", cpu="1")
        await running.bound("web")
        await running.until(lambda: len(running.records) == 1)
        state = await running.client.get(COMPONENT_STATES, running.scheduler.instance)

        assert running.scheduler.counts.shadowing.count == 0
        assert running.records[0].flags == ("ShadowPlacement=false",)
        assert "ShadowPlacement=false" in state["status"]["flags"]


async def test_a_pod_that_only_the_shadow_cannot_place_is_counted_as_such(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("a1", zone="a", cpu="8")
        await running.add_nodes("b1", zone="b", cpu="0")
        await running.client.create(PLACEMENT_POLICIES, created(a_shadow(maxZoneSkew=1)))
        await tasks.sleep(timedelta(seconds=1))
        for number in range(4):
            await running.add_pod(f"web-{number}", cpu="1", owner="w")
            await running.bound(f"web-{number}")
        await running.until(lambda: len(running.records) == 4)
        figures = (await published(running))["next"]
        found = text_string_to_metric_families(SchedulerMetrics(running.scheduler).render().decode())
        results = {
            sample.labels["result"]: sample.value
            for family in found
            if family.name == "mainstay_scheduler_shadow_decisions"
            for sample in family.samples
        }

        unplaced = sum(each.node == "" for record in running.records for each in record.shadows)
        assert unplaced >= 1
        assert (figures["shadowed"], figures["shadowUnplaced"]) == (4, unplaced)
        assert sum(results.values()) == 4
        assert results["unplaced"] == unplaced


async def test_a_shadow_that_raises_does_not_stop_the_real_decision(sim, monkeypatch):
    def decide_without(*_: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(shadow, "decide_without", decide_without)
    raised = []
    async with a_scheduler(sim) as running:
        sim.loop.set_exception_handler(lambda loop, context: raised.append(context))
        await running.add_nodes("n1")
        await running.client.create(PLACEMENT_POLICIES, created(a_shadow()))
        await tasks.sleep(timedelta(seconds=1))
        await running.add_pod("web")

        assert await running.bound("web") == "n1"
        assert [str(each["exception"]) for each in raised] == ["planted"]


async def test_figures_begin_again_with_each_revision_of_a_policy(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="16")
        made = await running.client.create(PLACEMENT_POLICIES, created(a_policy("v1", {}, limit={"percent": 100})))
        await tasks.sleep(timedelta(seconds=1))
        await running.add_pod("fits")
        await running.bound("fits")
        await running.add_pod("too-large", cpu="64")
        first = (await published(running))["v1"]
        changed = await running.client.patch(PLACEMENT_POLICIES, "v1", "", {"spec": {"limit": None}})
        second = (await published(running))["v1"]

    versions = [int(each["metadata"]["resourceVersion"]) for each in (made, changed)]
    assert [each["revision"] for each in (first, second)] == versions
    assert (first["placed"], first["refusedAtCommit"], first["uid"]) == (1, 0, made["metadata"]["uid"])
    assert first["unschedulable"] >= 1
    assert first["decided"] == first["placed"] + first["unschedulable"]
    assert (second["placed"], first["since"] < second["since"]) == (0, True)
