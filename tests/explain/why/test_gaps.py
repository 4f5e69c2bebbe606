"""Where records are missing, `why` says which, and guesses nothing."""

from datetime import timedelta

import msgspec
import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import LinkState, Verdict, WhyAnswer
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.dispatch import why
from mainstay.journal.bundle import open_bundle, packed
from mainstay.journal.bundle_contents import gathered
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord, LostRecord, without_detail
from mainstay.registry import REGISTRY
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, a_pod, rest

pytestmark = pytest.mark.slow


class Less(MemoryJournal):
    """Another journal, of which some decisions are gone."""

    def __init__(self, other: MemoryJournal, keeps) -> None:
        super().__init__()
        for change in other._changes:
            self.change(change)
        for record in other.records():
            kept = keeps(record)
            if kept is not None:
                self.decided(kept)
        for write in other._writes:
            self.wrote(write)


async def refused_pod(sim: Simulation) -> MemoryJournal:
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", "100"), "default")
        await rest(10)
        return cluster.journal


async def test_a_pod_of_which_no_decision_is_known_is_told_by_its_condition_and_the_answer_is_incomplete(
    sim: Simulation,
):
    journal = Less(await refused_pod(sim), lambda record: None)
    answer = await why(await Moment.now(journal), REGISTRY, PODS, "web", "default")

    assert (answer.cause, answer.verdict) == (Cause.NODE_TOO_SMALL, Verdict.INCOMPLETE)
    assert answer.cures == ()
    assert "this is from its condition PodScheduled" in answer.gaps[0]


async def test_a_decision_without_its_detail_is_told_in_its_own_words_and_says_what_is_missing(sim: Simulation):
    def dropped(record: DecisionRecord) -> DecisionRecord:
        return without_detail(record) if record.subject.kind == "pods" else record

    journal = Less(await refused_pod(sim), dropped)
    answer = await why(await Moment.now(journal), REGISTRY, PODS, "web", "default")

    assert answer.cause is Cause.NODE_TOO_SMALL
    assert "Insufficient cpu" in answer.sentence
    assert answer.cures == ()
    assert any("is not replayable" in gap for gap in answer.gaps)


async def test_a_decision_without_reasons_and_view_makes_the_answer_incomplete(sim: Simulation):
    def emptied(record: DecisionRecord) -> DecisionRecord:
        if record.subject.kind != "pods" or not record.component.startswith("scheduler"):
            return record
        less = without_detail(record)
        outcome = msgspec.structs.replace(less.outcome, message="")
        return msgspec.structs.replace(less, reasons=(), outcome=outcome)

    journal = Less(await refused_pod(sim), emptied)
    answer = await why(await Moment.now(journal), REGISTRY, PODS, "web", "default")

    assert (answer.cause, answer.verdict) == (Cause.NOT_RECORDED, Verdict.INCOMPLETE)
    assert answer.gaps


async def test_lost_decisions_are_said_to_be_missing(sim: Simulation):
    journal = await refused_pod(sim)
    journal.lost.append(LostRecord(0, 1 << 60, 7, 0))
    answer = await why(await Moment.now(journal), REGISTRY, PODS, "web", "default")

    assert any("the journal dropped 7 decisions of that time" in gap for gap in answer.gaps)


async def test_without_any_decision_a_workload_is_still_told_by_its_status(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await rest(20)
        journal = Less(cluster.journal, lambda record: None)
    answer = await why(await Moment.now(journal), REGISTRY, DEPLOYMENTS, "web", "default")

    assert (answer.cause, answer.verdict) == (Cause.SATISFIED, Verdict.SATISFIED)


def how_placed(answer: WhyAnswer) -> tuple[LinkState, str]:
    [link] = [each for each in answer.chain if each.step == "scheduler"]
    return link.state, link.text


async def test_of_a_pod_that_was_placed_before_a_bundle_begins_it_is_not_said_that_no_scheduler_placed_it(
    sim: Simulation,
):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(600)
        await cluster.client.patch(PODS, "web", "default", {"metadata": {"labels": {"tier": "front"}}})
        await rest(5)
        now = await Moment.now(cluster.journal)
        since = now.at - timedelta(minutes=2)
        contents = await gathered(cluster.journal, since=since, build="b", made_at=now.at)
        bundle = open_bundle(b"".join(packed(contents)))
    node = (await now.get(PODS, "web", "default") or {})["spec"]["nodeName"]
    before, after = [
        await why(await Moment.now(each), REGISTRY, PODS, "web", "default")
        for each in (cluster.journal, bundle.journal)
    ]

    assert how_placed(before)[0] is LinkState.DONE
    assert f"chose {node}" in how_placed(before)[1]
    text = f"on {node}; the journal does not go back to its binding"
    assert how_placed(after) == (LinkState.UNKNOWN, text)


async def test_a_pod_whose_binding_is_known_and_whose_decision_is_not_says_so(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(10)
        journal = Less(cluster.journal, lambda record: None)
    state, text = how_placed(await why(await Moment.now(journal), REGISTRY, PODS, "web", "default"))

    assert state is LinkState.UNKNOWN
    assert text.startswith("bound to node-")
    assert text.endswith("; the reason is not in the journal")


async def test_a_pod_that_was_made_right_on_its_node_was_placed_by_no_scheduler(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", nodeName="node-a"), "default")
        await rest(10)
        answer = await why(await Moment.now(cluster.journal), REGISTRY, PODS, "web", "default")

    assert how_placed(answer) == (LinkState.DONE, "created with nodeName node-a by admin, not scheduled")
