"""`mainstay debug` of the worked example *pending replicas after rollback*, with the real components. (O5, O8)"""

from dataclasses import replace

import pytest

from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.client.client import Client
from mainstay.explain.debug.builder import debug
from mainstay.explain.debug.text import debug_text
from mainstay.explain.debug.view import DebugFinding, DebugView
from mainstay.explain.moment import Moment
from mainstay.registry import REGISTRY
from mainstay.scenarios import _risk
from mainstay.scenarios.pending_after_rollback import SCENARIO, PendingAfterRollback
from mainstay.sim.cluster.world import World
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.run import Booted

pytestmark = pytest.mark.slow


class Viewed(PendingAfterRollback):
    """Looks at the debug view after each turn of the user, as an operator would."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.views: list[DebugView] = []

    async def turn(self, client: Client) -> None:
        await super().turn(client)
        journal = self.world.journal
        assert journal is not None
        self.views.append(await debug(await Moment.now(journal), REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT))


@pytest.fixture(scope="module")
def views() -> dict[str, DebugView]:
    """By reason of the autoscaler, the first view that has it."""
    with Booted(replace(SCENARIO, make=Viewed)) as booted:
        assert booted.go(0, Tape()).is_passed
        assert isinstance(booted.stage, Viewed)
        found: dict[str, DebugView] = {}
        for view in booted.stage.views:
            [autoscaler] = view.autoscalers
            found.setdefault(autoscaler.reason, view)
        return found


def test_while_the_quota_is_exhausted_the_view_has_the_reason_of_the_autoscaler(views):
    view = views["LimitedByQuota"]

    [autoscaler] = view.autoscalers
    assert (autoscaler.name, autoscaler.current, autoscaler.desired) == (_risk.NAME, _risk.WANTED, _risk.WANTED)
    assert "the metrics justify 10 replicas, kept at 8" in autoscaler.message
    assert {each.reason for each in view.pending} == {f"quota/{_risk.QUOTA}"}


def test_when_the_quota_was_raised_unseen_the_view_names_the_stale_cache_and_so_does_the_autoscaler(views):
    view = views["ControlPlaneLag"]

    [autoscaler] = view.autoscalers
    [cache] = [each for each in view.caches if each.is_decisive]
    assert view.finding is DebugFinding.STALE_CACHE
    assert (cache.component, cache.kind) == (_risk.SCHEDULER, "zonequotas.mainstay.dev")
    assert cache.seen < cache.latest
    assert "scheduler-1 has seen ZoneQuotas up to revision" in autoscaler.message
    text = "\n".join(debug_text(view))
    assert "ControlPlaneLag" in text
    assert _risk.QUOTA in view.cause


def test_the_view_says_that_the_rollback_was_observed_and_that_repair_is_done(views):
    view = views["ControlPlaneLag"]

    assert ("v4", True) in [(each.version, each.is_observed) for each in view.rollbacks if each.is_rollback]
    assert view.repair is not None
    assert view.repair.status == "True"


def test_the_view_shows_who_raised_the_desired_state(views):
    view = views["ControlPlaneLag"]

    assert "horizontal-pod-autoscaler" in [each.who.component for each in view.writers]
