"""All that is needed to make one run again, as a file: `mainstay sim replay BUNDLE`.

A run is a function of the code, the scenario, the seed and the tape. The tape has those choices that were not benign;
what it does not say is benign (choices.py). What the run came to is there too, to be compared with, and by which build
and Python it was made: by another one the run may be another.
"""

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

import msgspec

from mainstay.env.build import build
from mainstay.env.disk import read_bytes, replace_bytes
from mainstay.sim.cluster.final_state import expect_end
from mainstay.sim.errors import SimulationError
from mainstay.sim.loop.trace import Choice
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.lookup import find_patch, find_scenario
from mainstay.sim.run.run import Patch, RunResult, RunVerdict
from mainstay.sim.run.scenario import Scenario

FORMAT: Final = "mainstay-run-1"


def can_be_kept(result: RunResult) -> bool:
    """Whether a bundle of this run makes it again. Not if its choices were lost with its process; nor if it was another
    run elsewhere, which is no matter of choices."""
    return bool(result.trace) and result.verdict is not RunVerdict.DIFFERENT


class BadRunBundle(SimulationError):
    """The file is not the bundle of a run, or not one that can be read here. Says why."""


class RunBundle(msgspec.Struct, frozen=True, kw_only=True):
    format: str = FORMAT
    scenario: str
    """By name, or as module:attribute (lookup.py)."""
    seed: int
    tape: list[Choice]
    has_journal: bool = False
    """Whether the run kept a journal: the servers then do a little more."""
    planted: str = ""
    """The bug that was planted, as module:attribute; empty for none."""
    lasts_s: float = 0.0
    """How long things were wanted, if not as long as the scenario says."""
    result: RunResult
    build: str
    python: str

    @classmethod
    def of(
        cls,
        result: RunResult,
        *,
        scenario: str,
        planted: str = "",
        has_journal: bool = False,
        lasts: timedelta | None = None,
    ) -> Self:
        """Of a run that has not passed, and of which there can be one (`can_be_kept`): of those that have, the tape is
        not kept."""
        return cls(
            scenario=scenario,
            seed=result.seed,
            tape=result.tape,
            has_journal=has_journal,
            planted=planted,
            lasts_s=0.0 if lasts is None else lasts.total_seconds(),
            result=result,
            build=build(),
            python=_python(),
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises `BadRunBundle`."""
        try:
            data = read_bytes(path)
        except OSError as error:
            raise BadRunBundle(f"cannot read bundle {path}: {error.strerror}") from None
        try:
            bundle = msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise BadRunBundle(f"{path} is not a run bundle: {error}") from None
        if bundle.format != FORMAT:
            raise BadRunBundle(f"{path} has format {bundle.format!r}; this version reads {FORMAT!r}")
        return bundle

    def save(self, path: Path) -> None:
        replace_bytes(path, msgspec.json.format(msgspec.json.encode(self), indent=1))

    def the_scenario(self) -> Scenario:
        """Raises `NotFound` (lookup.py)."""
        scenario = find_scenario(self.scenario)
        if self.result.expected is not None:
            scenario = expect_end(scenario, self.result.expected)
        return replace(scenario, lasts=timedelta(seconds=self.lasts_s)) if self.lasts_s else scenario

    def patch(self) -> Patch | None:
        """What plants the bug, if one was. Raises `NotFound`."""
        return find_patch(self.planted) if self.planted else None

    def the_tape(self) -> Tape:
        return Tape(self.tape)

    @property
    def is_of_this_build(self) -> bool:
        return self.build == build() and self.python == _python()


def _python() -> str:
    return f"{sys.implementation.name} {sys.version.split()[0]}"
