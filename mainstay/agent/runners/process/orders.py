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
    is_isolated: bool
    """Whether it has a file system and processes of its own; if not, the rest up to `user` does not count."""
    has_own_pids: bool
    has_own_ipc: bool
    network: str
    """The file of its network namespace. Empty: it is in that of the machine."""
    is_privileged: bool
    is_read_only: bool
    hidden: list[str]
    """Directories of the machine that it does not see, and those that it sees all the same."""
    shown: list[str]
    owner: tuple[int, int]
    """User and group on the machine, to whom its own directory belongs. -1: to us."""
    user_map: list[tuple[int, int, int]]
    """Its user namespace: inside, on the machine, how many. Empty: it has none."""
    group_map: list[tuple[int, int, int]]
    is_own_user: bool
    """Whether we are no root: the user namespace is the shim's, too."""
    user: int | None
    """Inside its user namespace, if it has one. None: ours."""
    group: int | None
    groups: list[int]
    capabilities: list[int] | None
    """Those it may have at most. None: all of ours."""
    ambient: list[int]
    """Those it has, although it is not root."""
    gains_nothing: bool
    filter: bytes
    """Empty: system calls are not filtered."""
    mounts: list[tuple[str, str, str, bool]]
    """The volume, the part of it (empty: all), the path, is it read only."""
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
    message: str
    """The file of ours that the container's last message is in, and where the container finds it."""
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
