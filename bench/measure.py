"""What every benchmark shares: options, clocks, and how figures are printed.

A benchmark is a module in bench/ with one function and two lines at its end:

    def measure(quick: bool) -> Iterable[Figure]:
        watch = Stopwatch()
        with watch:
            ...
        yield watch.rate("memory store: commit", operations, goal="≥ 15000")

    if __name__ == "__main__":
        main(measure)

Then `python -m bench.NAME [--quick] [--json]` runs it, and `python -m bench` runs it with the others. A goal that is
missed is reported and is no failure: the machine may have been busy, which the printed load shows. A benchmark that
breaks, or gives no figure at all, is a failure. With `--quick` a benchmark does enough to show that it works, in under
30 seconds.

CPU time is the better figure to compare two versions by: other programs on the machine change it far less than wall
time.
"""

import argparse
import json
import os
import re
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

_GOAL: Final = re.compile(r"(?P<sign>≥|≤|>=|<=|>|<)\s*(?P<limit>[0-9][0-9_]*(\.[0-9]+)?)")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. A goal is a text such as "≥ 15000" or "≤ 1.5", in the figure's unit."""

    name: str
    value: float
    unit: str
    cpu_us: float | None = None
    """CPU time of one operation, in microseconds."""
    goal: str = ""

    def __post_init__(self) -> None:
        if self.goal and _GOAL.fullmatch(self.goal) is None:
            raise ValueError(f"the goal of {self.name!r} is not of the form '≥ 15000': {self.goal!r}")

    @property
    def is_goal_met(self) -> bool | None:
        """None if there is no goal."""
        match = _GOAL.fullmatch(self.goal)
        if match is None:
            return None
        limit = float(match["limit"])
        match match["sign"]:
            case "≥" | ">=":
                return self.value >= limit
            case "≤" | "<=":
                return self.value <= limit
            case ">":
                return self.value > limit
            case _:
                return self.value < limit


class Stopwatch:
    """Measures the wall and CPU time of a `with` block. Entering it again starts over."""

    def __init__(self, *, with_children: bool = False) -> None:
        """`with_children` also counts the CPU time of processes that ended, and were waited for, in the block."""
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._with_children = with_children

    def __enter__(self) -> Self:
        self._cpu_start = self._cpu()
        self._wall_start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall_s = time.perf_counter() - self._wall_start
        self.cpu_s = self._cpu() - self._cpu_start

    def rate(self, name: str, operations: int, *, unit: str = "/s", goal: str = "") -> Figure:
        """How many operations a second the block did."""
        return Figure(name, operations / self.wall_s, unit, self.cpu_s / operations * 1e6, goal)

    def _cpu(self) -> float:
        if not self._with_children:
            return time.process_time()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(frozen=True, slots=True)
class Spread:
    """What the same measurement gave several times."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.least)} … {number(self.most)})"


def rounds(measurement: Callable[[], float], count: int) -> Spread:
    """Make a measurement several times. The median, because one disturbed round must not move the result."""
    values = [measurement() for _ in range(count)]
    return Spread(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the machine was: the average number of running processes over a minute, before and after."""

    before: float
    after: float
    cores: int

    def __str__(self) -> str:
        return f"load {self.before:.2f} before, {self.after:.2f} after, on {self.cores} cores"


def load_now() -> float:
    return round(os.getloadavg()[0], 2)


def cores() -> int:
    return len(os.sched_getaffinity(0))


def main(measure: Callable[[bool], Iterable[Figure]], arguments: Sequence[str] | None = None) -> None:
    """Run one benchmark as a program. Raises what the benchmark raises, or `SystemExit` if it gives nothing."""
    parser = argparse.ArgumentParser(description="Run one benchmark.")
    add_options(parser)
    options = parser.parse_args(arguments)
    before = load_now()
    figures = []
    for figure in measure(options.quick):
        figures.append(figure)
        if options.json:
            print(to_json(figure, before), flush=True)
    if not figures:
        raise SystemExit("the benchmark gave no figures")
    if not options.json:
        print(table(figures))
        print(Load(before, load_now(), cores()))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="only enough to see that it works: under 30 seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object per figure and line")


def to_json(figure: Figure, load: float) -> str:
    """A figure as one line; `load` is what the machine was already doing when the benchmark began."""
    fields = {"name": figure.name, "value": figure.value, "unit": figure.unit, "load": load}
    return json.dumps(fields | {"cpu_us": figure.cpu_us, "goal": figure.goal}, ensure_ascii=False)


def from_json(line: str) -> Figure:
    fields = json.loads(line)
    return Figure(fields["name"], fields["value"], fields["unit"], fields["cpu_us"], fields["goal"])


HEADINGS: Final = ("figure", "value", "unit", "CPU µs each", "goal", "")


def table(figures: Sequence[Figure]) -> str:
    """A table for people. Numbers are aligned to the right."""
    rows = [HEADINGS, *map(row, figures)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(HEADINGS))]
    lines = []
    for name, value, unit, cpu_us, goal, verdict in rows:
        cells = (
            name.ljust(widths[0]),
            value.rjust(widths[1]),
            unit.ljust(widths[2]),
            cpu_us.rjust(widths[3]),
            goal.ljust(widths[4]),
            verdict,
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def row(figure: Figure) -> tuple[str, str, str, str, str, str]:
    """The cells of a table, in the order of `HEADINGS`."""
    cpu_us = "" if figure.cpu_us is None else number(figure.cpu_us)
    verdict = {None: "", True: "met", False: "missed"}[figure.is_goal_met]
    return (figure.name, number(figure.value), figure.unit, cpu_us, figure.goal, verdict)


def number(value: float) -> str:
    """Three digits that matter; larger numbers whole, with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
