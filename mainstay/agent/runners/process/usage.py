"""How much CPU and memory containers use, and the machine.

CPU time only grows, so what is *used* is the difference of two readings over the time between them. A few readings are
kept for that. A container that an earlier reading does not know has used all its CPU time since it was started.

Counted by control groups where there are some (cgroups.py), otherwise as the sum over the processes that descend from
the container's shim. Of those that a process has reaped, the time is counted with it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from mainstay.agent.runner import ContainerId, ContainerUsage, Usage
from mainstay.agent.runners.process import cgroups, records

_WINDOW_NS_MIN: Final = 5_000_000_000  # What is shorter than this mostly shows chance.
_READINGS_KEPT: Final = 4
_SECOND_NS: Final = 1_000_000_000
_TICK_NS: Final = _SECOND_NS // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Counted:
    """A container that runs, and how to count it."""

    groups: tuple[cgroups.Settings, ...]
    shim: int


@dataclass(frozen=True, slots=True)
class Reading:
    at: datetime
    at_ns: int
    node_cpu_ns: int
    node_memory_bytes: int
    containers: Mapping[ContainerId, tuple[int, int]]
    """Nanoseconds of CPU time so far, bytes of memory."""


class Meter:
    """Readings, and what can be said from them."""

    def __init__(self) -> None:
        self._readings: list[Reading] = []

    def add(self, reading: Reading) -> None:
        """Remember a reading, if it is not too close to the last."""
        if not self._readings or reading.at_ns - self._readings[-1].at_ns >= _WINDOW_NS_MIN:
            self._readings = [*self._readings, reading][-_READINGS_KEPT:]

    def usage(self, now: Reading, started: Mapping[ContainerId, datetime]) -> Usage:
        """What was used between the latest reading that is old enough and this one."""
        old_enough = [r for r in self._readings if now.at_ns - r.at_ns >= _WINDOW_NS_MIN]
        before = old_enough[-1] if old_enough else self._readings[0] if self._readings else now
        window_ns = max(1, now.at_ns - before.at_ns)
        containers = {}
        for container, (cpu_ns, memory) in sorted(now.containers.items()):
            if container in before.containers:
                cpu = _rate(cpu_ns - before.containers[container][0], window_ns)
            else:
                cpu = _rate(cpu_ns, (now.at - started[container]) // timedelta(microseconds=1) * 1000)
            containers[container] = ContainerUsage(cpu, memory)
        node = ContainerUsage(_rate(now.node_cpu_ns - before.node_cpu_ns, window_ns), now.node_memory_bytes)
        return Usage(now.at, timedelta(microseconds=window_ns // 1000), node, containers)


def _rate(cpu_ns: int, window_ns: int) -> int:
    return max(0, cpu_ns) * _SECOND_NS // max(1, window_ns)


def read_usage(at: datetime, containers: Mapping[ContainerId, Counted]) -> Reading:
    """Count now. Blocks."""
    found: dict[ContainerId, tuple[int, int]] = {}
    uncounted = []
    for container, counted in containers.items():
        used = cgroups.used(counted.groups)
        if used is None:
            uncounted.append((container, counted.shim))
        else:
            found[container] = used
    if uncounted:
        tree = _Processes()
        found.update({container: tree.below(shim) for container, shim in uncounted})
    return Reading(at, records.boot_ns(), _node_cpu_ns(), _node_memory_bytes(), found)


class _Processes:
    """All processes of the machine, at one moment."""

    def __init__(self) -> None:
        self._children: dict[int, list[tuple[int, int, int]]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and (stat := records.process_stat(name)) is not None:
                self._children.setdefault(stat[1], []).append((int(name), stat[4] * _TICK_NS, stat[6] * _PAGE_BYTES))

    def below(self, pid: int) -> tuple[int, int]:
        """CPU time and memory of all that descend from it."""
        cpu_ns, memory, left = 0, 0, [pid]
        while left:
            for child, child_cpu_ns, child_memory in self._children.get(left.pop(), ()):
                cpu_ns += child_cpu_ns
                memory += child_memory
                left.append(child)
        return cpu_ns, memory


def _node_cpu_ns() -> int:
    with open("/proc/stat", "rb") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = fields
    return (user + nice + system + interrupts + soft_interrupts + stolen) * _TICK_NS


def _node_memory_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    kibibytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return (kibibytes["MemTotal"] - kibibytes["MemAvailable"]) * 1024
