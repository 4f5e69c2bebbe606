"""The clock of a simulated machine."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)  # What a clock without skew shows when a run begins.
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NS: Final = int((EPOCH - _UNIX_EPOCH).total_seconds()) * 1_000_000_000


class SimClock:
    """Virtual time. Implements `Clock` (env/clock.py)."""

    def __init__(self, loop: "SimLoop", skew: timedelta = timedelta()) -> None:
        self.skew = skew
        """How far the wall clock is ahead of the true time. May be changed at any time."""
        self._loop = loop

    def wall(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.monotonic_ns() // 1000) + self.skew

    def wall_ns(self) -> int:
        """The wall clock as nanoseconds since 1970."""
        return _EPOCH_NS + self.monotonic_ns() + self.skew // timedelta(microseconds=1) * 1000

    def monotonic_ns(self) -> int:
        # Inside a blocking call time has gone on by as much as the call has slept.
        return self._loop.time_ns() + (self._loop.executors.slept_ns or 0)

    def jump(self, distance: timedelta) -> None:
        """Set the wall clock forward, or back. Monotonic time is not affected."""
        self.skew += distance
