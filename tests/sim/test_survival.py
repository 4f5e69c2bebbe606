"""`assert_survives`: what a test says whose scenario has not, and what it leaves behind."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.sim import RunBundle, RunVerdict, Scenario, Stage, Violated, assert_survives
from mainstay.sim.testing.survival import FAILURES_MAX, DidNotSurvive

pytestmark = pytest.mark.slow


class Moody(Stage):
    """Is unhappy in some of its runs."""

    async def check(self) -> None:
        if self.world.sim.choices.choose("mood", 3) == 2:
            raise Violated("mood", "it is not happy")


def a_scenario() -> Scenario:
    return Scenario("moody", "Mostly fine.", Moody, checkers=list, faults=(), lasts=timedelta(seconds=5))


MOODY = a_scenario()


def test_a_scenario_that_passes_says_nothing(tmp_path: Path):
    assert_survives(replace(MOODY, make=Stage), seeds=[2, 3], jobs=1, bundles=tmp_path / "none")

    assert not (tmp_path / "none").exists()


def test_one_that_does_not_says_which_seeds_why_and_how_to_see_them_again(tmp_path: Path):
    with pytest.raises(DidNotSurvive) as raised:
        assert_survives(MOODY, seeds=30, jobs=1, bundles=tmp_path, one_in=0)

    said = str(raised.value)
    bundles = sorted(tmp_path.iterdir())
    assert f"moody fails {FAILURES_MAX} of the runs with seeds 1 to 30:" in said
    assert said.count("mood: it is not happy") == len(bundles) == FAILURES_MAX
    for path in bundles:
        bundle = RunBundle.load(path)
        assert bundle.the_scenario() is MOODY
        assert bundle.result.verdict is RunVerdict.VIOLATED
        assert f"mainstay sim run {__name__}:MOODY --seeds 1 --first-seed {bundle.seed}\n" in said
        assert str(path) in said


def test_a_scenario_without_a_name_leaves_no_bundle(tmp_path: Path):
    with pytest.raises(DidNotSurvive, match="mood: it is not happy"):
        assert_survives(a_scenario(), seeds=30, jobs=1, bundles=tmp_path)

    assert list(tmp_path.iterdir()) == []
