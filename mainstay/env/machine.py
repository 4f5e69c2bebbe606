"""This machine, and this process on it."""

import contextlib
import ctypes
import gc
import os
import platform
import pwd
import resource
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

FILES_MAX: Final = 1 << 20
"""More files than that are of no use to a process, whatever the system allows."""
_ANY_OTHER: Final = ("192.0.2.1", 9)  # Reserved for documentation: no machine has it.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def hostname() -> str:
    """The machine's own name."""
    return socket.gethostname()


def outward_address(host: str = _ANY_OTHER[0]) -> str:
    """The address with which this machine would speak to others, or to this one; that of the loopback if it has no
    network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((host, _ANY_OTHER[1]))  # Sends nothing: it only chooses a route.
        except OSError:
            return "127.0.0.1"
        return str(asking.getsockname()[0])


def user_id() -> int:
    """Who this process is to the system."""
    return os.getuid()


def user_name() -> str:
    """What the system calls who this process is; empty if it has no name for them."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def keep_files_private() -> None:
    """Let what this process makes from now on be read by its owner alone, also by libraries that do not ask."""
    os.umask(0o077)


def raise_file_limit() -> int:
    """Let this process open as many files as the system allows it, and return how many: a connection is a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS has a limit of its own below an infinite one.
        return soft
    return wanted


def state_dir(environ: Mapping[str, str]) -> Path:
    """Where programs of Mainstay keep what they are not told another place for."""
    given = environ.get("XDG_STATE_HOME")
    return Path(given) / "mainstay" if given else Path(environ.get("HOME", ".")) / ".local" / "state" / "mainstay"


def disk_free_bytes(directory: Path) -> int:
    """The room that an ordinary user has left on the disk of this directory. Raises `OSError`."""
    return shutil.disk_usage(directory).free


def release_memory() -> None:
    """Give back to the system what was freed. The C library keeps it otherwise, for as long as the process lives."""
    with contextlib.suppress(OSError, AttributeError):  # Not the GNU one.
        ctypes.CDLL(None).malloc_trim(0)


def settle() -> None:
    """For a process that goes on for long, once all is in place: look after memory less often, and share it sooner."""
    # A worker that holds the interpreter, such as the store's, otherwise keeps it from the loop for 5 ms.
    sys.setswitchinterval(0.0005)
    # Kinds, modules and what was loaded are there for good: the collector need not go through them again and again.
    # What requests leave behind is almost never a cycle, so it may also look less often; the default, at every 700
    # objects, is several times per request.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What a machine is and has. 0 or empty where unknown."""

    cpus: int
    memory_bytes: int
    memory_free_bytes: int
    """What is available without taking it from other processes."""
    disk_bytes: int
    disk_free_bytes: int
    processes_max: int = 0
    processes: int = 0
    machine_id: str = ""
    boot_id: str = ""
    kernel: str = ""
    system: str = "linux"
    system_image: str = ""
    """Which distribution it is."""
    architecture: str = "amd64"


class Machine(Protocol):
    def facts(self) -> MachineFacts:
        """As of now. Quick, though it may read a few small files."""


class SystemMachine:
    """The machine that this process runs on. Its disk is the one that has `directory`."""

    def __init__(self, directory: str = "/") -> None:
        self._directory = directory

    def facts(self) -> MachineFacts:
        memory = _memory()
        try:
            disk = shutil.disk_usage(self._directory)
            disk_bytes, disk_free_bytes = disk.total, disk.free
        except OSError:  # The directory is not there yet.
            disk_bytes = disk_free_bytes = 0
        machine = platform.machine()
        return MachineFacts(
            cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            memory_bytes=memory.get("MemTotal", 0),
            memory_free_bytes=memory.get("MemAvailable", 0),
            disk_bytes=disk_bytes,
            disk_free_bytes=disk_free_bytes,
            processes_max=_number("/proc/sys/kernel/pid_max"),
            processes=_processes(),
            machine_id=_text("/etc/machine-id"),
            boot_id=_text("/proc/sys/kernel/random/boot_id"),
            kernel=platform.release(),
            system=platform.system().lower(),
            system_image=_system_image(),
            architecture=_ARCHITECTURES.get(machine, machine),
        )


def _memory() -> dict[str, int]:
    """In bytes, by name."""
    found: dict[str, int] = {}
    for line in _text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * 1024
    return found


def _processes() -> int:
    """How many threads there are on the machine: that is what the limit counts."""
    parts = _text("/proc/loadavg").split()
    _, _, total = parts[3].partition("/") if len(parts) > 3 else ("", "", "")
    return int(total) if total.isdigit() else 0


def _system_image() -> str:
    for line in _text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.removeprefix("PRETTY_NAME=").strip('"')
    return platform.system()


def _number(path: str) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
