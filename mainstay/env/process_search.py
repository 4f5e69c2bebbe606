"""Search for processes that were not recorded, by a mark in the environment they were started with.

A process that is killed before it has recorded which child it started finds the child again this way. The environment
is the one from the start; children of such a process have the mark too, unless they were given another environment, so
look at what they run as well. Processes of other users cannot be seen, except by root.
"""

import os
from dataclasses import dataclass

from mainstay.env.commands import Identity, find_identity


@dataclass(frozen=True, slots=True)
class Marked:
    identity: Identity
    argv: tuple[str, ...]
    value: str
    """Of the mark."""


def marked(variable: str) -> list[Marked]:
    """All processes that were started with this variable, by number. Blocks for some milliseconds."""
    found = []
    prefix = os.fsencode(variable) + b"="
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        identity = find_identity(pid)
        value = _value(pid, prefix)
        if identity is None or value is None:
            continue
        argv = tuple(os.fsdecode(part) for part in _parts(pid, "cmdline"))
        if find_identity(pid) == identity:  # So all of it was about one and the same process.
            found.append(Marked(identity, argv, value))
    return found


def _value(pid: int, prefix: bytes) -> str | None:
    for part in _parts(pid, "environ"):
        if part.startswith(prefix):
            return os.fsdecode(part[len(prefix) :])
    return None


def _parts(pid: int, name: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            text = file.read()
    except OSError:  # It has ended, or is none of ours.
        return []
    return text.removesuffix(b"\0").split(b"\0")
