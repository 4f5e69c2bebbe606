"""The writes by which one policy takes over from another, in an order in which nothing falls between them.

At no moment is a pod of the scope without one of the two, and at no moment do the two tie (api/policy_scope.py): of two
policies with equal scopes, the limited one is the more specific.

    finish       candidate limited to 100 percent ─► baseline inactive ─► candidate without a limit
    roll back    baseline active ─► candidate inactive ─► baseline without a limit

If the candidate has no limit any more, the baseline comes back with a limit of 100 percent: it takes over all pods at
that moment, and loses the limit when the candidate is inactive.

Each step is found from what the two policies say now, so that after a crash between two of them the next look goes on.
Pods are never touched: those that run stay where they are, whichever policy placed them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.policy_rollout import FULL

FIELDS: Final = ("active", "limit", "shadow")
"""Of the spec of a PlacementPolicy: what a rollout changes, and nothing else."""
_WHOLE: Final = {"percent": FULL}


@dataclass(frozen=True, slots=True)
class SwitchStep:
    """These fields of this policy should be so; those that are not named should be absent."""

    policy: Object
    fields: Mapping[str, Any]
    about: str
    """What it does, for an Event."""


def read_fields(policy: Object) -> dict[str, Any]:
    spec: Mapping[str, Any] = policy.get("spec") or {}
    return {name: spec[name] for name in FIELDS if spec.get(name) is not None}


def is_serving(policy: Object) -> bool:
    """It is active for all of its scope."""
    return read_fields(policy) == {"active": True}


def is_whole(policy: Object) -> bool:
    """It is active, and limited to all of its scope."""
    return read_fields(policy) == {"active": True, "limit": _WHOLE}


def is_inactive(policy: Object) -> bool:
    return not read_fields(policy).get("active")


def plan_finish(candidate: Object, baseline: Object | None) -> SwitchStep | None:
    """The next write that makes a candidate, limited to 100 percent, the only one. None: it is."""
    if baseline is not None and not is_inactive(baseline):
        return SwitchStep(baseline, {"active": False}, f"deactivate {_name(baseline)}")
    if not is_serving(candidate):
        return SwitchStep(candidate, {"active": True}, f"remove the limit of {_name(candidate)}")
    return None


def plan_rollback(candidate: Object | None, baseline: Object | None) -> SwitchStep | None:
    """The next write that restores the baseline, or the state before there was a candidate. None: it is restored.

    A candidate that was deleted meanwhile is inactive."""
    is_out = candidate is None or is_inactive(candidate)
    if baseline is not None and is_inactive(baseline):
        needs_limit = candidate is not None and is_serving(candidate)
        fields = {"active": True, "limit": _WHOLE} if needs_limit else {"active": True}
        return SwitchStep(baseline, fields, f"activate {_name(baseline)}")
    if candidate is not None and (not is_out or set(read_fields(candidate)) - {"active"}):
        return SwitchStep(candidate, {"active": False}, f"deactivate {_name(candidate)}")
    if baseline is not None and not is_serving(baseline):
        return SwitchStep(baseline, {"active": True}, f"remove the limit of {_name(baseline)}")
    return None


def _name(policy: Object) -> str:
    return str(policy["metadata"]["name"])
