"""What a broken invariant says, and that the process is unready from then on."""

import asyncio
import logging

import pytest

from mainstay.env.invariants import BrokenInvariant, Sample, broken, check, find_broken


def test_what_holds_raises_nothing():
    check(True, "a queue's sets are disjoint", "pod web-1", queued=1)


def test_a_broken_invariant_names_the_rule_the_object_and_its_story(caplog: pytest.LogCaptureFixture):
    with pytest.raises(BrokenInvariant) as raised:
        check(False, "a queue's sets are disjoint", "pod web-1", queued=True, assumed="n1")
    assert str(raised.value) == ("broken invariant: a queue's sets are disjoint: pod web-1: queued=True, assumed='n1'")
    assert [each.levelno for each in caplog.records] == [logging.CRITICAL]


def test_a_story_is_bounded():
    assert len(broken("a rule", "a pod", everything="x" * 100_000).story) == 4000


@pytest.mark.parametrize("run", [asyncio.run, pytest.importorskip("uvloop").run])
def test_the_process_is_unready_because_of_the_first_one(run):
    async def program() -> None:
        assert find_broken() is None
        first = broken("a rule", "a pod")
        broken("another rule", "a pod")
        assert find_broken() is first

    run(program())


def test_another_loop_knows_nothing_of_it():
    async def breaks() -> None:
        broken("a rule", "a pod")

    async def looks() -> BrokenInvariant | None:
        return find_broken()

    asyncio.run(breaks())
    assert asyncio.run(looks()) is None


def test_one_in_so_many_is_taken():
    sample = Sample(one_in=3)
    assert [sample.take() for _ in range(7)] == [False, False, True, False, False, True, False]
    assert sample.taken == 2
