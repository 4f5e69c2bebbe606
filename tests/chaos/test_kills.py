"""A few rounds of what kills.py does for hours, and that it would notice."""

import asyncio

import pytest

from tests.chaos.kills import Ledger, ServerVictim, StoreVictim, run
from tests.chaos.store_writer import NAMES

FIRST = NAMES[0]


def a_ledger(step: int) -> Ledger:
    ledger = Ledger()
    ledger.acknowledge(FIRST, step)
    return ledger


@pytest.mark.parametrize(
    ("acknowledged", "found", "is_wrong"),
    [
        (2, 2, False),
        (2, 3, False),  # It was under way, and its answer was lost.
        (2, 1, True),
        (2, None, True),
        (2, 4, True),
        (3, None, False),  # A removal whose answer was lost.
        (4, None, False),
        (4, 3, True),  # Removed, and there again.
        (4, 5, False),
    ],
)
def test_what_may_be_found_after_a_kill(acknowledged: int, found: int | None, is_wrong: bool):
    ledger = a_ledger(acknowledged)
    ledger.check({} if found is None else {FIRST: found}, 10, "round 1")
    assert bool(ledger.wrong) is is_wrong


def test_a_revision_that_goes_back_and_an_object_that_nothing_wrote_are_noticed():
    ledger = Ledger()
    ledger.check({}, 10, "round 1")
    ledger.check({}, 9, "round 2")
    ledger.check({"stranger": 1}, 9, "round 3")
    assert [problem.partition(":")[0] for problem in ledger.wrong] == ["round 2", "round 3"]


@pytest.mark.slow
def test_a_store_that_is_killed_under_load_loses_nothing_acknowledged():
    ledger = asyncio.run(run(StoreVictim(), rounds=5, seed=1))
    assert (ledger.wrong, ledger.writes > 0) == ([], True)


@pytest.mark.slow
@pytest.mark.deep
def test_a_server_that_is_killed_under_load_loses_nothing_acknowledged():
    ledger = asyncio.run(run(ServerVictim(), rounds=5, seed=1))
    assert (ledger.wrong, ledger.writes > 0) == ([], True)
