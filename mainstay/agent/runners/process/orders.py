"""What the agent tells a shim, or the helper of a session beside a container.

Orders come through a memory file, as `marshal` writes it: sender and receiver are the same interpreter, a moment apart.
They contain secrets, so they are neither arguments nor a file with a name.
"""

import marshal
import os
from typing import TypedDict, cast


class Orders(TypedDict):
    """Everything a shim has to know. Paths are absolute."""

    argv: list[str]
    env: list[tuple[str, str]]
    cwd: str
    """Empty: its own directory."""
    root: str
    """Its own directory, with the links to its mounts."""
    user: int | None
    group: int | None
    groups: list[int]
    mounts: list[tuple[str, str, bool]]
    """Source, path, is it read only."""
    is_mounting: bool
    """Whether we may have mounts of our own."""
    cgroups: list[tuple[str, list[tuple[str, str]]]]
    """Directories, and what to write into which of their files."""
    has_stdin: bool
    has_terminal: bool
    attempt: str
    """The directory of the attempt."""
    log: str
    lease: str
    """The file, if it ends with the lease; else empty."""
    boot: str
    message_path: str
    is_message_from_log: bool
    lock: int
    """Descriptors that are inherited."""
    control: int
    report: int
    pid: int
    """Of the container's first process: for a session beside it."""


def send(orders: Orders) -> int:
    """A descriptor to be inherited, from which they can be read."""
    descriptor = os.memfd_create("orders")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(marshal.dumps(cast(dict[str, object], orders)))
    return descriptor
