"""The record of each process, in the directory `run`: its identity, its restarts and failures.

    NAME.json         of a component
    supervisor.json   of the supervisor itself
    supervisor.lock   held by it for as long as it lives

The next supervisor and `mainstay status` read them. A record names the process that was started; whether it still runs,
the machine knows, by the whole identity. Records are not synced: after a power cut no process is left that they name. A
damaged record counts as none.
"""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from mainstay.env import Disk
from mainstay.env.commands import Identity

SUPERVISOR: Final = "supervisor"
LOCK: Final = "supervisor.lock"
_END: Final = ".json"
_UNFINISHED: Final = "unfinished"


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    pid: int
    started: int
    boot: str
    argv: tuple[str, ...]
    since: datetime
    """When it was started."""
    turn: int = 0
    restarts: int = 0
    """How often it has ended by itself before."""
    failures: int = 0
    """How often in a row, and soon after its start."""
    ended: datetime | None = None
    """When it was noticed that it had ended."""
    retry_at: datetime | None = None
    """When it is started again."""

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.started, self.boot)


_decoder: Final = msgspec.json.Decoder(ProcessRecord)
_encoder: Final = msgspec.json.Encoder()


def read_all(disk: Disk) -> Mapping[str, ProcessRecord]:
    """The records of all components, by name. Blocks."""
    found = {}
    for file in disk.names():
        name = file.removesuffix(_END)
        if file.endswith(_END) and name != SUPERVISOR:
            record = read(disk, name)
            if record is not None:
                found[name] = record
    return found


def read(disk: Disk, name: str) -> ProcessRecord | None:
    """Blocks."""
    try:
        return _decoder.decode(disk.read(name + _END))
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write(disk: Disk, record: ProcessRecord) -> None:
    """Put it there, whole. Blocks. Raises `DiskFull`."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(_UNFINISHED)
    disk.append(_UNFINISHED, _encoder.encode(record) + b"\n")
    disk.rename(_UNFINISHED, record.name + _END)


def remove(disk: Disk, name: str) -> None:
    """Blocks."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(name + _END)
