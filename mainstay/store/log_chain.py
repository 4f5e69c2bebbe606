"""The chain of a log: how a log knows, when it is read again, that nothing of it is gone or from elsewhere.

Each row has a checksum of its revision and bytes. The chain value of a revision is made from that of the one before it
and the checksum of its row, so it stands for the whole history up to there. What a log keeps of it:

    anchor      with the revision compacted to: its chain value, and how many rows are left up to there, with the sum of
                their checksums. Compaction removes and rewrites rows, so up to there the chain cannot be made again,
                but a row that is lost, or an old version of one, does not fit count and sum
    high water  in a file of its own (high_water.py): the newest revision that was acknowledged, and its chain value

Compared on opening. A log that ends before its high-water mark has lost what was acknowledged; one with another chain
value there is another history. Plain data: nothing here touches a disk.

Checksums find what disks and bugs do. They do not keep anyone from forging a log.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainstay.env.invariants import broken
from mainstay.store.interface import FIRST_REVISION


class HighWater(NamedTuple):
    """The newest revision that was acknowledged, and its chain value."""

    revision: int
    chain: int


class LogAnchor(msgspec.Struct, frozen=True, array_like=True):
    """Where the part of a log begins that has every revision, and what is left of the part before it."""

    compacted: int = 0
    chain: int = 0
    """Of the revision compacted to."""
    count: int = 0
    """Rows up to there."""
    total: int = 0
    """The sum of their checksums."""

    @property
    def base(self) -> int:
        """The revision whose successor is the first that must be there."""
        return max(self.compacted, FIRST_REVISION)


class ReplacedRow(NamedTuple):
    """What compaction makes of a row."""

    revision: int
    checksum: int | None
    """Of what is there instead. None: nothing is."""


def anchor_of_filled(compacted: int, checksums: Sequence[int]) -> LogAnchor:
    """The anchor of a log that begins with these rows, all of them compacted. No history leads there, so its chain
    begins with what they are."""
    total = sum(checksums)
    return LogAnchor(compacted, zlib.crc32(total.to_bytes(8)), len(checksums), total)


def link(chain: int, checksum: int) -> int:
    """The chain value after one more row."""
    return zlib.crc32(checksum.to_bytes(4), chain)


class LogChain:
    """The checksums of an open log. What it is told has been written."""

    __slots__ = ("_checksums", "anchor", "head")

    def __init__(self, anchor: LogAnchor = LogAnchor(), checksums: Mapping[int, int] | None = None) -> None:  # noqa: B008 - frozen
        self.anchor = anchor
        self._checksums = dict(checksums or {})
        """Of each row, by revision."""
        head = anchor.chain
        revision = anchor.base
        while (checksum := self._checksums.get(revision + 1)) is not None:
            head = link(head, checksum)
            revision += 1
        self.head = HighWater(revision, head)
        """The newest row of which all before it are there."""

    @property
    def revisions(self) -> list[int]:
        """Of all rows, ascending."""
        return sorted(self._checksums)

    def look_up(self, revisions: Iterable[int]) -> dict[int, int | None]:
        """The checksum of each of these rows. None: it is not there, or no more."""
        return {revision: self._checksums.get(revision) for revision in revisions}

    def find_faults(self, acknowledged: HighWater | None, *, is_chained: bool = True) -> list[str]:
        """What does not fit together. `acknowledged`: the high-water mark, if it is known. Without `is_chained` the
        log has no anchor that its chain value could be compared with."""
        anchor, checksums = self.anchor, self._checksums
        faults = []
        before = [checksum for revision, checksum in checksums.items() if revision <= anchor.compacted]
        if len(before) < anchor.count:
            lost = anchor.count - len(before)
            faults.append(f"{lost} of the {anchor.count} rows up to revision {anchor.compacted} {_are(lost)} missing")
        elif (len(before), sum(before)) != (anchor.count, anchor.total):
            faults.append(f"the rows up to revision {anchor.compacted} are not those that compaction left there")
        newest = max(checksums, default=0)
        if newest > self.head.revision:
            following = min(revision for revision in checksums if revision > self.head.revision)
            faults.append(f"revision {self.head.revision + 1} is missing: the next one found is {following}")
        elif acknowledged is not None and acknowledged.revision > self.head.revision:
            lost = acknowledged.revision - self.head.revision
            ends = (
                f"the log ends at revision {self.head.revision}, but revision {acknowledged.revision} was acknowledged"
            )
            faults.append(f"{ends}: {lost} {'commit is' if lost == 1 else 'commits are'} lost")
        if acknowledged is not None and is_chained and not self._has(acknowledged):
            faults.append(
                f"revision {acknowledged.revision} is not the one that was acknowledged: another history is there"
            )
        return faults

    def _has(self, acknowledged: HighWater) -> bool:
        """Whether this revision has this chain value, as far as that can be told."""
        if not self.anchor.base <= acknowledged.revision <= self.head.revision:
            return True
        chain = self.anchor.chain
        for revision in range(self.anchor.base + 1, acknowledged.revision + 1):
            chain = link(chain, self._checksums[revision])
        return chain == acknowledged.chain

    def head_after(self, checksums: Iterable[int]) -> HighWater:
        """The head once rows with these checksums follow."""
        revision, chain = self.head
        for checksum in checksums:
            revision += 1
            chain = link(chain, checksum)
        return HighWater(revision, chain)

    def append(self, checksums: Sequence[int]) -> None:
        """These rows have been written."""
        first = self.head.revision + 1
        self.head = self.head_after(checksums)
        self._checksums.update(enumerate(checksums, first))

    def anchor_after(self, compacted: int, replaced: Iterable[ReplacedRow]) -> LogAnchor:
        """The anchor once the log is compacted to this revision, and these rows are replaced."""
        known, before = self._checksums, self.anchor
        chain, count, total = before.chain, before.count, before.total
        for revision in range(before.base + 1, compacted + 1):
            checksum = known[revision]
            chain = link(chain, checksum)
            count += 1
            total += checksum
        for row in replaced:
            if row.revision not in known:
                raise broken("compaction replaces rows that are there", f"revision {row.revision}", compacted=compacted)
            total -= known[row.revision]
            if row.checksum is None:
                count -= 1
            else:
                total += row.checksum
        return LogAnchor(compacted, chain, count, total)

    def compact(self, anchor: LogAnchor, replaced: Iterable[ReplacedRow]) -> None:
        """This has been written."""
        self.anchor = anchor
        for row in replaced:
            if row.checksum is None:
                del self._checksums[row.revision]
            else:
                self._checksums[row.revision] = row.checksum


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
