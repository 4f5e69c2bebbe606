"""Unhandled failures: collected, and raised by the run they happened in.

asyncio logs them and goes on. In a simulation that would hide exactly what it is there to find, so the loop stops
(loop.py) and the run raises `Unhandled` with the failure as its cause. A program that sets an exception handler of its
own is asked first, as in asyncio, and then answers for what it does with it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainstay.sim.errors import Unhandled

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

Report = dict[str, Any]  # What asyncio calls the context of a failure.
Handler = Callable[["SimLoop", Report], object]

_logger = logging.getLogger(__name__)


class Failures:
    def __init__(self, loop: "SimLoop") -> None:
        self.handler: Handler | None = None
        self.is_ending = False  # Everything that is left is being cancelled.
        self._loop = loop
        self._reports: list[Report] = []

    def report(self, report: Report) -> None:
        """Tell the program's own handler, or remember it and stop the loop."""
        if self.handler is None:
            self.remember(report)
            return
        try:
            self.handler(self._loop, report)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a failure like any other
            self.remember({"message": "Unhandled error in exception handler", "exception": error, "context": report})

    def remember(self, report: Report) -> None:
        if self.is_ending and isinstance(report.get("exception"), asyncio.CancelledError):
            # Some code has asked a task for its exception, which we have cancelled. Python 3.11 does so itself when the
            # handler of a stream server ends.
            return
        if self._loop.is_closed():
            # Found by the garbage collector when the run was over. There is none left to fail.
            _logger.error("after the end of the run: %s", _describe(report), exc_info=report.get("exception"))
            return
        self._reports.append(report)
        self._loop.stop_at_failure()

    def raise_first(self) -> None:
        """Raise what was remembered since the last call, if anything was. The first is the cause, others are notes."""
        if not self._reports:
            return
        (first, *others), self._reports = self._reports, []
        error = Unhandled(_describe(first))
        for other in others:
            error.add_note(f"after that: {_describe(other)}: {other.get('exception')!r}")
        raise error from first.get("exception")


def _describe(report: Report) -> str:
    message = str(report.get("message", "unhandled failure"))
    name = report["task"].get_name() if "task" in report else None
    return message if name is None or name in message else f"{message} ({name})"
