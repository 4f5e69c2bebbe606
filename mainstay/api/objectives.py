"""Words of ServiceLevelObjectives, and how to read their status: for the controller, and those who go by the burn."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object

BURNING: Final = "BudgetBurning"
"""The condition: the error budget is used up faster than it lasts."""


class ObjectiveType(StrEnum):
    """What is measured. Shown to users: only add."""

    TIME_TO_BOUND = "TimeToBound"
    """From the creation of a pod to its binding."""
    TIME_TO_READY = "TimeToReady"
    TIME_TO_SERVING = "TimeToServing"
    """To its first traffic: only pods that a Service routes to reach it."""
    AVAILABILITY = "Availability"
    """The share of the desired replicas that are ready, over time."""


class TargetKind(StrEnum):
    """What an objective can be about."""

    DEPLOYMENT = "Deployment"
    REPLICA_SET = "ReplicaSet"


class ObjectiveReason(StrEnum):
    """Reasons of the condition `BudgetBurning`. Shown to users: only add."""

    BURNING = "BurnRateHigh"
    """Over the last 5 minutes and the last hour, the budget was used up faster than it lasts."""
    WITHIN_BUDGET = "WithinBudget"
    TOO_FEW = "NotEnoughSamples"
    """Too little was measured of the present template to say anything. That is not good news."""
    NO_TARGET = "TargetNotFound"
    NOT_OBSERVED = "TargetNotObserved"
    """The target has no ReplicaSet for its present template yet."""


def find_targets(spec: Any) -> Sequence[str]:
    """What an objective with this spec is about: `Deployment/web`. For an index."""
    target = spec.get("target") if isinstance(spec, dict) else None
    if not isinstance(target, dict):
        return ()
    return (f"{target.get('kind')}/{target.get('name')}",)


def read_burn(objective: Mapping[str, Any], window: str) -> float | None:
    """How fast a budget burns by an entry of `status.objectives`; None: nothing was measured within the window."""
    text = (objective.get("burn") or {}).get(window)
    try:
        return None if text is None else float(text)
    except (TypeError, ValueError):
        return None


def get_objectives(slo: Object) -> Sequence[Mapping[str, Any]]:
    """What the status says of each objective."""
    return [each for each in (slo.get("status") or {}).get("objectives") or () if isinstance(each, dict)]
