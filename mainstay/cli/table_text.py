"""A table as `kubectl get` prints one: headers in capitals, three spaces between columns.

On a terminal, headers are bold and states are coloured: green for healthy, yellow for in progress, red for failed.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import click

_GAP: Final = 3
_WIDTH_MIN: Final = 6
_LINE_END: Final = re.compile(r"[\f\n\r]")
_STATES: Final = ("STATUS", "PHASE", "STATE", "READY")
_WELL: Final = frozenset({"Running", "Ready", "Active", "Bound", "Succeeded", "Completed", "Complete", "True"})
_UNDER_WAY: Final = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating", "Unknown"})
_WRONG: Final = re.compile(r"Err|BackOff|Failed|Failure|Evicted|NotReady|Killed|OutOf|Lost|Required|False")


class TableText:
    """Lines of one table. Columns may become wider with later rows, never narrower."""

    def __init__(self, titles: Sequence[str], *, is_coloured: bool) -> None:
        self._titles = [title.upper() for title in titles]
        self._widths = [0] * len(titles)
        self._is_coloured = is_coloured

    def lines(self, rows: Sequence[Sequence[Any]], *, with_titles: bool) -> list[str]:
        shown = [[_cell(each) for each in row] for row in rows]
        counted = [self._titles, *shown] if with_titles else shown
        for row in counted:
            for place, cell in enumerate(row):
                self._widths[place] = max(self._widths[place], len(cell) + _GAP, _WIDTH_MIN)
        found = [self._line(row) for row in shown]
        return [self._title_line(), *found] if with_titles else found

    def _title_line(self) -> str:
        line = self._padded(self._titles)
        return click.style(line, bold=True) if self._is_coloured else line

    def _line(self, row: Sequence[str]) -> str:
        if not self._is_coloured:
            return self._padded(row)
        cells = [
            (_in_colour(cell) if title in _STATES else cell) + " " * (width - len(cell))
            for title, cell, width in zip(self._titles, row, self._widths, strict=True)
        ]
        return "".join(cells).rstrip()

    def _padded(self, row: Sequence[str]) -> str:
        return "".join(cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    # Users who may write objects must not control the terminals of users who read them.
    text = str(value).replace("\x1b", "^[")
    end = _LINE_END.search(text)
    return text if end is None else f"{text[: end.start()]}..."


def _in_colour(text: str) -> str:
    if _WRONG.search(text):
        return click.style(text, fg="red")
    if text in _UNDER_WAY or text.startswith("Init:"):
        return click.style(text, fg="yellow")
    if text in _WELL or text.split(",")[0] == "Ready":
        return click.style(text, fg="green")
    ready, slash, wanted = text.partition("/")
    if slash and ready.isdigit() and wanted.isdigit():
        return click.style(text, fg="green" if ready == wanted else "yellow")
    return text
