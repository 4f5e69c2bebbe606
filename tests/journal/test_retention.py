"""What is forgotten, and in which order."""

from datetime import timedelta

from mainstay.journal.files import FORMAT, BlockIndex, FileIndex
from mainstay.journal.retention import Forgotten, to_forget

DAY = 86_400_000_000
KEEP = timedelta(days=7)


def a_segment(number: int, *, last_at: int = 0, after: int = 0, until: int = 0, size: int = 100) -> FileIndex:
    covers = ((after, until),) if until else ()
    return FileIndex(FORMAT, "history", number, size, size, (BlockIndex(19, 1, last_at, last_at, covers, ()),))


def segments(*indexes: FileIndex) -> dict[int, FileIndex]:
    return {index.number: index for index in indexes}


def test_what_is_older_than_it_is_kept_goes():
    there = segments(a_segment(1, last_at=1 * DAY), a_segment(2, last_at=2 * DAY), a_segment(3, last_at=9 * DAY))

    assert to_forget(there, {}, 9 * DAY, KEEP, 10_000) == Forgotten((1,))
    assert to_forget(there, {}, 9 * DAY + 1, KEEP, 10_000) == Forgotten((1, 2))
    assert to_forget(there, {}, 5 * DAY, KEEP, 10_000) == Forgotten()


def test_the_oldest_go_until_the_rest_fits():
    there = segments(*(a_segment(number, last_at=DAY, size=100) for number in range(1, 6)))

    assert to_forget(there, {}, DAY, KEEP, 320) == Forgotten((1, 2))
    assert to_forget(there, {}, DAY, KEEP, 0) == Forgotten((1, 2, 3, 4, 5))


def test_a_snapshot_goes_with_the_changes_that_follow_it_and_the_latest_stays():
    there = segments(
        a_segment(1, last_at=1 * DAY, after=10, until=20),
        a_segment(2, last_at=9 * DAY, after=20, until=30),
        a_segment(3, last_at=9 * DAY, after=30, until=40),
    )

    assert to_forget(there, {10: 50, 20: 50, 35: 50}, 9 * DAY, KEEP, 10_000) == Forgotten((1,), (10,))
    assert to_forget(there, {10: 50}, 30 * DAY, KEEP, 10_000) == Forgotten((1, 2, 3))


def test_a_clock_that_was_wrong_does_not_change_the_order():
    there = segments(a_segment(1, last_at=90 * DAY), a_segment(2, last_at=1 * DAY), a_segment(3, last_at=9 * DAY))

    assert to_forget(there, {}, 9 * DAY, KEEP, 10_000) == Forgotten()
    assert to_forget(there, {}, 98 * DAY, KEEP, 10_000) == Forgotten((1, 2, 3))
