"""The exit codes of all commands. Scripts rely on them: only add.

`mainstay diff` has those of `diff` and `kubectl diff` instead, where 1 is a difference (diff.py).
"""

from enum import IntEnum


class Exit(IntEnum):
    SATISFIED = 0
    ERROR = 1
    BLOCKED = 2
    """Until a user acts: the cluster cannot resolve it."""
    WAITING = 3
    """For something that may happen by itself."""
    INCOMPLETE = 4
    """The answer is incomplete."""
    VIOLATED = 10
    """A simulated run broke a promise."""
    STUCK = 11
    """A simulated run cannot end."""
    FAILED = 12
    """A simulated run raised an exception that no program handles."""
    DIFFERENT = 13
    """A simulated run differs from one that it should equal."""
    USAGE = 64
    TIMEOUT = 124
    PIPE_CLOSED = 141
    """The reader of standard output has gone: as of a program that SIGPIPE ends."""
