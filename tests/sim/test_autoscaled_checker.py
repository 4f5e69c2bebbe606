"""What the checker of autoscalers accepts, and what it says at once: made-up histories of a few commits."""

from typing import Any

import msgspec
import pytest

from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.autoscaled import DECISIONS, AutoscaledWithinProgress
from tests.sim.test_checkers_worlds import Past

Object = dict[str, Any]
PATH = "/apis/apps/v1/namespaces/default/deployments/web/scale"


def an_app(replicas: int, ready: int, *, generation: int = 1, limit: Object | None = None) -> Object:
    progress = {"observedGeneration": 1, "desired": replicas, "ready": ready, "limitedBy": limit or {}}
    return {
        "metadata": {"name": "web", "generation": generation},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "progress": progress},
    }


def a_past(first: Object, **spec: Any) -> Past:
    past = Past(AutoscaledWithinProgress())
    target = {"kind": "Deployment", "name": "web"}
    own = {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, **spec}}
    past.write("autoscaling/horizontalpodautoscalers/default/web", msgspec.json.encode(own))
    past.put("Deployment", first)
    return past


def raise_to(past: Past, replicas: int, *, decision: str = f"{DECISIONS}1", at: float = 0) -> None:
    past.put("Deployment", an_app(replicas, 0), by=past.ask("PATCH", PATH, decision=decision), at=at)


def a_behavior(*policies: tuple[str, int], select: str = "Max") -> Object:
    listed = [{"type": kind, "value": value, "periodSeconds": 15} for kind, value in policies]
    return {"scaleUp": {"selectPolicy": select, "policies": listed}, "scaleDown": {"stabilizationWindowSeconds": 30}}


QUEUED = {"stage": "scheduled", "reason": "Queued", "count": 1}


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        (an_app(3, 2, limit=QUEUED), "raised from 3 to 4 although 1 replicas are not scheduled: Queued"),
        (an_app(3, 3, generation=2), "generation 2 is observed only up to 1"),
    ],
)
def test_a_raise_of_what_does_not_get_its_replicas_is_found(before, problem):
    past = a_past(before)
    with pytest.raises(Violated, match=problem):
        raise_to(past, 4)


def test_a_raise_above_the_maximum_or_too_far_at_once_is_found():
    with pytest.raises(Violated, match="more than the maximum"):
        raise_to(a_past(an_app(6, 6)), 10)
    with pytest.raises(Violated, match="from 2 to 5 at once"):
        raise_to(a_past(an_app(2, 2)), 5)


@pytest.mark.parametrize(
    ("behavior", "most"),
    [
        (a_behavior(("Pods", 4), ("Percent", 100)), 6),
        (a_behavior(("Pods", 4), ("Percent", 100), select="Min"), 4),
        (a_behavior(("Percent", 20)), 3),
        (a_behavior(("Pods", 4), select="Disabled"), 2),
    ],
)
def test_a_raise_above_what_the_policies_of_the_behavior_allow_is_found(behavior, most):
    if most > 2:
        raise_to(a_past(an_app(2, 2), behavior=behavior), most)
    with pytest.raises(Violated, match=f"from 2 to {most + 1} at once: {most} is the most"):
        raise_to(a_past(an_app(2, 2), behavior=behavior), most + 1)


def test_what_the_autoscaler_has_removed_within_the_period_it_may_add_again_and_later_not():
    behavior = a_behavior(("Pods", 1))
    for at, is_allowed in ((10.0, True), (100.0, False)):
        past = a_past(an_app(6, 6), behavior=behavior)
        past.put("Deployment", an_app(2, 2), by=past.ask("PATCH", PATH, decision=f"{DECISIONS}1"))
        if is_allowed:
            raise_to(past, 7, at=at)
            continue
        with pytest.raises(Violated, match="from 2 to 7 at once: 3 is the most"):
            raise_to(past, 7, at=at)


@pytest.mark.parametrize(
    "before",
    [
        an_app(3, 3),
        an_app(3, 2, limit={"stage": "ready", "reason": "Starting", "count": 1}),
        an_app(3, 2, limit={"stage": "admitted", "reason": "RollingOut", "count": 1}),
        an_app(3, 3, limit={"stage": "admitted", "reason": "Paused", "count": 3}),
    ],
)
def test_what_gets_its_replicas_or_only_takes_its_time_may_be_raised(before):
    raise_to(a_past(before), 4)


def test_users_and_the_minimum_may_raise_what_is_limited():
    raise_to(a_past(an_app(3, 2, limit=QUEUED)), 4, decision="")
    raise_to(a_past(an_app(3, 2, limit=QUEUED), minReplicas=4), 4)
