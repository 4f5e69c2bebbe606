"""What the exit codes of all commands mean. Scripts rely on them: only add.

`mainstay diff` has those of diff and of `kubectl diff` instead, for which 1 is a difference (diff.py).
"""

from enum import IntEnum


class Exit(IntEnum):
    SATISFIED = 0
    ERROR = 1
    BLOCKED = 2
    """For good: nothing the cluster itself can do cures it."""
    WAITING = 3
    INCOMPLETE = 4
    """The answer is."""
    USAGE = 64
    TIMEOUT = 124
