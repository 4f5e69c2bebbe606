"""A length of time as an option: `40s`, `1m30s`, `250ms`."""

from datetime import timedelta

import click

from mainstay.api.times import parse_duration


class Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            length = parse_duration(value)
        except ValueError:
            self.fail(f"{value!r} is no length of time, as in 40s, 1m30s or 250ms", param, ctx)
        if length < timedelta(0):
            self.fail(f"{value!r} is less than nothing", param, ctx)
        return length
