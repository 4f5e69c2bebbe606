"""A health check of the wall clock."""

import logging
from datetime import timedelta
from typing import Final

from mainstay.env.clock import Clock

JUMP_MIN: Final = timedelta(seconds=2)  # Less is how clocks are corrected all the time.
JUMP_SHOWN_FOR: Final = timedelta(minutes=1)

_logger = logging.getLogger(__name__)


class ClockCheck:
    """Compares the wall clock with the monotonic one: it reports a jump of the former for a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._read_offset()
        self._jump = timedelta(0)
        self._jumped_ns: int | None = None

    def find_problem(self) -> str:
        offset, now_ns = self._read_offset(), self._clock.monotonic_ns()
        jump = timedelta(microseconds=(offset - self._offset) // 1000)
        if abs(jump) >= JUMP_MIN:
            self._offset, self._jump, self._jumped_ns = offset, jump, now_ns
            _logger.warning("the wall clock jumped by %s", _signed(jump))
        if self._jumped_ns is None:
            return ""
        ago = timedelta(microseconds=(now_ns - self._jumped_ns) // 1000)
        return f"the wall clock jumped by {_signed(self._jump)}" if ago < JUMP_SHOWN_FOR else ""

    def _read_offset(self) -> int:
        wall_ns = int(self._clock.wall().timestamp() * 1_000_000) * 1000
        return wall_ns - self._clock.monotonic_ns()


def _signed(duration: timedelta) -> str:
    return f"{duration.total_seconds():+.1f}s"
