"""What can be kept of a damaged log: a plain function over what can be read of it (sqlite_image.py).

Kept is the longest part that is whole: the compacted rows that match their checksums, and after them every revision up
to the first that is missing. What comes after a missing revision is not kept, even if it can be read: it was decided
upon what is gone. Of a compacted row that is gone, what it had written is unknown.

If the compaction mark itself is gone, which revisions should be there is unknown; then every row that is whole is kept.
"""

from dataclasses import dataclass

from mainstay.store.index import replay
from mainstay.store.interface import Entry
from mainstay.store.sqlite_image import LogImage


@dataclass(frozen=True, slots=True)
class Salvage:
    entries: tuple[Entry, ...]
    """What is there as of `revision`."""
    revision: int
    """The newest revision that is kept."""
    highest: int
    """The highest revision that is known to have been given."""
    rows_lost: int
    """Rows that compaction had left and that are gone. What they had written is unknown."""

    @property
    def commits_lost(self) -> int:
        return self.highest - self.revision


def find_salvageable(image: LogImage) -> Salvage:
    """Raises `Corrupt` if the rows contradict each other."""
    chain = image.chain
    anchor, head = chain.anchor, chain.head
    kept = [image.rows[revision] for revision in sorted(image.rows) if revision <= head.revision]
    index, _ = replay(head.revision, kept)
    whole = sum(1 for row in kept if row.revision <= anchor.compacted)
    entries = tuple(index.live[key] for key in sorted(index.live))
    return Salvage(entries, head.revision, image.highest, max(0, anchor.count - whole))
