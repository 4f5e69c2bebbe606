"""Notices callbacks that keep the event loop busy for too long, and says which they were.

While a callback runs, nothing else does: no request is answered, no lease is renewed. A thread looks at what the loop's
thread is doing, 50 times a second, which costs the loop next to nothing. Two looks that find it in the same
callback tell how much CPU time that has taken in between. CPU time, because on a busy machine wall time says nothing.

So what is found is a lower bound: a callback of 20 ms is noticed now and then, one of 60 ms always. To measure each
callback there is bench/callbacks.py.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from datetime import timedelta
from types import FrameType
from typing import Final

SLOW: Final = timedelta(milliseconds=20)
LOOK_EVERY: Final = timedelta(milliseconds=20)
LOG_EVERY: Final = timedelta(seconds=10)
_STACK_MAX: Final = 12

_logger = logging.getLogger(__name__)


class LoopWatch:
    """Watches the loop that it is made on, from `start` to `stop`."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        """CPU time of the longest callback that was noticed."""
        self.slow = 0
        """How many took longer than `SLOW`."""
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        self._base = _caller_of_loop(sys._getframe())
        self._cpu_clock = time.pthread_getcpuclockid(self._ident)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop watch", daemon=True)
        self._turns = 0
        """How often the loop has come round to us. Written by the loop, read by the thread."""
        self._is_asked = False
        self._logged_s = float("-inf")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait."""
        self._stopped.set()

    def _turn(self) -> None:
        self._turns += 1
        self._is_asked = False

    def _watch(self) -> None:
        seen, began_s, is_slow, took_s = (0, 0), 0.0, False, 0.0
        stack = ""
        while not self._stopped.wait(LOOK_EVERY.total_seconds()):
            cpu_s = time.clock_gettime(self._cpu_clock)
            entry = self._find_callback()
            running = (self._turns, entry)
            if entry and running == seen:
                took_s = cpu_s - began_s
                self.longest_s = max(self.longest_s, took_s)
                if took_s > SLOW.total_seconds() and not is_slow:
                    is_slow, stack = True, self._describe()
                continue
            if is_slow:
                self._log(took_s, stack)
                self.slow += 1  # Last: who sees the number finds the rest.
            seen, began_s, is_slow, took_s = running, cpu_s, False, 0.0
            if entry and not self._is_asked:
                # A task may be found at work twice because it came twice: then the loop has come round to this, too.
                self._is_asked = True
                try:
                    self._loop.call_soon_threadsafe(self._turn)
                except RuntimeError:
                    return  # The loop is closed.

    def _find_callback(self) -> int:
        """The callback that the loop is in: what it called. 0: none."""
        frame = sys._current_frames().get(self._ident)
        while frame is not None and frame.f_back is not None:
            if frame.f_back.f_code is self._base:
                return id(frame)
            frame = frame.f_back
        return 0

    def _describe(self) -> str:
        frame = sys._current_frames().get(self._ident)
        return "" if frame is None else "".join(traceback.format_stack(frame, _STACK_MAX))

    def _log(self, took_s: float, stack: str) -> None:
        now_s = time.monotonic()
        if now_s - self._logged_s >= LOG_EVERY.total_seconds():
            self._logged_s = now_s
            _logger.warning("a callback kept the event loop busy for at least %.0f ms of CPU:\n%s", took_s * 1e3, stack)


def _caller_of_loop(frame: FrameType) -> object:
    """The code that called the loop: below it is the callback that runs."""
    outer: FrameType | None = frame
    while outer is not None:
        if outer.f_code.co_filename.endswith(("asyncio/runners.py", "asyncio/base_events.py")):
            return outer.f_code
        outer = outer.f_back
    return frame.f_code
