"""Run every benchmark, each in a process of its own, and print or write down what they measured.

`--write` makes bench/RESULTS.md from the figures, so that no number in it is ever typed by hand.
"""

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import HEADINGS, Figure, Load, add_options, cores, from_json, load_now, row, table, to_json

BENCH = Path(__file__).parent
NOT_BENCHMARKS = ("measure",)  # Nor is a module whose name begins with an underscore.
QUICK_S_MAX = 30
QUICK_S_LIMIT = 180  # Well beyond what is allowed: a busy machine is no failure, but a benchmark that hangs is.
FULL_S_LIMIT = 3600


class Broken(Exception):
    """A benchmark did not run through. The message says which one, and why."""


def main(arguments: Sequence[str] | None = None, bench: Path = BENCH) -> int:
    """Run them all. 0 if every benchmark ran through, whether or not the goals were met; else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run all benchmarks.")
    add_options(parser)
    parser.add_argument("--write", action="store_true", help="write the figures to bench/RESULTS.md")
    options = parser.parse_args(arguments)

    figures: list[Figure] = []
    broken = 0
    before = load_now()
    for name in names(bench):
        try:
            measured = run(name, bench.parent, quick=options.quick)
        except Broken as error:
            _tell(str(error))
            broken += 1
            continue
        figures += measured
        if options.json:
            for figure in measured:
                print(to_json(figure, before), flush=True)
    load = Load(before, load_now(), cores())

    if not options.json and figures:
        print(table(figures))
        print(load)
    if broken:
        _tell(f"{broken} of {len(names(bench))} benchmarks are broken")
        return 1
    if options.write:
        results = bench / "RESULTS.md"
        results.write_text(results_page(figures, load, quick=options.quick))
        _tell(f"wrote {results}")
    return 0


def names(bench: Path) -> list[str]:
    """The benchmarks there are, sorted."""
    files = (file.stem for file in bench.glob("*.py"))
    return sorted(name for name in files if not name.startswith("_") and name not in NOT_BENCHMARKS)


def run(name: str, root: Path, *, quick: bool) -> list[Figure]:
    """Run one benchmark in a process of its own, so that none inherits the heap, caches or loops of another."""
    _tell(f"bench.{name} …")
    command = [sys.executable, "-m", f"bench.{name}", "--json", *(["--quick"] if quick else [])]
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


def results_page(figures: Sequence[Figure], load: Load, *, quick: bool) -> str:
    """The figures as a page of Markdown."""
    rows = [HEADINGS, ("---", "---:", "---", "---:", "---", "---"), *map(row, figures)]
    command = "python -m bench --write" + (" --quick" if quick else "")
    return "\n".join(
        [
            "# Measured",
            "",
            f"Written by `{command}`; do not edit. Goals are what we aim for; a busy machine misses them.",
            "",
            f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            f"- Machine: {load.cores} cores, {cpu_model()}, {platform.system()} {platform.machine()}",
            f"- Python: {platform.python_version()}",
            f"- Load average over a minute: {load.before:.2f} before, {load.after:.2f} after",
            "",
            *(f"| {' | '.join(cells)} |" for cells in rows),
            "",
        ]
    )


def cpu_model() -> str:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown processor")


def _tell(message: str) -> None:
    # To stderr: stdout may be JSON that another program reads.
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
