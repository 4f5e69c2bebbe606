"""The debug view joins what all signals say of a workload, and names the cause and not the symptom. (SPEC O5, O8)"""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from mainstay.api.kind_names import DEPLOYMENTS, HOLDS, JOBS, NODES, PLACEMENT_POLICIES, PODS, SERVICES
from mainstay.api.times import format_time
from mainstay.cli.debug import choose_exit
from mainstay.env import tasks
from mainstay.explain.debug.builder import debug
from mainstay.explain.debug.conclusion import concluded
from mainstay.explain.debug.text import debug_text
from mainstay.explain.debug.view import (
    CacheSeen,
    DebugFinding,
    DebugView,
    HoldView,
    ObservedRevision,
    Pending,
    RepairView,
    ReplicaCounts,
    Rollback,
)
from mainstay.explain.moment import Moment
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.writers import Who
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.registry import REGISTRY
from mainstay.scenarios import _risk
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.explain import risk
from tests.explain.risk import seconds

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUOTAS = "zonequotas.mainstay.dev"


async def _stale(cluster: Cluster) -> None:
    """As in the text, up to 00:09: the quota is raised, and the scheduler has not heard of it."""
    await cluster.client.patch(DEPLOYMENTS, _risk.NAME, _risk.TENANT, {"spec": {"replicas": _risk.WANTED}})
    await tasks.sleep(seconds(4))
    assert _risk.build_quota_watch(cluster.world).hold() == 1
    await risk.free_capacity(cluster)
    await tasks.sleep(seconds(4))
    await tasks.sleep(seconds(12))  # Until repair has looked at the new generation, too.


@pytest.fixture(scope="module")
def stale_journal() -> MemoryJournal:
    return risk.played(_stale)


async def view_of(journal: MemoryJournal, **options: int) -> DebugView:
    return await debug(await Moment.now(journal), REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT, **options)


@pytest.mark.slow
@pytest.mark.sim
async def test_the_view_joins_what_the_text_joins_and_names_the_stale_cache(stale_journal):
    view = await view_of(stale_journal)

    assert (view.about.words, view.generation, view.observed_generation) == ("deployment risk-api", 43, 43)
    assert (view.counts.ready, view.counts.desired, view.counts.pending) == (6, 10, 4)
    assert {each.reason for each in view.pending} == {"quota/risk-zone-c"}
    [cache] = [each for each in view.caches if each.is_decisive]
    assert (cache.component, cache.kind) == ("scheduler-1", QUOTAS)
    assert cache.seen < cache.latest
    assert cache.says < cache.latest
    assert cache.objects == ("zonequota risk-zone-c",)
    [autoscaler] = [each for each in view.writers if each.who.name == "autoscaler"]
    assert (autoscaler.text, autoscaler.who.reason) == (
        "desired replicas 8 → 10",
        "LowReadyReplicas: 6 of 8 are ready",
    )
    assert view.repair is not None
    assert (view.repair.status, view.repair.observed_generation, view.repair.is_current) == ("True", 43, True)
    assert view.finding is DebugFinding.STALE_CACHE
    assert view.cause.startswith("zonequotas in the cache of scheduler-1 are stale")
    assert "would fit on node-c1" in view.cause
    assert "does not help" in view.next


@pytest.mark.sim
async def test_a_generation_is_shown_as_it_was_last_seen(stale_journal):
    view = await view_of(stale_journal, generation=42)

    assert (view.generation, view.counts.desired, view.counts.pending) == (42, 8, 2)
    with pytest.raises(NothingKnown, match="generation 44 of Deployment risk-api not found: the journal has 1 to 43"):
        await view_of(stale_journal, generation=44)


@pytest.mark.sim
async def test_before_the_quota_was_raised_the_same_reason_was_the_cause(stale_journal):
    now = await Moment.now(stale_journal)
    raised = (await stale_journal.changes(kind=QUOTAS)).records
    revision = next(each.revision for each in raised if b'"4"' in (each.value or b""))
    before = await Moment.at_revision(stale_journal, revision - 1)

    view = await debug(before, REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT)

    assert view.finding is DebugFinding.REFUSED
    assert "no unobserved change would help" in view.cause
    assert before.revision < now.revision


@pytest.mark.sim
async def test_the_text_form_has_the_lines_of_the_text(stale_journal):
    lines = debug_text(await view_of(stale_journal))

    names = [line.partition(":")[0] for line in lines]
    for name in ("workload", "generation", "pending replicas", "last scheduling reason", "latest of zonequotas"):
        assert name in names
    assert any(
        line.startswith("repair condition:") and "RepairComplete=True, observedGeneration=43" in line for line in lines
    )
    assert lines[0].startswith("cause: zonequotas in the cache of scheduler-1 are stale")


@pytest.mark.sim
async def test_the_view_can_be_encoded(stale_journal):
    view = await view_of(stale_journal)

    found = msgspec.json.decode(msgspec.json.encode(view.as_object()))

    assert (found["kind"], found["finding"], found["generation"]) == ("Debug", "StaleCache", 43)


async def test_a_workload_that_has_all_it_wants_has_nothing_to_be_said(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(seconds(30))

        view = await debug(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    assert (view.finding, view.cause) == (DebugFinding.COMPLETE, "2 of 2 replicas are ready")
    assert view.pending == ()


async def test_only_policies_that_may_select_a_pod_of_the_workload_are_shown(sim: Simulation):
    scopes: dict[str, Any] = {
        "everywhere": {},
        "elsewhere": {"namespaces": ["batch"]},
        "here": {"namespaces": ["default"]},
        "others": {"selector": {"matchLabels": {"app": "db"}}},
    }
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        for name, scope in scopes.items():
            policy = {"metadata": {"name": name}, "spec": {"policyVersion": "v1", "scope": scope}}
            await cluster.client.create(PLACEMENT_POLICIES, policy)
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 2))
        await tasks.sleep(seconds(30))
        view = await debug(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    shown = [each.about.name for each in view.rollbacks if each.about.kind == PLACEMENT_POLICIES.text]
    assert sorted(shown) == ["everywhere", "here"]


async def test_where_counting_replicas_says_little_the_view_says_what_why_says(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        spec = {"schedulerName": "elsewhere", "containers": [{"name": "main", "image": "x:1"}]}
        await cluster.client.create(PODS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await tasks.sleep(seconds(40))

        view = await debug(await Moment.now(cluster.journal), REGISTRY, PODS, "web", "default")

    assert (view.finding, view.root_cause, view.why_verdict) == (DebugFinding.ROOT_CAUSE, "OtherScheduler", "blocked")
    assert "elsewhere" in view.cause


async def test_the_view_and_why_agree_about_what_is_no_matter_of_counting(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        client = cluster.client
        await client.create(DEPLOYMENTS, a_workload("web", 1))
        container = {"name": "main", "image": "x:1"}
        gated = {"schedulingGates": [{"name": "wait"}], "containers": [container]}
        await client.create(PODS, {"metadata": {"name": "gated", "namespace": "default"}, "spec": gated})
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        late = {"activeDeadlineSeconds": 5, "template": template}
        await client.create(JOBS, {"metadata": {"name": "late", "namespace": "default"}, "spec": late})
        nowhere = {"selector": {"app": "missing"}, "ports": [{"port": 80}]}
        await client.create(SERVICES, {"metadata": {"name": "nowhere", "namespace": "default"}, "spec": nowhere})
        await tasks.sleep(seconds(20))
        until = format_time(sim.get_clock("store").wall() + seconds(600))
        hold = {"what": "Rollout", "target": {"namespace": "default", "name": "web"}, "owner": "anna", "reason": "x"}
        hold["expiresAt"] = until
        await client.create(HOLDS, {"metadata": {"name": "rollout.default.web"}, "spec": hold})
        spec = {"template": {"spec": {"containers": [{**container, "image": "x:2"}]}}}
        await client.patch(DEPLOYMENTS, "web", "default", {"spec": spec})
        await tasks.sleep(seconds(40))
        now = await Moment.now(cluster.journal)
        asked = [(DEPLOYMENTS, "web"), (PODS, "gated"), (JOBS, "late"), (SERVICES, "nowhere"), (NODES, "node-a")]
        found = [await debug(now, REGISTRY, kind, name, "" if kind == NODES else "default") for kind, name in asked]

    assert [(view.finding, view.root_cause, int(choose_exit(view))) for view in found] == [
        (DebugFinding.ROOT_CAUSE, "RolloutHeld", 3),
        (DebugFinding.ROOT_CAUSE, "SchedulingGated", 2),
        (DebugFinding.ROOT_CAUSE, "DeadlineExceeded", 2),
        (DebugFinding.ROOT_CAUSE, "NothingSelected", 2),
        (DebugFinding.COMPLETE, "Satisfied", 0),
    ]
    assert "mainstay why job/late -n default" in found[2].next
    assert "0 of 0" not in found[4].cause
    assert found[4].next == "nothing to do"


@pytest.mark.slow
async def test_a_rollback_of_the_template_is_seen_and_said(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        await tasks.sleep(seconds(20))
        for image in ("x:2", "x:1"):
            container = {"name": "main", "image": image}
            spec = {"template": {"spec": {"containers": [container]}}}
            await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": spec})
            await tasks.sleep(seconds(20))

        view = await debug(await Moment.now(cluster.journal), REGISTRY, DEPLOYMENTS, "web", "default")

    [rollback] = view.rollbacks
    assert (rollback.is_rollback, rollback.is_observed, rollback.about.name) == (True, True, "web")


# What follows from what is known.

PENDING = Pending(pod="web-1", reason="quota/q", decision="s-1", component="scheduler-1", would_go_to="n1")
STALE = CacheSeen(component="scheduler-1", kind=QUOTAS, seen=3, says=3, latest=7, is_decisive=True)
DONE = RepairView(status="True", reason="NothingLeft")


def conclusion(**parts: Any) -> tuple[DebugFinding, str, str]:
    known: dict[str, Any] = {
        "about": StoryObject("deployments.apps", "web", "shop"),
        "generation": 2,
        "observed": 2,
        "counts": ReplicaCounts(desired=3, ready=2, pending=1),
        "holds": (),
        "rollbacks": (),
        "pending": (PENDING,),
        "caches": (),
        "repair": DONE,
    }
    return concluded(**{**known, **parts})


def test_what_is_held_comes_before_all_else():
    held = HoldView(name="freeze", what="Rollout", words="its rollout is paused: ann holds it")

    finding, cause, advice = conclusion(holds=(held,), caches=(STALE,))

    assert (finding, cause) == (DebugFinding.HELD, held.words)
    assert "mainstay release freeze" in advice


def test_a_stale_cache_comes_before_the_reason_that_was_given():
    assert conclusion(caches=(STALE,))[0] is DebugFinding.STALE_CACHE


def test_a_cache_that_has_caught_up_since_is_only_waited_for():
    finding, cause, _ = conclusion(caches=(msgspec.structs.replace(STALE, says=9),))

    assert finding is DebugFinding.SEEN_SINCE
    assert "has not decided again yet" in cause


def test_a_cache_that_is_behind_and_would_change_nothing_is_no_cause():
    assert conclusion(caches=(msgspec.structs.replace(STALE, is_decisive=False),))[0] is DebugFinding.REFUSED


def test_a_rollback_that_the_scheduler_has_not_seen_is_named():
    seen = ObservedRevision(component="scheduler-1", revision=4, is_observed=False, source="ComponentState")
    rollback = Rollback(
        about=StoryObject("placementpolicies.mainstay.dev", "risk"),
        version="v4",
        revision=9,
        at=NOON,
        who=Who("ann"),
        is_rollback=True,
        observed=(seen,),
    )

    finding, cause, advice = conclusion(rollbacks=(rollback,))

    assert finding is DebugFinding.ROLLBACK_NOT_SEEN
    assert cause == ("scheduler-1 has not observed the rollback of placementpolicy risk to v4 at 9: it uses revision 4")
    assert "Do not roll back again" in advice


def test_repair_that_is_not_done_is_waited_for_before_anything_is_added():
    finding, cause, _ = conclusion(repair=RepairView(status="False", reason="OrphanedReservation"))

    assert finding is DebugFinding.REPAIR_NOT_DONE
    assert "OrphanedReservation" in cause


def test_a_controller_that_has_not_seen_the_generation_is_behind():
    assert conclusion(observed=1, pending=())[0] is DebugFinding.CONTROLLER_BEHIND


def test_replicas_with_a_node_are_starting_and_those_without_a_pod_were_never_made():
    starting = Pending(pod="web-1", reason="ImagePullBackOff", node="n1")

    assert conclusion(pending=(starting,))[0] is DebugFinding.STARTING
    assert conclusion(pending=())[0] is DebugFinding.NOT_MADE
    assert conclusion(pending=(Pending(pod="web-1", reason="NotDecidedYet"),))[0] is DebugFinding.UNKNOWN


def test_what_is_next_can_be_pasted_with_object_and_namespace():
    starting = Pending(pod="web-1", reason="ImagePullBackOff", node="n1")

    assert conclusion()[2] == "mainstay why pod/web-1 -n shop shows what would help."
    assert conclusion(pending=(starting,))[2] == "mainstay why pod/web-1 -n shop, and mainstay logs web-1 -n shop."
    assert conclusion(pending=())[2].startswith("mainstay why deployment/web -n shop shows ")
    assert "mainstay timeline deployment/web -n shop" in conclusion(pending=())[2]


def test_one_replica_is_told_of_as_one():
    assert conclusion()[1].startswith("1 replica has no node (quota/q)")
