"""Users and groups of the machine that belong to one pod alone.

Each pod has a block of `BLOCK` ids, from `FIRST` on, which no other living pod of the machine has. Ids that a pod names
(`runAsUser: 1000`) are the ids of that number in its block, seen through a user namespace. So a pod can be any user it
likes and is none of the machine's: neither the account that happens to have the number 1000 there, nor that of a
database, nor a member of the group that may read /etc/shadow.

Blocks are recorded twice: in the directory of the pod, and in one that all agents of the machine share (`SHARED`), as a
file that is called like the block and contains the path of the pod. The latter is only believed if the pod agrees. So a
block is kept when the agent restarts and when the machine does, and is free when the directory of the pod is gone.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mainstay.agent.runner import CannotRun
from mainstay.agent.runners.process import records

FIRST: Final = 0x70000000
"""1879048192: from here on no account, container runtime or systemd gives ids away, up to 2147352576."""
BLOCK: Final = 131_072
BLOCKS: Final = 2_047
DIRECT: Final = 65_536
"""Ids below this one are found in the block at their own number, those above in its second half."""
DEFAULT: Final = 65_532
"""Who containers are that name no user: called `nonroot` by many images."""
SHARED: Final = Path("/var/lib/mainstay/ids")
_OWN: Final = "ids"


def find_on_machine(first: int, inside: int) -> int:
    """The id on the machine that stands for one inside of the pod whose block begins there."""
    return first + (inside if inside < DIRECT else DIRECT + inside % DIRECT)


def map_ids(first: int, used: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """The map of a user namespace: all ids below `DIRECT`, and those above that are used. Raises `CannotRun`."""
    high = sorted({inside for inside in used if inside >= DIRECT})
    if len({inside % DIRECT for inside in high}) < len(high):
        raise CannotRun(
            "CreateContainerConfigError",
            f"cannot map ids {high}: no two of them may be a multiple of {DIRECT} apart",
        )
    return ((0, first, DIRECT), *((inside, find_on_machine(first, inside), 1) for inside in high))


def take_block(pod: Path, shared: Path = SHARED) -> int:
    """The first id of a pod's block: the one that it has, or else a free one. The directory of the pod is there.
    Raises `OSError`, and `CannotRun` if there is none."""
    with _lock(shared):
        own = _read_own(pod)
        if own is not None and (owner := _find_owner(shared, own)) in (None, pod):
            if owner is None:  # What all agents share was lost.
                _claim(shared, own, pod)
            return FIRST + own * BLOCK
        for number in range(BLOCKS):
            if _find_owner(shared, number) is None:
                _claim(shared, number, pod)
                records.replace(str(pod / _OWN), str(number).encode())
                return FIRST + number * BLOCK
    raise CannotRun("CreateContainerError", f"all {BLOCKS} ranges of user ids are in use on this machine")


def release_block(pod: Path, first: int, shared: Path = SHARED) -> None:
    """Of a pod of which nothing is left. Not necessary: without its directory it has none."""
    claim = shared / str((first - FIRST) // BLOCK)
    with _lock(shared), contextlib.suppress(FileNotFoundError):
        if claim.read_bytes() == os.fsencode(pod):
            claim.unlink()


def find_block(pod: Path) -> int | None:
    """The first id of the block that a pod has."""
    own = _read_own(pod)
    return None if own is None else FIRST + own * BLOCK


def _read_own(pod: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        number = int((pod / _OWN).read_text())
        return number if 0 <= number < BLOCKS else None
    return None


def _find_owner(shared: Path, number: int) -> Path | None:
    """The pod that has this block. None: it is free."""
    try:
        owner = Path((shared / str(number)).read_text())
    except OSError:
        return None
    return owner if _read_own(owner) == number else None


def _claim(shared: Path, number: int, pod: Path) -> None:
    records.replace(str(shared / str(number)), os.fsencode(pod))


@contextlib.contextmanager
def _lock(shared: Path) -> Iterator[None]:
    shared.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(shared / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
