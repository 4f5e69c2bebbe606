"""The names of former histories: files of a journal that was ahead of its store (former_epoch.py), with a prefix."""

import re
from collections.abc import Iterable
from typing import Final

from mainstay.journal.files import parsed_name

REASON: Final = "JournalAheadOfStore"

_PREFIXED: Final = re.compile(r"(former-\d+)\.(.+)")


def find_former(names: Iterable[str]) -> list[str]:
    """The prefixes of former histories in a directory, in order."""
    return sorted({match[1] for match in map(_PREFIXED.fullmatch, names) if match and parsed_name(match[2])})


def describe_former(prefix: str) -> str:
    return (
        f"{REASON}: the store was restored from an older backup; what was recorded after that backup, and before the"
        f" restore, is in the files {prefix}.* of the journal, and in no answer. Delete them when they are not needed"
    )
