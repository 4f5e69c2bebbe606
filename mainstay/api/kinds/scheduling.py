"""PriorityClass: which pods go first."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, forbidden_value
from mainstay.api.kind import Object
from mainstay.api.kinds.checks import check_immutable, check_one_of
from mainstay.api.kinds.declare import builtin, fill

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _default_priority(new: Object) -> None:
    fill(new, value=0, preemptionPolicy="PreemptLowerPriority")


def _validate_priority(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    name, value = new["metadata"].get("name") or "", new["value"]
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"{name} is not a known system priority class"
            )
            causes.append(forbidden_value("metadata.name", detail))
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        causes.append(forbidden_value("value", detail))
    check_one_of(new, "preemptionPolicy", ("Never", "PreemptLowerPriority"), "", causes)
    if old is not None:
        if value != old.get("value"):
            causes.append(forbidden_value("value", "may not be changed in an update."))
        check_immutable(new, old, "preemptionPolicy", "", causes)
    return causes


PRIORITY_CLASS = builtin(
    kind_names.PRIORITY_CLASSES, short_names=("pc",), defaults=_default_priority, validate=_validate_priority
)

KINDS = (PRIORITY_CLASS,)
