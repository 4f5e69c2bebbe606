"""What a shim would be allowed to do on this machine: `shim.py check - -`, run once by each agent when it starts.

Tries it for real, in processes that end at once, and prints a line for each: `namespaces yes`, or the kernel's reason.
"""

from __future__ import annotations

import os

from mainstay.agent.runners.process import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_IDS = 131_072  # As many as a pod has: identities.py.
_ALLOW_ALL = b"\x06\x00\x00\x00\x00\x00\xff\x7f"


def run(first: int) -> int:
    """Whether `first`, and the ids after it, can be given to pods, is one of the questions."""

    def _have_ids() -> None:
        # Root of a container may have only some.
        for inside in (first, first + _IDS - 1):
            os.setgroups([inside])
            os.setresgid(inside, inside, 0)
            os.setresuid(inside, inside, 0)
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)

    for name, do in (
        ("namespaces", _have_namespaces),
        ("users", _have_users),
        ("ids", _have_ids),
        ("filter", _have_filter),
    ):
        os.write(1, f"{name} {_try(do)}\n".encode())
    return 0


def _try(do: Callable[[], None]) -> str:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            do()
            said = "yes"
        except OSError as error:
            said = error.strerror or str(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 4096).decode() or "it was killed"
    os.close(reading)
    os.waitpid(pid, 0)
    return said


def _have_namespaces() -> None:
    if os.geteuid() != 0:
        _have_users()
    kernel.unshare(kernel.NEW_PIDS)
    said = _try(_have_mounts)  # A child is the first in the new namespace of process ids.
    if said != "yes":
        raise OSError(0, said)


def _have_mounts() -> None:
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_IPC)
    kernel.keep_mounts_to_oneself()
    kernel.mount_memory("/tmp", "mode=755,size=64k")
    for name in ("proc", "usr"):
        os.mkdir(f"/tmp/{name}")
    kernel.mount_processes("/tmp/proc")
    kernel.bind("/usr", "/tmp/usr")
    kernel.restrict("/tmp/usr", kernel.READ_ONLY | kernel.NO_SETUID, is_recursive=True)
    kernel.pivot("/tmp")
    kernel.forget_old_root()


def _have_users() -> None:
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEW_USERS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _have_filter() -> None:
    kernel.gain_nothing()
    kernel.filter_calls(_ALLOW_ALL)
