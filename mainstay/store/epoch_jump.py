"""How a local store goes on that has less than it once acknowledged: far ahead of every revision it ever gave.

Clients keep revisions, to resume a watch or to read on at one. After a restore the same revisions would be given to
other writes, and a client could not tell (decision 0010: only Mainstay's own clients can). So the store jumps ahead and
counts as compacted up to there: every revision that any client has is answered 410, and the client lists again. It is
what etcd does for `--bump-revision 1000000000 --mark-compacted`.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from mainstay.store.interface import Entry
from mainstay.store.log import LogRow

JUMP: Final = 1_000_000_000  # More writes than a store takes in its life.


def jump_after(highest: int) -> int:
    """The revision with which the next epoch begins, and up to which it is compacted. `highest` is the highest revision
    that is known to have been given."""
    return highest + JUMP


def build_rows(entries: Iterable[Entry]) -> list[LogRow]:
    """The rows of a log that has these entries and no history: one for each revision that wrote some of them."""
    by_revision: dict[int, list[Entry]] = {}
    for entry in sorted(entries, key=attrgetter("revision", "key")):
        by_revision.setdefault(entry.revision, []).append(entry)
    return [LogRow(revision, tuple(written)) for revision, written in by_revision.items()]
