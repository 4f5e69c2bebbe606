"""Which rows changed, in order, so that what was computed from them can catch up.

A reader keeps a position. The log is bounded: a reader that is too far behind has to compute everything again.
"""

from typing import Final

from mainstay.env.invariants import broken

_KEPT_LEAST: Final = 4096


class ChangeLog:
    __slots__ = ("_rows", "_start")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The position at which nothing is unread."""
        return self._start + len(self._rows)

    def add(self, row: int, rows_known: int) -> None:
        """A row changed. Kept are a few changes for each row known; reading more costs as much as starting over."""
        self._rows.append(row)
        if len(self._rows) > 2 * max(_KEPT_LEAST, rows_known):
            half = len(self._rows) // 2
            del self._rows[:half]
            self._start += half

    def since(self, position: int) -> list[int] | None:
        """The rows that changed since then, some of them perhaps several times. None: too long ago to say."""
        if position < self._start:
            return None
        if position > self._start + len(self._rows):
            raise broken("positions in a change log only grow", "a change log", position=position, end=self.end)
        return self._rows[position - self._start :]
