"""A placement made again: every filter on every node, all scores, and what the scheduler remembered."""

from datetime import timedelta
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.api.kind_names import DEPLOYMENTS, NODES, PLACEMENT_POLICIES, PODS
from mainstay.env import tasks
from mainstay.explain.rebuild import CannotRebuild
from mainstay.explain.replay import SAME, CannotReplay, replay
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord, Ending, WhyNot, whole
from mainstay.registry import load_deciders
from mainstay.scenarios._workloads import a_workload
from mainstay.scheduler.component import SchedulerSettings
from mainstay.scheduler.filters import table as filtering
from mainstay.scheduler.policy import DEFAULT, Allocation
from mainstay.scheduler.reasons import Placed, RefusalReason
from mainstay.scheduler.record import Remembered
from mainstay.scheduler.what_if import Objects
from mainstay.scheduler.why.placement import FilterVerdict, Scheduling, explained, scheduling
from mainstay.sim.cluster.cluster import Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.scheduler import naive
from tests.scheduler.cache.test_same_as_naive import POLICIES
from tests.scheduler.objects import a_node, a_pod
from tests.scheduler.random_clusters import random_objects, random_pod

DECIDERS = load_deciders()

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32)
SECONDS = timedelta(seconds=1)


# Explaining.


@settings(max_examples=200)
@given(SEEDS)
def test_every_node_has_the_verdicts_of_who_looks_at_each_of_them(number: int) -> None:
    random = Random(number)
    objects, pod, policy = random_objects(random), random_pod(random, "p"), random.choice(POLICIES)

    placement = explained(Scheduling(objects, pod, policy, "s"))

    wanted = naive.decide(objects, pod, policy, "s")
    found = {
        node: frozenset((str(verdict.reason), verdict.detail) for verdict in verdicts)
        for node, verdicts in placement.refused.items()
    }
    assert found == {node: reasons for node, reasons in wanted.refused.items() if reasons}
    filters = [each.PLUGIN for each in filtering.ALL]
    for verdicts in placement.verdicts.values():
        assert list(dict.fromkeys(verdict.filter for verdict in verdicts)) == filters


@settings(max_examples=200)
@given(SEEDS)
def test_the_points_of_a_node_add_up_to_its_score(number: int) -> None:
    random = Random(number)
    objects, pod, policy = random_objects(random), random_pod(random, "p"), random.choice(POLICIES)

    placement = explained(Scheduling(objects, pod, policy, "s"))

    assert placement.totals == naive.decide(objects, pod, policy, "s").scores
    if isinstance(placement.decision, Placed):
        assert placement.totals[placement.chosen] == placement.decision.score
        assert all(points <= placement.decision.score for _, points in placement.alternatives)
        assert placement.chosen not in placement.refused


def test_a_verdict_says_what_was_wanted_and_what_there_is() -> None:
    objects = Objects(nodes=(a_node("small", cpu="1"), a_node("big", cpu="4", taints=["gpu=yes:NoSchedule"])))

    placement = explained(Scheduling(objects, a_pod(cpu="2"), seed="s"))

    assert placement.chosen == ""
    assert placement.scores == {}
    assert placement.refused == {
        "big": (FilterVerdict("TaintToleration", RefusalReason.UNTOLERATED_TAINT, "gpu=yes:NoSchedule"),),
        "small": (FilterVerdict("NodeResourcesFit", RefusalReason.NODE_TOO_SMALL, "cpu", 2000, 1000),),
    }


def test_nodes_that_were_left_out_are_not_chosen_again() -> None:
    objects = Objects(nodes=(a_node("n1"), a_node("n2")))

    assert explained(Scheduling(objects, a_pod(cpu="1"), seed="s", left_out=("n1",))).chosen == "n2"
    assert explained(Scheduling(objects, a_pod(cpu="1"), seed="s", left_out=("n1", "n2"))).decision is None


# Remembering.


def of_scheduler(journal: MemoryJournal) -> list[DecisionRecord]:
    return journal.records(lambda each: each.component.startswith("scheduler") and each.subject.kind == "pods")


async def settled(cluster: Cluster, seconds: float = 15) -> None:
    await tasks.sleep(timedelta(seconds=seconds))


async def test_pods_that_were_placed_a_moment_ago_count_where_they_are_though_no_view_shows_it(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions(), "n2": NodeOptions()}) as cluster:
        await settled(cluster)
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 12))
        await settled(cluster)

        records = of_scheduler(cluster.journal)
        found = [await scheduling(cluster.journal, record) for record in records]

        assert max(len(each.objects.assumed) for each in found) > 1
        assert not any(each.missing or each.gaps for each in found)
        for record, each in zip(records, found, strict=True):
            decision = explained(each).decision
            assert isinstance(decision, Placed)
            assert record.reasons == (f"node={decision.node}", f"score={decision.score}")


async def test_without_what_was_remembered_some_would_go_elsewhere(sim: Simulation):
    """Else the test above would show nothing."""
    async with whole_cluster(sim, nodes={"n1": NodeOptions(), "n2": NodeOptions()}) as cluster:
        await settled(cluster)
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 12))
        await settled(cluster)

        others = 0
        for record in of_scheduler(cluster.journal):
            found = await scheduling(cluster.journal, record)
            objects = Objects(found.objects.nodes, found.objects.pods)
            decision = explained(Scheduling(objects, found.pod, found.policy, found.seed)).decision
            assert isinstance(decision, Placed)
            others += record.reasons != (f"node={decision.node}", f"score={decision.score}")
        assert others > 1


async def test_a_pod_whose_binding_got_no_answer_stays_where_it_is_assumed(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions(), "n2": NodeOptions()}) as cluster:
        await settled(cluster)
        world = cluster.world
        for number in range(1, 4):
            world.faults.at_write("scheduler-1", world.faults.count_writes("scheduler-1") + number, "request-lost")
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 6))
        await settled(cluster, 40)

        answers = [await replay(cluster.journal, record, DECIDERS) for record in of_scheduler(cluster.journal)]

        assert answers == [SAME] * len(answers)
        assert any(record.outcome.reason == "Unknown" for record in of_scheduler(cluster.journal)) or len(answers) >= 6


def told_of_nothing(record: DecisionRecord) -> DecisionRecord:
    """Without what it tells of placements that are on their way."""
    memory = msgspec.msgpack.decode(record.memory.inline, type=Remembered)
    content = msgspec.msgpack.encode(msgspec.structs.replace(memory, sent=()))
    return msgspec.structs.replace(record, memory=whole(content))


async def copied(journal: MemoryJournal, *records: DecisionRecord, until: int | None = None) -> MemoryJournal:
    """The same history, up to a revision, and of the decisions only these."""
    copy = MemoryJournal()
    for change in (await journal.changes(until=until)).records:
        copy.change(change)
    for record in records:
        copy.decided(record)
    return copy


async def test_what_a_scheduler_had_sent_when_it_ended_is_known_from_its_refusals(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions(capacity={"cpu": "2"})}) as cluster:
        await settled(cluster)
        workload = a_workload("web", 4)
        workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await cluster.client.create(DEPLOYMENTS, workload)
        await settled(cluster)
        records = of_scheduler(cluster.journal)
        found = [await scheduling(cluster.journal, record) for record in records]
        refused = next(
            record
            for record, each in zip(records, found, strict=True)
            if record.outcome.ending is Ending.RETRY and each.objects.assumed
        )
        seen = next(each.revision for each in refused.view if each.kind == "pods")

        # As if it had crashed: nothing was recorded but the refusal, and nothing that it had sent came true.
        lost = await copied(cluster.journal, refused, until=seen)
        assert await replay(lost, refused, DECIDERS) == SAME

        # What came true can be told from the writes, too, which carry their decisions.
        bare = told_of_nothing(refused)
        assert await replay(await copied(cluster.journal, bare), bare, DECIDERS) == SAME

        answer = await replay(await copied(cluster.journal, bare, until=seen), bare, DECIDERS)
        assert isinstance(answer, CannotReplay)
        assert answer.why is WhyNot.MEMORY_NOT_KEPT
        assert "0 of 1 assumed pods are known" in answer.text


async def test_a_placement_goes_by_the_policy_in_the_version_that_applied(sim: Simulation):
    settings = SchedulerSettings(lease_name="", policy_name="packed")
    nodes = {f"n{number}": NodeOptions() for number in range(1, 4)}
    async with whole_cluster(sim, nodes=nodes, scheduler_settings=settings) as cluster:
        await settled(cluster)
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 3))
        await settled(cluster)
        policy = {
            "metadata": {"name": "packed"},
            "spec": {"policyVersion": "1", "active": True, "scores": {"MostAllocated": 3}},
        }
        await cluster.client.create(PLACEMENT_POLICIES, policy)
        await settled(cluster, 5)
        await cluster.client.create(DEPLOYMENTS, a_workload("api", 3))
        await settled(cluster)
        await cluster.client.delete(PLACEMENT_POLICIES, "packed")
        await settled(cluster, 5)

        found = [await scheduling(cluster.journal, record) for record in of_scheduler(cluster.journal)]

        assert [each.policy.allocation for each in found] == [Allocation.LEAST] * 3 + [Allocation.MOST] * 3
        assert found[0].policy == DEFAULT
        assert [await replay(cluster.journal, each, DECIDERS) for each in of_scheduler(cluster.journal)] == [SAME] * 6


async def test_decisions_by_two_policies_are_each_replayed_by_their_own(sim: Simulation):
    nodes = {f"{zone}{number}": NodeOptions(zone=zone) for zone in "ab" for number in range(2)}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        for name, app, spec in (
            ("packed", "web", {"scores": {"MostAllocated": 9}}),
            ("level", "api", {"maxZoneSkew": 1, "filters": {"PodTopologySpread": False}}),
        ):
            scope = {"selector": {"matchLabels": {"app": app}}}
            given = {"policyVersion": "1", "active": True, "scope": scope, **spec}
            await cluster.client.create(PLACEMENT_POLICIES, {"metadata": {"name": name}, "spec": given})
        await settled(cluster)
        for app in ("web", "api"):
            await cluster.client.create(DEPLOYMENTS, a_workload(app, 5))
        await settled(cluster)
        for name in ("packed", "level"):
            await cluster.client.patch(PLACEMENT_POLICIES, name, "", {"spec": {"active": False}})
        await settled(cluster)

        records = of_scheduler(cluster.journal)
        found = [await scheduling(cluster.journal, record) for record in records]

        expected = {"web": ("packed", Allocation.MOST, 0, True), "api": ("level", Allocation.LEAST, 1, False)}
        for record, each in zip(records, found, strict=True):
            policy = each.policy
            said = (policy.name, policy.allocation, policy.max_zone_skew, policy.enforces_spread)
            assert said == expected[record.subject.name.partition("-")[0]]
        assert {await replay(cluster.journal, each, DECIDERS) for each in records} == {SAME}
        assert len(records) == 10


async def test_ghosts_that_the_server_told_of_are_part_of_what_was_known(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions(capacity={"cpu": "2"})}) as cluster:
        await settled(cluster)
        workload = a_workload("web", 2)
        workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await cluster.client.create(DEPLOYMENTS, workload)
        await settled(cluster)
        # Its agent is away, so nothing reports that they have ended.
        cluster.world.programs["n1"].pause()
        for pod in (await cluster.client.list(PODS)).items:
            await cluster.client.delete(PODS, pod["metadata"]["name"], "default", grace_s=0)
        await tasks.sleep(timedelta(seconds=4))
        records = [each for each in of_scheduler(cluster.journal) if "HeldByGhosts cpu ×1" in each.reasons]
        found = [await scheduling(cluster.journal, record) for record in records]

        assert found
        assert [len(ghosts) for each in found for _, ghosts in each.objects.unconfirmed] == [2] * len(found)
        assert [await replay(cluster.journal, each, DECIDERS) for each in records] == [SAME] * len(records)
        cluster.world.programs["n1"].resume()


async def test_a_record_about_no_pod_is_no_placement(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await settled(cluster)
        record = next(each for each in cluster.journal.records() if each.component == "serviceaccount")

        with pytest.raises(CannotRebuild, match="is not a decision about a pod"):
            await scheduling(cluster.journal, record)
        assert NODES.text == "nodes"
