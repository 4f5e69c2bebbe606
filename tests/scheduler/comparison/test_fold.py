"""Folded forward, decisions are replayed as the reference replays them one by one: with faults, from any point on."""

import functools
from collections.abc import Mapping
from datetime import timedelta

import pytest

from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from mainstay.explain.placements import is_placement
from mainstay.explain.replay import Answer, CannotReplay, compare, replay_all
from mainstay.journal.bundle import open_bundle, packed
from mainstay.journal.bundle_contents import gathered
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import moment
from mainstay.scheduler.comparison.comparison import decide_again
from mainstay.scheduler.comparison.fold import DecisionPoint, fold_decisions
from mainstay.scheduler.comparison.history import load_history
from mainstay.scheduler.why.placement import rests_on
from tests.explain.agreement import DECIDERS, journal_of
from tests.scheduler.comparison.recorded import record_rejections

AT_WORK = timedelta(seconds=40)


@functools.cache
def lived(seed: int) -> MemoryJournal:
    return journal_of(seed, AT_WORK)


async def folded(journal: MemoryJournal) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    async for record, point in fold_decisions(await load_history(journal), journal.records()):
        if isinstance(point, CannotReplay):
            found[record.id] = point
        else:
            found[record.id] = compare(record, decide_again(record, point)[1])
    return found


async def one_by_one(journal: MemoryJournal) -> dict[str, Answer]:
    wanted = journal.records(is_placement)
    return {record.id: answer async for record, answer in replay_all(journal, wanted, DECIDERS)}


def shapes(answers: Mapping[str, Answer]) -> dict[str, tuple[str, str]]:
    """Without the words, in which the two may differ."""
    return {
        name: (type(each).__name__, str(each.why) if isinstance(each, CannotReplay) else "")
        for name, each in answers.items()
    }


async def cut(journal: MemoryJournal) -> MemoryJournal:
    """What a bundle of the second half of it has: decisions rest on what came before."""
    records = journal.records()
    first, last = min(each.at for each in records), max(each.at for each in records)
    since, ends = moment((first + last) // 2), moment(last)
    contents = await gathered(journal, since=since, build="", made_at=ends, rests_on=rests_on)
    return open_bundle(b"".join(packed(contents))).journal


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(3, 11))])
def test_every_decision_comes_out_as_the_reference_has_it(seed: int):
    """Seeds that are odd have schedulers that get in each other's way: bindings are rejected at the commit."""
    journal = lived(seed)

    async def both() -> None:
        for each in (journal, await cut(journal)):
            answers = await folded(each)
            assert shapes(answers) == shapes(await one_by_one(each))
            assert "Differs" not in {shape for shape, _ in shapes(answers).values()}

    tasks.run(both())


def test_pods_whose_bindings_were_rejected_are_released_with_the_answer():
    journal = record_rejections()

    rejected = [each for each in journal.records(is_placement) if each.outcome.reason == "CapacityChanged"]
    assert len(rejected) > 1
    assert set(shapes(tasks.run(folded(journal))).values()) == {("Same", "")}
    assert shapes(tasks.run(folded(journal))) == shapes(tasks.run(one_by_one(journal)))


def test_a_broken_invariant_stops_the_comparison_and_is_no_decision(monkeypatch: pytest.MonkeyPatch):
    journal = record_rejections()

    def fail(self: DecisionPoint, policy: object) -> None:
        raise BrokenInvariant("columns equal the view", "node n1", "")

    monkeypatch.setattr(DecisionPoint, "decide", fail)
    with pytest.raises(BrokenInvariant):
        tasks.run(folded(journal))
