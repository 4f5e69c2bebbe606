"""Rollouts when things fail: whatever does, they end the same."""

import pytest

from mainstay.sim.run.forks import run_many
from mainstay.sim.run.sweep import sweep
from tests.controllers.deployment.rollouts import CONTROLLERS, SCENARIO, SHORT_SCENARIO

pytestmark = pytest.mark.slow

SEEDS = range(6)


@pytest.mark.deep
def test_a_crash_before_or_after_any_write_of_the_controllers_changes_nothing_about_the_end():
    found = sweep(SHORT_SCENARIO, jobs=2, faults=["crash-before", "crash-after"], programs=CONTROLLERS)

    assert found.bad == (), str(found)
    assert found.points >= 60


def test_two_processes_that_take_turns_through_faults_of_all_kinds_end_with_what_was_wanted_last():
    bad = [f"{result.seed}: {result.problem}" for result in run_many(SCENARIO, SEEDS, jobs=2) if not result.is_passed]

    assert bad == []
