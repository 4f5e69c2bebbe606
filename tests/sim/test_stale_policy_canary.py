"""The scenario stale-policy-canary puts to the test what it is about: it does not only end well."""

import pytest

from mainstay.scenarios.stale_policy_canary import SCENARIO, StalePolicyCanary
from mainstay.sim.run.run import Booted

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_while_nodes_are_seen_late_a_stale_candidate_is_refused_and_the_gate_holds(seed):
    with Booted(SCENARIO) as booted:
        result = booted.go(seed)
        stage = booted.stage

    assert result.is_passed, result
    assert isinstance(stage, StalePolicyCanary)
    assert stage.refused > 0
    assert stage.held > 0
