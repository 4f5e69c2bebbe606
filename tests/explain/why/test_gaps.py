"""Where records are missing, `why` says which, and guesses nothing."""

import msgspec

from mainstay.controllers.kinds import DEPLOYMENTS, PODS
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.asking import why
from mainstay.explain.why.causes import Cause
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord, LostRecord, without_detail
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, a_pod, rest


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
    answer = await why(await Moment.now(journal), PODS, "web", "default")

    assert (answer.cause, answer.verdict) == (Cause.NODE_TOO_SMALL, Verdict.INCOMPLETE)
    assert answer.cures == ()
    assert "this is only what its condition PodScheduled says" in answer.gaps[0]


async def test_a_decision_without_its_detail_is_told_in_its_own_words_and_says_what_is_missing(sim: Simulation):
    def dropped(record: DecisionRecord) -> DecisionRecord:
        return without_detail(record) if record.subject.kind == "pods" else record

    journal = Less(await refused_pod(sim), dropped)
    answer = await why(await Moment.now(journal), PODS, "web", "default")

    assert answer.cause is Cause.NODE_TOO_SMALL
    assert "Insufficient cpu" in answer.sentence
    assert answer.cures == ()
    assert any("cannot be made again" in gap for gap in answer.gaps)


async def test_a_decision_without_reasons_and_view_makes_the_answer_incomplete(sim: Simulation):
    def emptied(record: DecisionRecord) -> DecisionRecord:
        if record.subject.kind != "pods" or not record.component.startswith("scheduler"):
            return record
        less = without_detail(record)
        outcome = msgspec.structs.replace(less.outcome, message="")
        return msgspec.structs.replace(less, reasons=(), outcome=outcome)

    journal = Less(await refused_pod(sim), emptied)
    answer = await why(await Moment.now(journal), PODS, "web", "default")

    assert (answer.cause, answer.verdict) == (Cause.NOT_RECORDED, Verdict.INCOMPLETE)
    assert answer.gaps


async def test_lost_decisions_are_said_to_be_missing(sim: Simulation):
    journal = await refused_pod(sim)
    journal.lost.append(LostRecord(0, 1 << 60, 7, 0))
    answer = await why(await Moment.now(journal), PODS, "web", "default")

    assert any("7 decisions of that time were not recorded" in gap for gap in answer.gaps)


async def test_without_any_decision_a_workload_is_still_told_by_its_status(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 2))
        await rest(20)
        journal = Less(cluster.journal, lambda record: None)
    answer = await why(await Moment.now(journal), DEPLOYMENTS, "web", "default")

    assert (answer.cause, answer.verdict) == (Cause.SATISFIED, Verdict.SATISFIED)
