"""Ending processes with all that they started.

A shim knows its own: as it adopts orphans, each descendant is, or becomes, its child. From outside, when the
shim is gone, descendants are recognised by their cgroup, by the session of the container's first process, or by the
directory in their environment (`MARK`), which is inherited unless a program removes it on purpose.
"""

from __future__ import annotations

import os
import time

from mainstay.agent.runners.process.kernel import SIGKILL
from mainstay.agent.runners.process.records import process_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MARK = "MAINSTAY_ROOT"  # In the environment of every container: the path of its own directory.
_ROUND_S = 0.005
_PROCS = "cgroup.procs"


def children() -> list[int]:
    """The children of this process, those included that have ended and were not reaped."""
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:  # A kernel without that list.
        return [pid for pid, stat in _processes() if stat[1] == own]


def kill_cgroups(directories: Iterable[str]) -> None:
    """Kill all that is in them now."""
    for directory in directories:
        if not _write(f"{directory}/cgroup.kill", "1"):
            for pid in cgroup_members(directory):
                kill(pid)


def cgroup_members(directory: str) -> list[int]:
    try:
        with open(f"{directory}/{_PROCS}", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # Gone, or never there.
        return []


def remove_cgroups(directories: Sequence[str], within_s: float) -> bool:
    """Remove those that are left, when nothing is in them any more. The kernel takes a moment for that."""
    until = time.monotonic() + within_s
    while True:
        left = [directory for directory in directories if not _remove(directory)]
        if not left or time.monotonic() >= until:
            return not left
        kill_cgroups(left)
        time.sleep(_ROUND_S)


def remove_empty_parents(directories: Sequence[str]) -> None:
    """Remove the groups that ours were in: that of the runner, and that of all runners, if they are the last."""
    for directory in directories:
        parent = os.path.dirname(directory)
        if _remove(parent):
            _remove(os.path.dirname(parent))


def _remove(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def open_cgroups(directories: Iterable[str]) -> list[int]:
    """Descriptors for `join_cgroups`: for one that will not see the directories any more."""
    return [os.open(f"{directory}/{_PROCS}", os.O_WRONLY | os.O_CLOEXEC) for directory in directories]


def join_cgroups(opened: Iterable[int]) -> None:
    """Move this process there."""
    for descriptor in opened:
        os.write(descriptor, b"0")
        os.close(descriptor)


def kill(pid: int) -> bool:
    """False if it is gone, or not ours."""
    try:
        os.kill(pid, SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_from_outside(root: str, first: tuple[int, int] | None, cgroups: Sequence[str], within_s: float) -> bool:
    """Kill what is left of a container whose shim does not see to it. True when nothing is.

    `root` is the container's own directory, `first` the number and start time of its first process, if there was one.
    """
    until = time.monotonic() + within_s
    while True:
        kill_cgroups(cgroups)
        found = [pid for directory in cgroups for pid in cgroup_members(directory)]
        found += _recognised(root, first)
        for pid in found:
            kill(pid)
        if not found or time.monotonic() >= until:
            return not found
        time.sleep(_ROUND_S)


def _recognised(root: str, first: tuple[int, int] | None) -> list[int]:
    mark = os.fsencode(f"{MARK}={root}")
    # While the first process is there, its number stands for its session. Later it may be another one's.
    session = None
    if first is not None:
        stat = process_stat(first[0])
        session = first[0] if stat is not None and stat[5] == first[1] else None
    own = os.getpid()
    return [
        pid
        for pid, stat in _processes()
        if pid != own and stat[0] not in "ZX" and (stat[3] == session or mark in _environment(pid))
    ]


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # It has ended, or is not ours.
        return []


def _processes() -> list[tuple[int, tuple[str, int, int, int, int, int, int]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := process_stat(name)) is not None:
            found.append((int(name), stat))
    return found


def _write(path: str, text: str) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
