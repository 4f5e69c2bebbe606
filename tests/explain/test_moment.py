"""A moment is found by its time, however much came after it."""

from datetime import UTC, datetime, timedelta

import pytest

from mainstay.explain.moment import Moment, NoSuchMoment
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import ChangeRecord, micros

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_journal(*offsets_s: float) -> MemoryJournal:
    journal = MemoryJournal()
    for revision, offset in enumerate(offsets_s, 1):
        at = micros(NOON + timedelta(seconds=offset))
        journal.change(ChangeRecord(revision, "core/pods/default/web", b'{"metadata":{"name":"web"}}', at))
    return journal


@pytest.mark.sim
@pytest.mark.parametrize(
    ("offset_s", "revision"), [(0, 1), (0.5, 1), (1, 3), (2, 3), (99, 3), (100, 4), (5_000, 5), (90_000, 6)]
)
async def test_a_time_is_the_last_revision_up_to_it(offset_s: float, revision: int):
    journal = a_journal(0, 1, 1, 100, 4_000, 90_000)

    found = await Moment.at_time(journal, NOON + timedelta(seconds=offset_s))

    assert found.revision == revision


@pytest.mark.sim
async def test_a_time_before_the_journal_is_no_moment():
    with pytest.raises(NoSuchMoment, match=r"the journal begins at 2026-01-01T12:00:00\+00:00"):
        await Moment.at_time(a_journal(0, 1), NOON - timedelta(seconds=1))
