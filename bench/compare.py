"""Measure this checkout and another one side by side: did a change make anything slower?

    git worktree add /tmp/before v0.1.0 && make -C /tmp/before setup
    python -m bench.compare /tmp/before api scheduler --quick --rounds 8

On a shared machine the speed of a core drifts by a third within minutes, so two figures taken one after the other say
little. Here the checkouts take turns, the first turn of a round alternates, and each round gives a ratio of figures
that were taken next to each other. What is shown is the median of those ratios, with the smallest and the largest one:
a difference that lies within that range is noise.

CPU time of one operation is compared where a benchmark gives it, otherwise the value. Figures are matched by name.
"""

import argparse
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.__main__ import BENCH, Broken, names, run
from bench.measure import Figure, Load, cores, load_now, number

Measured = Mapping[str, Figure]
"""The figures of one turn, by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure, in both checkouts. A ratio above 1 means that this checkout costs more."""

    name: str
    other: float
    ours: float
    ratio: float
    ratio_min: float
    ratio_max: float

    def __str__(self) -> str:
        spread = f"({_percent(self.ratio_min)} … {_percent(self.ratio_max)})"
        return f"{number(self.other):>10}  {number(self.ours):>10}  {_percent(self.ratio):>8}  {spread:22}  {self.name}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description="Compare with another checkout.")
    parser.add_argument("checkout", type=Path, help="its directory, with .venv in it")
    parser.add_argument("name", nargs="+", choices=names(BENCH), help="which benchmarks", metavar="name")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is run (default 5)")
    parser.add_argument("--quick", action="store_true", help="short runs; better many short rounds than few long ones")
    options = parser.parse_args(arguments)
    python = options.checkout / ".venv" / "bin" / "python"
    if not python.exists():
        parser.error(f"{options.checkout} has no .venv; run `make -C {options.checkout} setup` first")

    before = load_now()
    try:
        for name in options.name:
            rounds = [
                _round(name, options.checkout, python, is_quick=options.quick, is_swapped=turn % 2 == 1)
                for turn in range(options.rounds)
            ]
            print(f"{'other':>10}  {'this':>10}  {'costs':>8}  {'(least … most)':22}  bench.{name}")
            for difference in find_differences(rounds):
                print(difference, flush=True)
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    print(Load(before, load_now(), cores()))
    return 0


def _round(name: str, checkout: Path, python: Path, *, is_quick: bool, is_swapped: bool) -> tuple[Measured, Measured]:
    """The figures of the other checkout, and ours."""
    turns = [(checkout, str(python)), (BENCH.parent, sys.executable)]
    figures = {}
    for root, interpreter in reversed(turns) if is_swapped else turns:
        measured = run(name, root, quick=is_quick, python=interpreter)
        figures[root] = {figure.name: figure for figure in measured}
    return figures[checkout], figures[BENCH.parent]


def find_differences(rounds: Sequence[tuple[Measured, Measured]]) -> Iterable[Difference]:
    """What both checkouts measured, in our order."""
    for name in rounds[0][1]:
        pairs = [(other[name], ours[name]) for other, ours in rounds if name in other and name in ours]
        costs = [(_cost(other), _cost(ours)) for other, ours in pairs]
        ratios = [ours / other for other, ours in costs if other]
        if ratios:
            yield Difference(
                name,
                statistics.median(_shown(other) for other, _ in pairs),
                statistics.median(_shown(ours) for _, ours in pairs),
                statistics.median(ratios),
                min(ratios),
                max(ratios),
            )


def _cost(figure: Figure) -> float:
    """Less is better."""
    if figure.cpu_us:
        return figure.cpu_us
    is_rate = figure.unit.startswith("/") or figure.unit.endswith("/s")
    return 1 / figure.value if is_rate and figure.value else figure.value


def _shown(figure: Figure) -> float:
    return figure.cpu_us or figure.value


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


if __name__ == "__main__":
    sys.exit(main())
