"""What the benchmarks of planted bugs share: which bugs there are, how they are chosen, and how figures are told."""

import argparse
from collections.abc import Sequence

from bench.measure import Figure, add_options, cores, load_now, table, to_json
from tests.sim.test_scenarios import TWINS, Twin


def parser_of(name: str, about: str) -> argparse.ArgumentParser:
    """Of a benchmark of this name, with the options that all of them have."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=about)
    add_options(parser)
    parser.add_argument("name", nargs="*", help="only twins with this in their scenario's or their own name")
    parser.add_argument("--jobs", type=int, default=cores(), help="runs at once (one for each core)")
    return parser


def chosen(names: Sequence[str]) -> list[tuple[str, Twin]]:
    """The twins that have one of these in their names, or all; each with its scenario."""
    return [
        (scenario, twin)
        for scenario, twin, _ in TWINS
        if not names or any(name in f"{scenario} {twin.__name__}" for name in names)
    ]


def tell(figures: Sequence[Figure], options: argparse.Namespace, before: float) -> None:
    """In the form that was asked for. `before` is the load at the beginning."""
    if options.json:
        print("\n".join(to_json(figure, before) for figure in figures))
    else:
        print(table(figures))
        print(f"load before {before:.1f}, after {load_now():.1f}; {options.jobs} runs at once")
