"""The progress of long work, on standard error: a line that is rewritten on a terminal, some lines elsewhere."""

import sys
from datetime import timedelta
from typing import Final

import click

from mainstay.env import Clock

_TERMINAL_EVERY: Final = timedelta(milliseconds=200)
_ELSEWHERE_EVERY: Final = timedelta(seconds=10)


class ProgressLine:
    """Call `show` as often as you like, and `clear` before other output."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_terminal = sys.stderr.isatty()
        self._every_ns = (
            (_TERMINAL_EVERY if self._is_terminal else _ELSEWHERE_EVERY) // timedelta(microseconds=1) * 1000
        )
        self._began_ns = self._shown_ns = clock.monotonic_ns()
        self._width = 0

    @property
    def elapsed_s(self) -> float:
        return (self._clock.monotonic_ns() - self._began_ns) / 1e9

    def show(self, text: str) -> None:
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._shown_ns < self._every_ns:
            return
        self._shown_ns = now_ns
        if self._is_terminal:
            click.echo("\r" + text.ljust(self._width), nl=False, err=True)
            self._width = len(text)
        else:
            click.echo(text, err=True)

    def clear(self) -> None:
        if self._width:
            click.echo("\r" + " " * self._width + "\r", nl=False, err=True)
            self._width = 0
