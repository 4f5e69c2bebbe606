"""`autoscaler-and-lag` gets to each of the three limits, and the autoscaler names it."""

import re

import pytest

from mainstay.scenarios import autoscaler_and_lag
from mainstay.scenarios.autoscaler_and_lag import SCENARIO
from mainstay.sim.cluster.history import RevisionCommitted
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.run import Booted

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("block", "reason"),
    [("scheduler", "ControlPlaneLag"), ("quota", "LimitedByQuota"), ("topology", "LimitedByPlacement")],
)
def test_what_blocks_is_named_and_replicas_stay_where_they_are(
    block: str, reason: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(autoscaler_and_lag, "BLOCKS", (block,))

    with Booted(SCENARIO) as booted:
        result = booted.go(0, Tape())
        commits = [each for each in booted.world.history.events if isinstance(each, RevisionCommitted)]

    assert (result.verdict, result.problem) == ("passed", "")
    said = [each.value or b"" for each in commits if each.key.startswith("autoscaling/horizontalpodautoscalers/")]
    limits = dict.fromkeys(limit for value in said for limit in re.findall(rb'"(Limited\w+|ControlPlaneLag)"', value))
    assert list(limits) == [reason.encode()]
