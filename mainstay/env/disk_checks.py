"""Health checks of the directory that a process writes to.

    data-directory   it is there, and this process may write in it
    disk-space       it has room for what is written next

A file system that has failed, or that was mounted again, is read-only: what is open may still be written for a while,
and nothing new can be made.
"""

import os
from pathlib import Path
from typing import Final

from mainstay.env import machine
from mainstay.env.health import Health

FREE_BYTES_MIN: Final = 16 * 1024 * 1024


def add_disk_checks(health: Health, directory: Path) -> None:
    health.add("data-directory", lambda: find_directory_problem(directory))
    health.add("disk-space", lambda: _find_lack_of_space(directory))


def find_directory_problem(directory: Path) -> str:
    """Why no file can be made in a directory. Empty: one can."""
    try:
        flags = os.statvfs(directory).f_flag
    except FileNotFoundError:
        return f"{directory} is gone: stop the process, and restore the directory from a backup"
    except OSError as error:
        return f"cannot read {directory}: {error.strerror}: check the disk"
    if flags & os.ST_RDONLY:
        return f"{directory} is on a read-only file system: check the disk, and mount it read-write"
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return f"user {os.geteuid()} may not write to {directory}: change its owner or its permissions"
    return ""


def _find_lack_of_space(directory: Path) -> str:
    free = machine.disk_free_bytes(directory)
    if free >= FREE_BYTES_MIN:
        return ""
    room = f"{free // 1024} KiB are free in {directory}, at least {FREE_BYTES_MIN // 1024} KiB are needed"
    return f"{room}: free some space on this disk, or make it larger"
