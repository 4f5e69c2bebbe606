"""Does `why` name the root cause? Forty faults are planted, and each is asked about once.

    python -m bench.faults                      all of them, in virtual time
    python -m bench.faults --only stale-quota   some of them
    python -m bench.faults --seed 7             all of them, in another run: other names, other delays
    python -m bench.faults --real               ten of them on real processes, under `mainstay up`: some minutes
    python -m bench.faults --busy               all of them, in clusters where much else goes on and goes wrong
    python -m bench.faults --held-out           others, which were in no list when `why` was written
    python -m bench.faults --report FILE        and all that was answered, as JSON

What is planted, what is asked and what must be named is in docs/faults.md, which was written before `why` was.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.measure import Figure, add_options, load_now, table, to_json
from tests.faults.catalogue import FAULTS, HELD_OUT, WANTED
from tests.faults.fault import Fault
from tests.faults.judging import Result, tried
from tests.faults.real import REAL, tried_for_real

QUICK: Final = 8  # Of all themes.
_ASKED_WIDTH: Final = 28


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description="Does `why` name the root cause?")
    add_options(parser)
    parser.add_argument("--real", action="store_true", help="ten of them, on real processes")
    parser.add_argument("--held-out", action="store_true", help="those that were in no list")
    parser.add_argument("--busy", action="store_true", help="among others, which have troubles of their own")
    parser.add_argument("--only", action="append", metavar="FAULT", help="this one; may be given several times")
    parser.add_argument("--seed", type=int, default=0, help="of the simulations (0)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write all answers there, as JSON")
    options = parser.parse_args(arguments)
    if options.real and (options.held_out or options.busy):
        parser.error("on real processes there are only the ten")
    before = load_now()
    there = HELD_OUT if options.held_out else [each for each in FAULTS if not options.real or each.name in REAL]
    chosen = _chosen(there, options.only or (), quick=options.quick and not options.real)
    results = []
    began = time.process_time()
    for result in _each(chosen, options.seed, is_real=options.real, is_busy=options.busy):
        results.append(result)
        if not options.json:
            print(line_of(result), flush=True)
    cpu_s = time.process_time() - began
    what = ", on real processes" if options.real else ", held out" if options.held_out else ""
    what += ", busy cluster" if options.busy else ""
    figures = [_hits(results, what, is_demanded=not options.held_out), *_durations(results, what, cpu_s)]
    if options.report is not None:
        options.report.write_text(json.dumps([report_of(each) for each in results], indent=1, ensure_ascii=False))
    if options.json:
        for figure in figures:
            print(to_json(figure, before), flush=True)
    else:
        print(table(figures))
    return 0


def _chosen(there: Sequence[Fault], only: Sequence[str], *, quick: bool) -> Sequence[Fault]:
    if unknown := set(only) - {fault.name for fault in there}:
        sys.exit(f"there is no such fault here: {', '.join(sorted(unknown))}")
    if only:
        return [fault for fault in there if fault.name in only]
    return there[:: max(1, len(there) // QUICK)] if quick else there


def _each(chosen: Sequence[Fault], seed: int, *, is_real: bool, is_busy: bool) -> Iterator[Result]:
    return tried_for_real(chosen) if is_real else (tried(fault, seed, is_busy=is_busy) for fault in chosen)


def _hits(results: Sequence[Result], what: str, *, is_demanded: bool) -> Figure:
    count = len(results)
    goal = f"≥ {-(-WANTED * count // len(FAULTS))}" if is_demanded else ""
    return Figure(
        f"why: planted root causes named{what}", sum(each.is_hit for each in results), f"of {count}", goal=goal
    )


def _durations(results: Sequence[Result], what: str, cpu_s: float) -> Iterator[Figure]:
    if took := [result.took_ms for result in results if result.took_ms]:
        yield Figure(f"why: from the command to its answer, median{what}", statistics.median(took), "ms")
    else:
        yield Figure(f"why: planting a fault and asking, CPU{what}", cpu_s / len(results) * 1000, "ms")


def line_of(result: Result) -> str:
    """One line for people; a miss has a second one, and a third."""
    mark = "●" if result.is_hit else "○"
    line = f"{mark} {result.fault.name:<23}{result.asked:<{_ASKED_WIDTH}} {result.code:<22} {result.sentence}"
    return line if result.is_hit else f"{line}\n    missed: {result.why_not}"


def report_of(result: Result) -> dict[str, object]:
    return {
        "fault": result.fault.name,
        "planted": result.fault.about,
        "asked": result.asked,
        "expected": [str(code) for code in result.fault.codes],
        "words": list(result.fault.words),
        "code": result.code,
        "verdict": result.verdict,
        "sentence": result.sentence,
        "hit": result.is_hit,
        "missed": result.why_not,
    }


if __name__ == "__main__":
    sys.exit(main())
