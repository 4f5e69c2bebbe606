"""Run benchmarks, each in a process of its own, and print or write down what they measured.

    python -m bench                     all of them
    python -m bench sim api --write     these
    python -m bench --quick --jobs 2    do they all still run? Two at a time

`--write` puts the figures into bench/RESULTS.md, so that no number in it is ever typed by hand.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench._results import write_part
from bench.measure import Figure, Load, add_options, cores, from_json, load_now, table, to_json

BENCH = Path(__file__).parent
NOT_BENCHMARKS = ("compare", "measure")  # Nor is a module whose name begins with an underscore.
QUICK_S_MAX = 30
QUICK_S_LIMIT = 180  # Well beyond what is allowed: a busy machine is no failure, but a benchmark that hangs is.
FULL_S_LIMIT = 3600


class Broken(Exception):
    """A benchmark did not run through. The message says which one, and why."""


def main(arguments: Sequence[str] | None = None, bench: Path = BENCH) -> int:
    """Run all, or those that are named. 0 if every benchmark ran through, whether or not the goals were met; else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run benchmarks.")
    parser.add_argument("name", nargs="*", help="only these, by the names of their files")
    add_options(parser)
    parser.add_argument(
        "--write", action="store_true", help="write the figures to bench/RESULTS.md, each when it is there"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at a time; only with --quick (1)")
    options = parser.parse_args(arguments)
    known = names(bench)
    if unknown := [name for name in options.name if name not in known]:
        parser.error(f"there is no benchmark {unknown[0]!r}; these there are: {', '.join(known)}")
    if options.write and options.quick:
        parser.error("--quick only shows that it works: its figures are not to be written down")

    if options.jobs > 1 and not options.quick:
        parser.error("--jobs is for --quick: beside another benchmark the figures of none are right")

    wanted = [name for name in known if not options.name or name in options.name]
    figures: list[Figure] = []
    broken = 0
    begun = load_now()
    for name, before, measured in _run_all(wanted, bench.parent, quick=options.quick, jobs=options.jobs):
        if isinstance(measured, Broken):
            _tell(str(measured))
            broken += 1
            continue
        figures += measured
        if options.json:
            for figure in measured:
                print(to_json(figure, before), flush=True)
        if options.write:
            write_part(bench / "RESULTS.md", name, measured, Load(before, load_now(), cores()), known)

    if not options.json and figures:
        print(table(figures))
        print(Load(begun, load_now(), cores()))
    if broken:
        _tell(f"{broken} of {len(wanted)} benchmarks are broken")
    return 1 if broken else 0


def _run_all(
    wanted: Sequence[str], root: Path, *, quick: bool, jobs: int
) -> Iterator[tuple[str, float, list[Figure] | Broken]]:
    """Each with the load that there was when it began, and what it measured, in the order in which they are named."""

    def run_one(name: str) -> tuple[str, float, list[Figure] | Broken]:
        before = load_now()
        try:
            return name, before, run(name, root, quick=quick)
        except Broken as error:
            return name, before, error

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(run_one, wanted)


def names(bench: Path) -> list[str]:
    """The benchmarks there are, sorted."""
    files = (file.stem for file in bench.glob("*.py"))
    return sorted(name for name in files if not name.startswith("_") and name not in NOT_BENCHMARKS)


def run(name: str, root: Path, *, quick: bool, python: str = sys.executable) -> list[Figure]:
    """Run one benchmark in a process of its own, so that none inherits the heap, caches or loops of another."""
    _tell(f"bench.{name} …")
    command = [python, "-m", f"bench.{name}", "--json", *(["--quick"] if quick else [])]
    limit = QUICK_S_LIMIT if quick else FULL_S_LIMIT
    start = time.monotonic()
    try:
        process = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, timeout=limit, text=True)
    except subprocess.TimeoutExpired:
        raise Broken(f"bench.{name} was stopped after {limit} seconds") from None
    took = time.monotonic() - start
    if process.returncode != 0:
        raise Broken(f"bench.{name} failed with exit code {process.returncode}")
    figures = [from_json(line) for line in process.stdout.splitlines()]
    if not figures:
        raise Broken(f"bench.{name} gave no figures: does it end with `main(measure)`?")
    if quick and took > QUICK_S_MAX:
        _tell(f"bench.{name} took {took:.0f} seconds: with --quick it should stay under {QUICK_S_MAX}")
    return figures


def _tell(message: str) -> None:
    # To stderr: stdout may be JSON that another program reads.
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
