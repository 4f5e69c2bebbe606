"""A crash of an agent before or after any of its writes: nothing runs twice, and all is well in the end."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.sim.run.sweep import sweep

pytestmark = pytest.mark.slow


def test_no_crash_at_any_write_breaks_a_promise():
    found = sweep(
        replace(SCENARIOS["pods-come-and-go"], lasts=timedelta(seconds=5)),
        faults=["crash-before", "crash-after"],
        jobs=2,
    )

    assert found.bad == (), str(found)
    assert found.points >= 10
