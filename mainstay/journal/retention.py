"""What to forget: a plain function over what is there.

Closed segments go, oldest first, once they are older than `keep`, or while everything together is larger than
`keep_bytes`. A snapshot is there to begin from, so it goes when the changes after it are gone; the latest one stays.
What is still being written is never forgotten.

Age is that of the latest record in a file. If the clock was wrong for a while, files go late or early, but always in
the order in which they were written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from mainstay.journal.files import FileIndex


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The numbers of what is to be removed, in this order."""

    segments: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()


def to_forget(
    segments: Mapping[int, FileIndex],
    snapshots: Mapping[int, int],
    at: int,
    keep: timedelta,
    keep_bytes: int,
) -> Forgotten:
    """Say what goes at a time. `segments` are the closed ones by number, `snapshots` bytes on disk by revision."""
    oldest_kept = at - keep // timedelta(microseconds=1)
    total = sum(index.bytes for index in segments.values()) + sum(snapshots.values())
    numbers = sorted(segments)
    gone: list[int] = []
    gone_snapshots: list[int] = []
    for number in numbers:
        if segments[number].last_at >= oldest_kept and total <= keep_bytes:
            break
        gone.append(number)
        total -= segments[number].bytes
        begins = _first_revision(segments, numbers[len(gone) :])
        for revision in sorted(snapshots)[:-1]:
            if revision not in gone_snapshots and (begins is None or revision < begins):
                gone_snapshots.append(revision)
                total -= snapshots[revision]
    return Forgotten(tuple(gone), tuple(gone_snapshots))


def _first_revision(segments: Mapping[int, FileIndex], numbers: list[int]) -> int | None:
    """After which revision the first of these segments begins; None if none of them covers any."""
    for number in numbers:
        covers = segments[number].covers
        if covers:
            return covers[0][0]
    return None
