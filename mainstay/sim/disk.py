"""A disk that can lose power, tear writes, lie about syncing, fill up, and damage what was written to it.

Each file remembers what was synced and, apart from that, what was done to it since. A power cut keeps the synced part
and asks `choose` what became of the rest: by default nothing survives, otherwise all of it, a part of it, or a part
of it followed by blocks that were never filled. Names count as the `Disk` contract says: `rename` and `remove` are
durable at once.

    disk = SimDisk(choices, "server-0")
    disk.cut_power_before(17)            the 17th operation from now never happens
    …                                    that operation, and every later one, raises `PowerLost`
    disk = disk.after_power_cut()        what the machine finds when it starts again

`PowerLost` is a `BaseException`: the machine is dead, and nothing that runs on it may handle that. The simulated loop
leaves an executor call that ends this way without an answer, for ever.
"""

import errno
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from mainstay.env.disk import DiskFull, Locked
from mainstay.sim.errors import MachineDead
from mainstay.sim.run.choices import Choices

BLOCK_BYTES: Final = 512  # What a disk writes at once. Torn writes end anywhere, unfilled parts are whole blocks.


class PowerLost(MachineDead):
    """The machine lost power during, or before, this operation."""


class Survival(IntEnum):
    """What a power cut leaves of what was written but not synced. The first is what one expects, so the benign one."""

    NOTHING = 0
    EVERYTHING = 1
    TORN = 2
    TORN_THEN_UNFILLED = 3


@dataclass(slots=True)
class _File:
    synced: bytes = b""
    current: bytearray = field(default_factory=bytearray)


class SimDisk:
    """Implements `Disk` (env/disk.py) in memory, for one start of one machine."""

    def __init__(self, choices: Choices, label: str) -> None:
        self._choices = choices
        self._label = label
        self._files: dict[str, _File] = {}
        self._locks: dict[str, str] = {}
        self._has_power = True
        self._operations_left: int | None = None
        self.capacity_bytes: int | None = None
        """How much fits on it; None for as much as one likes."""
        self.lost_sync_probability = 0.0
        """How often a sync returns without having done anything. No store survives that: it tests the checkers."""
        self.error_probability = 0.0
        """How often an append or a sync fails with an error, having done some of its work or none."""

    @property
    def has_power(self) -> bool:
        return self._has_power

    @property
    def used_bytes(self) -> int:
        return sum(len(file.current) for file in self._files.values())

    def flip(self, name: str, bit: int) -> None:
        """Let one bit of a file be another one than was written: the disk has damaged it, synced or not."""
        file = self._existing(name)
        file.current[bit // 8] ^= 1 << bit % 8
        file.synced = bytes(file.current)

    def copy(self, name: str) -> bytes:
        """What a file holds, for those outside the machine."""
        return bytes(self._existing(name).current)

    def put(self, name: str, data: bytes) -> None:
        """Let a file hold something else, durably: the disk has lost a part of it, or an operator has put it back."""
        self._files[name] = _File(data, bytearray(data))

    def list_sizes(self) -> dict[str, int]:
        """How large each file is, in the order of names."""
        return {name: len(self._files[name].current) for name in sorted(self._files)}

    def wipe(self) -> None:
        """Another disk is in its place, with nothing on it."""
        self._files.clear()

    def cut_power_before(self, operation: int) -> None:
        """Let the power fail just before the n-th operation from now, counting from 1."""
        self._operations_left = operation

    def cut_power(self) -> None:
        """Let the power fail now."""
        self._has_power = False

    def after_power_cut(self) -> "SimDisk":
        """The same disk, with what has survived, for the machine's next start. Cuts the power if that is still on."""
        self._has_power = False
        disk = SimDisk(self._choices, self._label)
        disk.capacity_bytes = self.capacity_bytes
        disk.lost_sync_probability = self.lost_sync_probability
        disk.error_probability = self.error_probability
        for name in sorted(self._files):
            survived = self._survived(name, self._files[name])
            disk._files[name] = _File(survived, bytearray(survived))
        return disk

    def _survived(self, name: str, file: _File) -> bytes:
        current = bytes(file.current)
        if current == file.synced:
            return current
        if len(current) == len(file.synced):
            # It was overwritten: the first so many bytes of the new state, and then the old one.
            match Survival(self._choose(f"{name}/overwritten", Survival.TORN_THEN_UNFILLED)):
                case Survival.NOTHING:
                    return file.synced
                case Survival.EVERYTHING:
                    return current
                case _:
                    changed = [at for at, byte in enumerate(current) if byte != file.synced[at]]
                    torn_at = changed[self._choose(f"{name}/torn-at", len(changed))]
                    return current[:torn_at] + file.synced[torn_at:]
        if not current.startswith(file.synced):
            # It was truncated, and that was not synced: either state may be found.
            return (file.synced, current)[self._choose(f"{name}/truncated", 2)]
        pending = current[len(file.synced) :]
        match Survival(self._choose(f"{name}/survival", len(Survival))):
            case Survival.NOTHING:
                return file.synced
            case Survival.EVERYTHING:
                return current
            case Survival.TORN:
                return file.synced + pending[: self._choose(f"{name}/torn-at", len(pending))]
            case Survival.TORN_THEN_UNFILLED:
                kept = self._choose(f"{name}/torn-at", len(pending)) // BLOCK_BYTES * BLOCK_BYTES
                return file.synced + pending[:kept] + bytes(len(pending) - kept)

    def names(self) -> list[str]:
        self._operate()
        return sorted(self._files)

    def read(self, name: str) -> bytes:
        self._operate()
        return bytes(self._existing(name).current)

    def append(self, name: str, data: bytes) -> None:
        self._operate()
        file = self._files.setdefault(name, _File())
        if self._fails("append"):
            file.current += data[: self._choose(f"{name}/written-before-error", len(data) + 1)]
            raise OSError(errno.EIO, f"input/output error on the disk of {self._label}")
        room = len(data) if self.capacity_bytes is None else max(self.capacity_bytes - self.used_bytes, 0)
        file.current += data[:room]
        if room < len(data):
            raise DiskFull(f"no room left on the disk of {self._label}")

    def truncate(self, name: str, size: int) -> None:
        self._operate()
        del self._existing(name).current[size:]

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        self._operate()
        file = self._existing(name)
        if self._fails("overwrite"):
            data = data[: self._choose(f"{name}/written-before-error", len(data) + 1)]
            file.current[offset : offset + len(data)] = data
            raise OSError(errno.EIO, f"input/output error on the disk of {self._label}")
        file.current[offset : offset + len(data)] = data

    def sync(self, name: str) -> None:
        self._operate()
        if self._fails("sync"):
            raise OSError(errno.EIO, f"input/output error on the disk of {self._label}")
        lost = self.lost_sync_probability
        if not lost or not self._choices.occurs(f"disk/{self._label}/lost-sync", lost):
            file = self._existing(name)
            file.synced = bytes(file.current)

    def rename(self, old: str, new: str) -> None:
        self._operate()
        self._files[new] = self._existing(old)
        del self._files[old]

    def remove(self, name: str) -> None:
        self._operate()
        self._existing(name)
        del self._files[name]

    def release(self, name: str) -> None:
        pass

    def is_in_place(self, name: str) -> bool:
        return name in self._files

    def lock(self, name: str, holder: str) -> None:
        self._operate()
        if name in self._locks:
            raise Locked(self._locks[name])
        self._locks[name] = holder

    def close(self) -> None:
        self._locks.clear()

    def _operate(self) -> None:
        if self._operations_left is not None:
            self._operations_left -= 1
            if self._operations_left == 0:
                self._has_power = False
        if not self._has_power:
            raise PowerLost(f"the machine of disk {self._label} has no power")

    def _fails(self, what: str) -> bool:
        if self.error_probability == 0:
            return False
        return self._choices.occurs(f"disk/{self._label}/{what}-error", self.error_probability)

    def _existing(self, name: str) -> _File:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def _choose(self, what: str, options: int) -> int:
        return self._choices.choose(f"disk/{self._label}/{what}", options)
