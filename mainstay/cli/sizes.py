"""A number of bytes: as an option (`2GiB`, `500Mi`, `1G`), and as it is shown (`3.1 MB`)."""

import click

from mainstay.api.quantity import parse


class Bytes(click.ParamType[int]):
    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size = int(parse(value.removesuffix("B")).nano // 1_000_000_000)
        except ValueError:
            self.fail(f"{value!r} is not a number of bytes (for example 2GiB, 500Mi or 1G)", param, ctx)
        if size <= 0:
            self.fail(f"{value!r} must be more than 0", param, ctx)
        return size


def render_bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
