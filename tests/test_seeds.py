"""Seeds that once failed pass, and fail again when the bug is planted. docs/BUGS.md tells how."""

from pathlib import Path

import pytest

from mainstay.sim.run.run import RunVerdict
from tests.seeds import KeptSeed, kept_seeds, run_clean, run_planted

pytestmark = pytest.mark.slow

BUGS = Path(__file__).parent.parent / "docs" / "BUGS.md"
KEPT = kept_seeds()


def name_of(kept: KeptSeed) -> str:
    return f"{kept.scenario}-{kept.plant.partition(':')[2] or kept.seeds[0]}"


@pytest.mark.deep
@pytest.mark.parametrize("kept", [each for each in KEPT if each.seeds or each.bundle], ids=name_of)
def test_a_seed_that_once_failed_passes(kept: KeptSeed):
    assert [(each.verdict, each.problem) for each in run_clean(kept)] == [(RunVerdict.PASSED, "")] * (
        len(kept.seeds) + bool(kept.bundle)
    )


@pytest.mark.deep
@pytest.mark.parametrize("kept", [each for each in KEPT if each.plant], ids=name_of)
def test_a_bug_that_comes_back_is_found_with_the_seed_that_is_told(kept: KeptSeed):
    result = run_planted(kept)

    assert result.verdict in (RunVerdict.VIOLATED, RunVerdict.STUCK, RunVerdict.FAILED)
    assert result.problem.startswith(kept.problem)


@pytest.mark.parametrize("kept", KEPT, ids=name_of)
def test_every_bug_is_told_with_the_command_that_shows_it(kept: KeptSeed):
    told = BUGS.read_text()

    assert kept.scenario in told
    if kept.plant:
        assert kept.command in told
