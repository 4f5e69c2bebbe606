"""PodDisruptionBudget: how many pods may be taken away at a time."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.checks import (
    check_one_of,
    check_percent_at_most_all,
    check_percent_or_count,
    check_selector,
    invalid_json,
)
from mainstay.api.kinds.declare import builtin, child, own_status


def _default_budget(new: Object) -> None:
    child(new, "spec")


def _no_room() -> Object:
    return {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


def _validate_budget(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {"minAvailable": least, "maxUnavailable": most}
        causes.append(invalid_json("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if spec.get(field) is not None:
            check_percent_or_count(spec[field], f"spec.{field}", causes)
            check_percent_at_most_all(spec[field], f"spec.{field}", causes)
    if spec.get("selector"):
        check_selector(spec["selector"], "spec.selector", causes)
    if spec.get("unhealthyPodEvictionPolicy") is not None:
        check_one_of(spec, "unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"), "spec", causes)
    return causes


POD_DISRUPTION_BUDGET = builtin(
    kind_names.DISRUPTION_BUDGETS,
    short_names=("pdb",),
    subresources=(STATUS,),
    defaults=_default_budget,
    prepare=own_status(_no_room),
    validate=_validate_budget,
    put_needs_version=True,
)

KINDS = (POD_DISRUPTION_BUDGET,)
