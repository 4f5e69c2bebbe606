"""Jobs with a crash at each write of their controller: each pod is counted once, and the end is the same."""

import pytest

from mainstay.scenarios.each_pod_counted_once import SHORT_SCENARIO
from mainstay.sim.run.sweep import sweep

pytestmark = pytest.mark.deep

FAULTS = ("crash-before", "crash-after")


def test_no_crash_before_or_after_any_write_of_a_jobs_controller_miscounts():
    found = sweep(SHORT_SCENARIO, programs=["controller-1"], faults=FAULTS, jobs=2)

    assert found.bad == (), str(found)
    assert found.points >= 10 * len(FAULTS)
