"""A journal that is ahead of its store: the store was restored from an older backup, or salvaged by other means.

The store gives the same revisions to other changes now, so that what the journal has after them is another history, and
nothing can be recorded on top of it. Its files are set aside: they get the prefix `former-N.`, under which no reader
takes them for the present history, and a new one is begun. Every answer says so for as long as they are there. To read
them, copy them elsewhere without the prefix (`mainstay … --journal DIR`); delete them when they are not needed.

The newest file of the history goes last: if this is cut short, the journal is still ahead, and it is done again.
"""

import contextlib
import logging
from collections.abc import Iterable

from mainstay.env.disk import Disk
from mainstay.journal.files import Series, parsed_name
from mainstay.journal.former_names import describe_former, find_former
from mainstay.journal.manifest import name_manifest
from mainstay.journal.reader import Reader
from mainstay.journal.segment_end import name_end

_log = logging.getLogger(__name__)


def set_aside(disk: Disk, revision: int) -> str:
    """Set a journal aside that is ahead of a store at this revision. Returns the prefix; empty: it is not ahead. Before
    the journal is opened for writing. Blocks. Raises `OSError`."""
    reached = Reader(disk).reached()
    if reached <= revision:
        return ""
    prefix = f"former-{len(find_former(disk.names())) + 1}"
    _log.error("the journal is at revision %d, the store only at %d: %s", reached, revision, describe_former(prefix))
    for series in Series:
        for name in (name_manifest(series), name_end(series)):
            with contextlib.suppress(FileNotFoundError):
                disk.remove(name)
    for name in _in_order(disk.names()):
        disk.rename(name, f"{prefix}.{name}")
    return prefix


def _in_order(names: Iterable[str]) -> list[str]:
    parsed = [(name, found) for name in names if (found := parsed_name(name)) is not None]
    return [name for name, _ in sorted(parsed, key=lambda each: (each[1].series is Series.HISTORY, each[1].number))]
