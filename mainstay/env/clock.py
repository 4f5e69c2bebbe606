"""What time it is.

Two clocks, for two purposes. Wall time is for people and for what is written down; it can jump. Monotonic time is for
measuring and waiting; it has no date. Nothing may compare one with the other.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def wall(self) -> datetime:
        """The date and time, in UTC. May jump either way between two calls."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some fixed moment. Never goes back, and goes on while the machine sleeps."""


class SystemClock:
    """The machine's own clocks."""

    def wall(self) -> datetime:
        return datetime.now(UTC)

    if hasattr(time, "CLOCK_BOOTTIME"):

        def monotonic_ns(self) -> int:
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    else:  # Not Linux: there is only the one that may stand still meanwhile.

        def monotonic_ns(self) -> int:
            return time.monotonic_ns()
