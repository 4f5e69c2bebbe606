"""Read every record in the data directory of a stopped server, and say what is damaged; keep what is whole.

    check      reads the store (store/sqlite_image.py) and the journal; changes nothing
    salvage    makes a new store of what is whole (store/salvage.py), and moves the damaged one aside

A salvage begins a new epoch: the store jumps ahead of every revision that it may have given (store/epoch_jump.py), so
that every client lists again. The new store is built in `store.salvaging` and then takes the place of `store`; until
that is done no server starts on the directory. The damaged one is `store.damaged-N` then, and never deleted.

The calls block.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.env import SystemDisk, tasks
from mainstay.env.disk import Locked, exists, is_directory
from mainstay.journal.reader import Reader
from mainstay.journal.scan import Damage
from mainstay.server.store_damage import SALVAGING, STORE, require_salvaged
from mainstay.store.epoch_jump import build_rows, jump_after
from mainstay.store.errors import Corrupt, StoreError
from mainstay.store.salvage import Salvage, find_salvageable
from mainstay.store.sealer import AS_STORED
from mainstay.store.sqlite_image import LogImage, read_image
from mainstay.store.sqlite_log import LOCK, SqliteLog

JOURNAL: Final = "journal"
SERVER_LOCK: Final = "server.lock"


class CannotCheck(Exception):
    """The directory cannot be read or changed now. The message says what to do."""


@dataclass(frozen=True, slots=True)
class DirectoryReport:
    store: LogImage | None
    """None: there is no store."""
    journal: tuple[Damage, ...] | None
    """What is damaged in it. None: there is no journal."""
    journal_reached: int = 0
    """The newest revision that the journal has."""


@dataclass(frozen=True, slots=True)
class SalvagePlan:
    image: LogImage
    salvage: Salvage
    lost_objects: tuple[str, ...]
    """Keys of objects that the lost commits wrote, as far as the journal knows."""
    is_known_until: int
    """Up to which revision the journal knows that."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    plan: SalvagePlan
    revision: int
    """At which the new store begins."""
    aside: Path
    """Where the damaged one is now."""


@contextlib.contextmanager
def lock_data_dir(data_dir: Path, holder: str) -> Iterator[SystemDisk]:
    """Keep servers away. Raises `CannotCheck`."""
    if not is_directory(data_dir):
        raise CannotCheck(f"data directory {data_dir} not found")
    disk = SystemDisk(data_dir)
    try:
        disk.lock(SERVER_LOCK, f"{holder} (process {os.getpid()})")
        yield disk
    except Locked as error:
        raise CannotCheck(f"the data directory {data_dir} is in use by {error.holder}: stop that first") from None
    except OSError as error:
        raise CannotCheck(f"cannot use {error.filename or data_dir}: {error.strerror or error}") from error
    finally:
        disk.close()


def check_data_dir(data_dir: Path, on_progress: Callable[[str], None]) -> DirectoryReport:
    """Read every record. Raises `CannotCheck`."""
    with lock_data_dir(data_dir, "mainstay store verify"):
        has_store, has_journal = is_directory(data_dir / STORE), is_directory(data_dir / JOURNAL)
        if not has_store and not has_journal:
            raise CannotCheck(f"no store and no journal in {data_dir}: give the data directory of a server")
        image = _read_store(data_dir, on_progress) if has_store else None
        if not has_journal:
            return DirectoryReport(image, None)
        on_progress("reading the journal")
        disk = SystemDisk(data_dir / JOURNAL)
        try:
            reader = Reader(disk)
            return DirectoryReport(image, reader.damages(), reader.reached())
        finally:
            disk.close()


def _read_store(data_dir: Path, on_progress: Callable[[str], None]) -> LogImage:
    disk = SystemDisk(data_dir / STORE)
    try:
        disk.lock(LOCK, f"process {os.getpid()}")
        return read_image(disk, lambda rows: on_progress(f"{rows} rows of the store"))
    finally:
        disk.close()


def plan_salvage(data_dir: Path, on_progress: Callable[[str], None]) -> SalvagePlan:
    """What a salvage would keep, and what it would lose. Raises `CannotCheck`."""
    with lock_data_dir(data_dir, "mainstay store salvage"):
        return _plan(data_dir, on_progress)


def _plan(data_dir: Path, on_progress: Callable[[str], None]) -> SalvagePlan:
    if not is_directory(data_dir / STORE):
        raise CannotCheck(f"no store in {data_dir}: give the data directory of a server with --store sqlite")
    image = _read_store(data_dir, on_progress)
    try:
        salvage = find_salvageable(image)
    except StoreError as error:
        raise CannotCheck(f"nothing can be salvaged, restore a backup: {error}") from error
    lost: tuple[str, ...] = ()
    reached = 0
    if salvage.commits_lost and is_directory(data_dir / JOURNAL):
        disk = SystemDisk(data_dir / JOURNAL)
        try:
            reader = Reader(disk)
            changes = reader.changes(after=salvage.revision, until=salvage.highest).records
            lost = tuple(sorted({change.key for change in changes}))
            reached = reader.reached()
        finally:
            disk.close()
    return SalvagePlan(image, salvage, lost, reached)


def salvage_data_dir(data_dir: Path, on_progress: Callable[[str], None]) -> Salvaged:
    """Make a new store of what is whole. Raises `CannotCheck`."""
    with lock_data_dir(data_dir, "mainstay store salvage") as disk:
        try:
            require_salvaged(data_dir)
        except Corrupt as error:
            raise CannotCheck(str(error)) from None
        plan = _plan(data_dir, on_progress)
        revision = jump_after(plan.salvage.highest)
        try:
            tasks.run(_build(data_dir / SALVAGING, plan.salvage, revision))
        except StoreError as error:
            raise CannotCheck(f"cannot build the new store in {data_dir / SALVAGING}: {error}") from error
        number = 1
        while exists(data_dir / (aside := f"{STORE}.damaged-{number}")):
            number += 1
        disk.rename(STORE, aside)
        disk.rename(SALVAGING, STORE)
        return Salvaged(plan, revision, data_dir / aside)


async def _build(directory: Path, salvage: Salvage, revision: int) -> None:
    left_over = SystemDisk(directory)
    for name in left_over.names():
        left_over.remove(name)
    log = SqliteLog(left_over, sealer=AS_STORED)
    await log.open()
    try:
        await log.fill(revision, build_rows(salvage.entries))
    finally:
        await log.close()
