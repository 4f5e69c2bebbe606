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
    VIOLATED = 10
    """Of simulated runs: a promise was broken."""
    STUCK = 11
    """Of simulated runs: one cannot come to its end."""
    FAILED = 12
    """Of simulated runs: something raised what nobody handled."""
    DIFFERENT = 13
    """Of simulated runs: one that should be equal to another is not."""
    USAGE = 64
    TIMEOUT = 124
