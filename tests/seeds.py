"""Seeds that once failed: tests/seeds.toml, which tests/test_seeds.py runs, and docs/BUGS.md tells the stories of.

    python -m tests.seeds           for each bug, with which seed it is found today if it is planted again

A seed stays after its bug is fixed. Its run may change as scenarios and faults do; so each bug has a twin that plants
it again, and a seed that finds the twin today (`again`), which is the one to look at it with.
"""

import sys
import tomllib
from pathlib import Path
from typing import Final

import msgspec

from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.forks import decode, encode, from_booted, run_many
from mainstay.sim.run.lookup import find_patch, find_scenario
from mainstay.sim.run.run import Booted, RunResult
from mainstay.sim.strategies.table import STRATEGIES

HERE: Final = Path(__file__).parent
SEEDS_MAX: Final = 100


class KeptSeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run that has found a bug."""

    scenario: str
    found: str
    """What was wrong, in a sentence."""
    fixed: str
    """Where: the issue, or the commit."""
    seeds: list[int] = []
    """Those that have failed. None: they were not kept."""
    strategy: str = "random"
    bundle: str = ""
    """The file of the run, beside seeds.toml: where the choices are needed, and not the seed alone."""
    plant: str = ""
    """The twin, as module:function."""
    again: int = 0
    """The seed that finds the twin."""
    problem: str = ""
    """How the problem begins that is found then."""

    @property
    def command(self) -> str:
        """How to see it."""
        how = f" --strategy {self.strategy}" if self.strategy != "random" else ""
        return f"mainstay sim run {self.scenario} --seeds 1 --first-seed {self.again}{how} --plant {self.plant}"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    seed: list[KeptSeed]


def kept_seeds() -> list[KeptSeed]:
    with (HERE / "seeds.toml").open("rb") as file:
        return msgspec.convert(tomllib.load(file), _File).seed


def run_clean(kept: KeptSeed) -> list[RunResult]:
    """What the seeds come to today."""
    scenario, strategy = find_scenario(kept.scenario), STRATEGIES[kept.strategy]
    results = list(run_many(scenario, kept.seeds, strategy=strategy)) if kept.seeds else []
    return results + ([_replayed(kept)] if kept.bundle else [])


def run_planted(kept: KeptSeed) -> RunResult:
    """What comes of it with the bug."""
    patch, strategy = find_patch(kept.plant), STRATEGIES[kept.strategy]
    (result,) = run_many(find_scenario(kept.scenario), [kept.again], patch=patch, strategy=strategy)
    return result


def first_that_finds(kept: KeptSeed) -> RunResult | None:
    patch, strategy = find_patch(kept.plant), STRATEGIES[kept.strategy]
    wanted = [kept.again, *range(1, SEEDS_MAX + 1)]
    results = run_many(find_scenario(kept.scenario), wanted, patch=patch, strategy=strategy)
    return next((result for result in results if not result.is_passed), None)


def _replayed(kept: KeptSeed) -> RunResult:
    bundle = RunBundle.load(HERE / kept.bundle)

    def replay(booted: Booted, tape: Tape) -> bytes:
        return encode(booted.go(bundle.seed, tape))

    (sent,) = from_booted(bundle.the_scenario(), lambda booted, send: send(replay(booted, bundle.the_tape())))
    assert isinstance(sent, bytes)
    return decode(sent)


def main() -> int:
    missing = 0
    for kept in kept_seeds():
        if kept.plant:
            result = first_that_finds(kept)
            missing += result is None
            seed, problem = ("no seed", "") if result is None else (result.seed, result.problem.splitlines()[0][:100])
            print(f"{kept.scenario} {kept.plant}: {seed}{'' if seed == kept.again else ' (NOT as kept)'}: {problem}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
