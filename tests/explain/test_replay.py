"""Decisions made again come out the same, whatever went wrong; and when they do not, that is found and said."""

import itertools
from datetime import timedelta

import msgspec
import pytest

from mainstay.api.kind_names import DEPLOYMENTS, NAMESPACES, NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.pod_gc.loop import PodGarbage
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.explain.replay import (
    SAME,
    Answer,
    CannotReplay,
    Deciders,
    Differs,
    Same,
    Summary,
    replay,
    replay_all,
)
from mainstay.journal.record import DecisionRecord, ViewPart, WhyNot
from mainstay.loop.decider import decide_per_key
from mainstay.loop.decision import Decision
from mainstay.loop.kernel import LoopSpec
from mainstay.loop.view import View
from mainstay.registry import load_deciders
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import Cluster, ControllerProcesses, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.explain.agreement import agreed, churned

DECIDERS = load_deciders()

pytestmark = pytest.mark.slow

replace = msgspec.structs.replace
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_decisions_of_a_troubled_cluster_are_the_same_when_they_are_made_again(seed: int):
    with Simulation(seed) as sim:
        journal = sim.run(churned(sim, timedelta(seconds=40)), limit=timedelta(days=1))
        summary = Summary()
        sim.run(agreed(journal, summary))

    assert summary.differences == []
    assert summary.replayed > 300
    assert sum(count for name, count in summary.same.items() if name.startswith("scheduler")) > 10
    # What cannot be made again is what was refused or learned, and what a scheduler took with it when it crashed.
    whys = {why for (component, why), _ in summary.cannot.items() if component in DECIDERS.named}
    assert whys == set()


async def a_small_cluster(cluster: Cluster) -> None:
    await tasks.sleep(timedelta(seconds=10))
    await cluster.client.create(DEPLOYMENTS, a_workload("web", 3))
    await tasks.sleep(timedelta(seconds=20))


async def answers(cluster: Cluster, component: str = "", deciders: Deciders = DECIDERS) -> list[Answer]:
    records = cluster.journal.records(lambda each: not component or each.component == component)
    return [answer async for _, answer in replay_all(cluster.journal, records, deciders)]


def with_replica_sets(controller: ReplicaSets) -> Deciders:
    """Another build, in which one controller decides otherwise."""
    return Deciders({**DECIDERS.named, "replicaset": decide_per_key(controller)}, DECIDERS.others)


async def test_a_view_that_is_not_the_one_that_was_seen_is_noticed(sim: Simulation):
    """Twin of the agreement: if the revisions did not matter, it would show nothing."""
    async with whole_cluster(sim, nodes={"n1": NodeOptions(), "n2": NodeOptions()}) as cluster:
        await a_small_cluster(cluster)
        different: dict[str, int] = {}
        for record in cluster.journal.records():
            later = tuple(
                ViewPart(each.kind, each.revision + 12, *msgspec.structs.astuple(each)[2:]) for each in record.view
            )
            answer = await replay(cluster.journal, replace(record, view=later), DECIDERS)
            different[record.component] = different.get(record.component, 0) + isinstance(answer, Differs)

        assert {name for name, count in different.items() if count} >= {"deployment", "replicaset", "scheduler-1"}


class Whimsical(ReplicaSets):
    """Decides by something that is in no view."""

    numbers = itertools.count()

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        return _with_reason(super().decide(view, key, memory), f"whim {next(self.numbers)}")


def _with_reason(decision: Decision, reason: str) -> Decision:
    return Decision(
        decision.actions,
        decision.result,
        decision.status,
        decision.conditions,
        decision.memory,
        (*decision.reasons, reason),
        decision.events,
        decision.at_once,
    )


async def test_a_decider_that_is_no_function_of_its_view_is_found_out(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await a_small_cluster(cluster)

        found = await answers(cluster, "replicaset", with_replica_sets(Whimsical()))

        assert found
        assert all(isinstance(each, Differs) and each.field == "reasons" and "whim" in each.now for each in found)


class Doubling(ReplicaSets):
    """Another build, which makes twice as many."""

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        decision = super().decide(view, key, memory)
        return Decision(decision.actions * 2, decision.result, decision.status, decision.conditions, decision.memory)


async def test_the_first_difference_is_told_with_what_is_written_now(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await a_small_cluster(cluster)

        found = await answers(cluster, "replicaset", with_replica_sets(Doubling()))

        first = next(each for each in found if isinstance(each, Differs) and each.field.startswith("actions"))
        assert first.field == "actions[3]"
        assert first.recorded == "none"
        assert first.now.startswith("create pods default/web-")
        assert '"containers":[{"image":"x:1"' in first.now


class Stumbling(ReplicaSets):
    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        raise ZeroDivisionError("a bug")


async def test_a_build_that_raises_differs_and_one_that_raised_then_is_the_same(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await a_small_cluster(cluster)
        stumbling = with_replica_sets(Stumbling())

        found = await answers(cluster, "replicaset", stumbling)
        assert all(isinstance(each, Differs) for each in found)

        [record, *_] = cluster.journal.records(lambda each: each.component == "replicaset")
        outcome = replace(
            record.outcome, ending="Retry", reason="InternalError", message="ZeroDivisionError: a bug", wake_at=0
        )
        fell = replace(record, outcome=outcome, actions=(), reasons=(), conditions=(), rest=b"", writes=())
        assert await replay(cluster.journal, fell, stumbling) == SAME


async def test_how_it_ended_is_not_compared_when_a_write_has_failed(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await a_small_cluster(cluster)
        record = next(
            each
            for each in cluster.journal.records()
            if each.component == "replicaset" and each.writes and not any(write.error for write in each.writes)
        )

        assert await replay(cluster.journal, record, DECIDERS) == SAME
        outcome = replace(record.outcome, ending="Retry", reason="Conflict")
        assert isinstance(await replay(cluster.journal, replace(record, outcome=outcome), DECIDERS), Differs)
        writes = (replace(record.writes[0], error="Conflict"), *record.writes[1:])
        assert await replay(cluster.journal, replace(record, outcome=outcome, writes=writes), DECIDERS) == SAME


async def test_what_cannot_be_replayed_says_why(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await a_small_cluster(cluster)
        record = next(each for each in cluster.journal.records() if each.component == "deployment")

        async def why(changed: DecisionRecord) -> WhyNot:
            answer = await replay(cluster.journal, changed, DECIDERS)
            assert isinstance(answer, CannotReplay)
            assert answer.text
            return answer.why

        assert await why(replace(record, component="another component", view=())) is WhyNot.READ_OUTSIDE
        assert await why(replace(record, view=())) is WhyNot.VIEW_NOT_NAMED
        assert await why(replace(record, why_not=(WhyNot.DETAIL_DROPPED,))) is WhyNot.DETAIL_DROPPED
        ahead = tuple(ViewPart(each.kind, 1_000_000) for each in record.view)
        assert await why(replace(record, view=ahead)) is WhyNot.HISTORY_MISSING


def test_a_summary_counts_by_component():
    summary = Summary()
    record = DecisionRecord("a-1", 0, "a", "", None, None)  # type: ignore[arg-type]
    summary.add(record, Same())
    summary.add(record, Same())
    summary.add(record, Differs("reasons", "x", "y"))
    summary.add(record, CannotReplay(WhyNot.DETAIL_DROPPED, "overloaded"))

    assert (summary.same, summary.differs) == ({"a": 2}, {"a": 1})
    assert summary.cannot == {("a", WhyNot.DETAIL_DROPPED): 1}
    assert summary.agreement == 2 / 3


# Loops of their own.


async def test_what_node_health_did_about_a_silent_node_is_the_same_again(sim: Simulation):
    nodes = {f"n{number}": NodeOptions(zone="a") for number in range(4)}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        await a_small_cluster(cluster)
        await tasks.sleep(MINUTE)
        cluster.world.programs["n1"].pause()
        await tasks.sleep(8 * MINUTE)
        cluster.world.programs["n1"].resume()
        await tasks.sleep(MINUTE)

        records = cluster.journal.records(lambda each: each.component == "node-health")
        found = await answers(cluster, "node-health")

        assert found == [SAME] * len(found)
        said = [record.reasons[0] for record in records if record.subject.kind == "nodes"]
        assert {"suspect", "unknown", "released"} <= {word.lower() for word in said}
        written = {change.decision for change in (await cluster.journal.changes(kind="nodes", name="n1")).records}
        assert {record.id for record in records if record.subject.name == "n1"} <= written


async def test_a_step_of_node_health_that_would_not_be_taken_again_differs(sim: Simulation):
    nodes = {f"n{number}": NodeOptions(zone="a") for number in range(4)}
    async with whole_cluster(sim, nodes=nodes) as cluster:
        await a_small_cluster(cluster)
        cluster.world.programs["n1"].pause()
        await tasks.sleep(MINUTE)
        record = next(each for each in cluster.journal.records() if each.component == "node-health")
        cluster.world.programs["n1"].resume()

        elsewhere = replace(record, actions=(replace(record.actions[0], name="n2"),))

        assert isinstance(await replay(cluster.journal, elsewhere, DECIDERS), Differs)
        assert isinstance(await replay(cluster.journal, replace(record, id=f"{record.id[:-1]}7"), DECIDERS), Differs)


async def test_repair_and_the_clean_up_behind_owners_do_the_same_again(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions(), "n2": NodeOptions()}) as cluster:
        await a_small_cluster(cluster)
        cluster.world.programs["n1"].crash()
        await cluster.client.delete(NODES, "n1")
        await tasks.sleep(3 * MINUTE)
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        await tasks.sleep(MINUTE)

        repaired, cleaned = await answers(cluster, "repair"), await answers(cluster, "owner-cleanup")

        assert set(repaired) == {SAME}
        assert set(cleaned) == {SAME}
        [first, *_] = cluster.journal.records(lambda each: each.component == "repair")
        assert (first.subject.kind, first.reasons) == ("pods", ("its node n1 does not exist",))


async def test_a_namespace_goes_the_same_way_again(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 3, namespace="shop"))
        await tasks.sleep(timedelta(seconds=20))
        await cluster.client.delete(NAMESPACES, "shop")
        await tasks.sleep(2 * MINUTE)

        found = await answers(cluster, "namespace")
        records = cluster.journal.records(lambda each: each.component == "namespace")

        assert [each["metadata"]["name"] for each in (await cluster.client.list(PODS)).items] == []
        assert len(found) > 5
        assert found == [SAME] * len(found)
        assert {action.verb for record in records for action in record.actions} == {"delete", "patch", "update"}
        # With what was left in the meantime it would have been something else.
        deleting = next(each for each in records if each.actions[0].verb == "update")
        earlier = tuple(replace(seen, revision=records[0].view[0].revision) for seen in deleting.view)
        assert isinstance(await replay(cluster.journal, replace(deleting, view=earlier), DECIDERS), Differs)


async def test_pods_of_pod_garbage_are_removed_the_same_way_again(sim: Simulation):
    loops = [LoopSpec("pod-garbage", lambda context: PodGarbage(context, ended_max=1))]
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}, controllers=ControllerProcesses(loops=loops)) as cluster:
        for number in range(4):
            spec = {"containers": [{"name": "main", "image": "x:1"}], "schedulerName": "none"}
            name = f"p{number}"
            await cluster.client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
            await cluster.client.patch(PODS, name, "default", {"status": {"phase": "Failed"}}, subresource="status")
            await tasks.sleep(timedelta(seconds=2))
        await tasks.sleep(MINUTE)

        found = await answers(cluster, "pod-garbage")

        assert found == [SAME] * 3
        [record, *_] = cluster.journal.records(lambda each: each.component == "pod-garbage")
        assert (record.subject.name, record.actions[0].verb) == ("p0", "delete")
