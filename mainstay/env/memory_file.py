"""A file without a place on disk, for libraries that take a path where we have bytes.

OpenSSL, as Python knows it, loads a client's key from a file only. A key that came as part of a kubeconfig must not lie
around in one.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def memory_file(data: bytes) -> Iterator[Path]:
    """A path that reads as these bytes, inside this process, until the block ends.

    Where the system has no files in memory it is one on disk, for its owner alone.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("mainstay", os.MFD_CLOEXEC)
        try:
            _write_all(number, data)
            yield Path(f"/proc/self/fd/{number}")
        finally:
            os.close(number)
        return
    number, name = tempfile.mkstemp(prefix="mainstay-")
    try:
        _write_all(number, data)
        yield Path(name)
    finally:
        os.close(number)
        os.unlink(name)


def _write_all(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]
