"""A leader's term of office: what its writes carry, and how it knows that it is over.

The server refuses what a deposed leader writes under its term. That is the promise. What the leader itself knows is
less: `require` only keeps it from trying when its own clock says that the lease may have passed to another process.
"""

from datetime import timedelta

from mainstay.env import Clock


class Deposed(Exception):
    """The term is over. Stop acting as leader; another process may be one."""


class Term:
    """From the acquisition of a lease to its loss. Made by `Leader` (lease.py)."""

    def __init__(self, lease: str, revision: int, clock: Clock) -> None:
        self.text = f"{lease}={revision}"
        """For the header `Mainstay-Term`: the lease, and the revision at which it was acquired."""
        self.revision = revision
        self._clock = clock
        self._until_ns = 0
        self._is_over = False

    def until(self, time_ns: int) -> None:
        """The lease was renewed: it is held until its holder's own monotonic clock shows this."""
        self._until_ns = max(self._until_ns, time_ns)

    def lost(self) -> None:
        self._is_over = True

    @property
    def left(self) -> timedelta:
        """In whole microseconds: what is shorter cannot be waited for."""
        left_ns = 0 if self._is_over else max(0, self._until_ns - self._clock.monotonic_ns())
        return timedelta(microseconds=left_ns // 1000)

    @property
    def is_valid(self) -> bool:
        return self.left > timedelta(0)

    def require(self) -> None:
        """Raise `Deposed` unless this leader may still act, as far as it knows."""
        if not self.is_valid:
            raise Deposed(f"the term {self.text} is over")
