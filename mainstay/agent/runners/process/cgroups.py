"""Limits and usage of containers, by the kernel's control groups: both versions, and mixtures of them.

Each container has a group of its own below `mainstay/RUNNER/`, in every hierarchy that is of use:

- version 2, if it has the controllers: `cpu.max`, `cpu.weight`, `memory.max`, `pids.max`;
- version 1: one hierarchy for each of cpu, cpuacct, memory and pids, below the group that the agent itself is in;
- version 2 beside version 1: without controllers, but all that is in a group can be killed with one write.

Whether we may is found out once, by trying. If not, containers run without limits, and `note` says why in a sentence.
Groups are made, and removed, by shims; an agent removes what a killed shim has left (trees.py).
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.agent.runner import ContainerSpec

_PERIOD_US: Final = 100_000
_QUOTA_US_MIN: Final = 1_000
_SHARES_MIN: Final = 2
_PROCESSES_MAX: Final = 4096  # With threads: so that no container takes all that the machine has.
_CONTROLLERS: Final = ("cpu", "cpuacct", "memory", "pids")
_NANOSECONDS_OF_MICROSECOND: Final = 1_000


@dataclass(frozen=True, slots=True)
class Settings:
    """A group, and what is to be written into its files."""

    directory: str
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where groups can be made, if anywhere. If limits cannot be enforced, `note` says why."""

    modern: str = ""
    """The directory for our groups in version 2; empty if that does not exist."""
    has_modern_controllers: bool = False
    old: tuple[tuple[str, str], ...] = ()
    """For each controller of version 1: the directory for our groups."""
    note: str = ""

    def settings(self, spec: ContainerSpec) -> tuple[Settings, ...]:
        """The groups of a container, with its limits."""
        name = f"{spec.id.pod_uid}_{spec.id.name}_{spec.id.attempt}"
        found = []
        if self.modern:
            found.append(Settings(f"{self.modern}/{name}", modern_values(spec) if self.has_modern_controllers else ()))
        for controller, directory in self.old:
            found.append(Settings(f"{directory}/{name}", old_values(spec, controller)))
        return tuple(found)

    def prepare(self) -> None:
        """Make what all groups are below. Again each time: it is removed when nothing is in it."""
        if self.modern:
            top = Path(self.modern).parent
            for directory in (top, Path(self.modern)):
                if self.has_modern_controllers:
                    (directory.parent / "cgroup.subtree_control").write_text("+cpu +memory +pids")
                directory.mkdir(exist_ok=True)
            if self.has_modern_controllers:
                (Path(self.modern) / "cgroup.subtree_control").write_text("+cpu +memory +pids")
        for _, path in self.old:
            Path(path).mkdir(parents=True, exist_ok=True)

    def clean(self) -> None:
        """Remove what `prepare` has made, where nothing is in it."""
        for directory in (self.modern, *(path for _, path in self.old)):
            if directory:
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
                    os.rmdir(Path(directory).parent)


def modern_values(spec: ContainerSpec) -> tuple[tuple[str, str], ...]:
    """As the kubelet writes them."""
    values = [("pids.max", str(_PROCESSES_MAX))]
    if spec.cpu_millis_wanted:
        shares = _shares(spec.cpu_millis_wanted)
        values.append(("cpu.weight", str(1 + (shares - 2) * 9999 // 262142)))
    if spec.cpu_millis_max is not None:
        values.append(("cpu.max", f"{_quota_us(spec.cpu_millis_max)} {_PERIOD_US}"))
    if spec.memory_bytes_max is not None:
        values.append(("memory.max", str(spec.memory_bytes_max)))
        values.append(("memory.swap.max", "0"))
        values.append(("memory.oom.group", "1"))
    return tuple(values)


def old_values(spec: ContainerSpec, controller: str) -> tuple[tuple[str, str], ...]:
    values = []
    if controller == "cpu":
        if spec.cpu_millis_wanted:
            values.append(("cpu.shares", str(_shares(spec.cpu_millis_wanted))))
        if spec.cpu_millis_max is not None:
            values.append(("cpu.cfs_period_us", str(_PERIOD_US)))
            values.append(("cpu.cfs_quota_us", str(_quota_us(spec.cpu_millis_max))))
    elif controller == "memory" and spec.memory_bytes_max is not None:
        values.append(("memory.limit_in_bytes", str(spec.memory_bytes_max)))
        values.append(("memory.memsw.limit_in_bytes", str(spec.memory_bytes_max)))
    elif controller == "pids":
        values.append(("pids.max", str(_PROCESSES_MAX)))
    return tuple(values)


def _shares(millis: int) -> int:
    return min(max(_SHARES_MIN, millis * 1024 // 1000), 262_144)


def _quota_us(millis: int) -> int:
    return max(_QUOTA_US_MIN, millis * _PERIOD_US // 1000)


def find(directory: Path) -> Cgroups:
    """What this machine lets us do, for the runner that has this directory."""
    if os.geteuid() != 0:
        return Cgroups(note="limits are not enforced: the agent does not run as root")
    mine = f"mainstay/{hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:12]}"
    modern, has_controllers, old = "", False, []
    for kind, root, controllers in _hierarchies():
        if kind == "cgroup2":
            available = (root / "cgroup.controllers").read_text().split()
            modern, has_controllers = str(root / mine), {"cpu", "memory", "pids"} <= set(available)
        else:
            old += [(controller, str(root / mine)) for controller in controllers if controller in _CONTROLLERS]
    if not has_controllers and not {"cpu", "memory"} <= {controller for controller, _ in old}:
        return Cgroups(note="limits are not enforced: this machine has no control groups for CPU and memory")
    # Controllers that are mounted together are one hierarchy: the first of them makes the group.
    unique = {path: controller for controller, path in reversed(old)}
    joined = {path: [controller for controller, other in old if other == path] for path in unique}
    found = Cgroups(modern, has_controllers, tuple((_main(names), path) for path, names in sorted(joined.items())))
    if (refused := _try(found)) is None:
        return found
    # Without controllers groups are still good for finding and killing all that belongs to a container.
    found = Cgroups(modern, False, (), note=f"limits are not enforced: {refused}")
    return found if modern and _try(found) is None else Cgroups(note=found.note)


def _try(found: Cgroups) -> str | None:
    """Why it cannot be. None if it can."""
    try:
        found.prepare()
    except OSError as error:
        return f"{error.strerror} ({error.filename})" if error.filename else f"{error.strerror}"
    finally:
        found.clean()
    return None


def _main(controllers: list[str]) -> str:
    """Of controllers in one hierarchy, the one that has limits: no machine mounts cpu and memory together."""
    return min(controllers, key=("memory", "cpu", "cpuacct", "pids").index)


def _hierarchies() -> Iterator[tuple[str, Path, list[str]]]:
    """Kind, the directory to make groups in, and controllers, of all that are mounted and can be written."""
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own[names] = path
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split(" ")
        flags = options.split(",")
        if kind not in ("cgroup", "cgroup2") or "rw" not in flags:
            continue
        root = Path(where)
        controllers = [flag for flag in flags if flag in _CONTROLLERS]
        if kind == "cgroup":
            # Below our own group: a limit on the agent holds for its containers, too.
            names = next((n for n in own if controllers and set(controllers) <= set(n.split(","))), "")
            below = root / own.get(names, "/").lstrip("/")
            root = below if below.is_dir() else root
        # In version 2 that cannot be: a group that has processes cannot give controllers to others below.
        yield kind, root, controllers


def used(settings: tuple[Settings, ...]) -> tuple[int, int] | None:
    """Nanoseconds of CPU time and bytes of memory, page cache that could go left out. None if they are not counted."""
    cpu_ns, memory = None, None
    for directory in [Path(group.directory) for group in settings]:
        with contextlib.suppress(FileNotFoundError):
            if cpu_ns is None and (directory / "cpuacct.usage").exists():
                cpu_ns = int((directory / "cpuacct.usage").read_text())
            if cpu_ns is None and (directory / "cgroup.kill").exists():  # Of version 2.
                cpu_ns = _fields(directory / "cpu.stat")["usage_usec"] * _NANOSECONDS_OF_MICROSECOND
            if memory is None and (directory / "memory.usage_in_bytes").exists():
                inactive = _fields(directory / "memory.stat")["total_inactive_file"]
                memory = max(0, int((directory / "memory.usage_in_bytes").read_text()) - inactive)
            if memory is None and (directory / "memory.current").exists():
                inactive = _fields(directory / "memory.stat")["inactive_file"]
                memory = max(0, int((directory / "memory.current").read_text()) - inactive)
    return None if cpu_ns is None or memory is None else (cpu_ns, memory)


def _fields(path: Path) -> dict[str, int]:
    return {name: int(value) for name, _, value in (line.partition(" ") for line in path.read_text().splitlines())}
