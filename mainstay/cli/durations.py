"""A duration as an option: `40s`, `1m30s`, `250ms`, `7d`."""

from datetime import timedelta
from typing import Final

import click

from mainstay.api.times import parse_duration

_DAYS_DIGITS_MAX: Final = 5


class Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            length = _parse(value)
        except ValueError:
            self.fail(f"{value!r} is not a duration (for example 40s, 1m30s, 250ms or 7d)", param, ctx)
        if length < timedelta(0):
            self.fail(f"{value!r} is negative", param, ctx)
        return length


def _parse(text: str) -> timedelta:
    """Parse a Go duration, with days in front, which Go does not have: `7d`, `1d12h`. Raises `ValueError`."""
    days, found, rest = text.partition("d")
    if not found or not days.isascii() or not days.isdigit() or len(days) > _DAYS_DIGITS_MAX:
        return parse_duration(text)
    return timedelta(days=int(days)) + (parse_duration(rest) if rest else timedelta(0))
