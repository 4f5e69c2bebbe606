"""Files that other processes write into: their last lines, and keeping them small.

The writers append, and hold the file open: it is copied away and then emptied, never renamed. What is written between
the copy and the emptying, which is some microseconds, is lost.
"""

import contextlib
import os
import shutil
from collections import deque
from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 64 * 1024


def last_lines(path: Path, count: int, *, after: int = 0) -> list[str]:
    """The last lines of a file, without their ends; only of what comes after that many bytes.

    None if the file is not there.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            # A file that is smaller than it was has been emptied since.
            begin = after if after <= size else 0
            file.seek(max(begin, size - _TAIL_BYTES))
            lines = deque(file.read().decode(errors="replace").splitlines(), maxlen=count)
    except OSError:
        return []
    return list(lines)


def size(path: Path) -> int:
    """In bytes; 0 if it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def trim(path: Path, bytes_max: int, keep: int) -> bool:
    """Empty a file that has grown over `bytes_max`, and keep what was in it as `NAME.1`, the ones before as `NAME.2`, …

    Of those, `keep` are kept. Blocks. Returns whether it did.
    """
    if size(path) <= bytes_max:
        return False
    for number in range(keep - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(_numbered(path, number), _numbered(path, number + 1))
    descriptor = os.open(_numbered(path, 1), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as copy, path.open("rb") as original:
        shutil.copyfileobj(original, copy)
        shutil.copyfileobj(original, copy)  # What came meanwhile.
        os.truncate(path, 0)
    return True


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
