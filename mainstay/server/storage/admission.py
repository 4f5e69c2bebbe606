"""What happens to every object on its way in, besides what its kind says: a list of plain functions, run in order.

Each looks at the new object and the old one, may fill something in, and raises `StatusError` to refuse. They read
nothing: what they need to know of other objects is given to them by `AdmissionContext`, which the server keeps up to
date.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mainstay.api.causes import PRIORITY_CLASS_NOT_FOUND
from mainstay.api.errors import forbidden
from mainstay.api.kind import Kind, Object
from mainstay.server.storage.account_admission import PodAccounts
from mainstay.server.storage.strategies import Admission

_BUILT_IN_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(slots=True)
class AdmissionContext:
    """What admission knows of other objects."""

    priorities: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Of each PriorityClass: its value and its preemption policy."""
    default_priority: str = ""


def build_admission(known: AdmissionContext, accounts: PodAccounts) -> Sequence[Admission]:
    """All of it, in order."""

    def priority(kind: Kind, new: Object, old: Object | None) -> None:
        if _is_pod(kind) and old is None:
            _set_priority(new, known)

    return (priority, accounts.admit)


def _is_pod(kind: Kind) -> bool:
    return kind.kind == "Pod" and kind.group == ""


def _set_priority(pod: Object, known: AdmissionContext) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName") or known.default_priority
    value, policy = 0, "PreemptLowerPriority"
    if name in known.priorities:
        value, policy = known.priorities[name]
    elif name in _BUILT_IN_PRIORITIES:
        value = _BUILT_IN_PRIORITIES[name]
    elif name:
        text = f"no PriorityClass with name {name} was found"
        cause = {"reason": PRIORITY_CLASS_NOT_FOUND, "message": text, "field": "spec.priorityClassName"}
        raise forbidden("pods", "", pod["metadata"].get("name", ""), text, [cause])
    if name:
        spec["priorityClassName"] = name
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)
