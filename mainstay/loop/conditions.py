"""Conditions: what a controller says about an object, in the form that people and `kubectl wait` read.

A condition says for which generation it was made (`observedGeneration`), so that a reader can tell whether it is about
what is wanted now, and changes its `lastTransitionTime` only when its status changes, so that writing the same again is
no change.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object

STALLED: Final = "Stalled"
"""Nothing more is tried until the object changes. Not there while all is well."""
RETRYING: Final = "Retrying"
"""It keeps failing and is tried again: the message says why, and by when. Not there while all is well."""


class Truth(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: Truth
    reason: str
    """One word, for programs."""
    message: str = ""
    """A sentence, for people."""
    cause: str = ""
    """Another word for programs, where Kubernetes' reason leaves open which of several it is: `QuotaExceeded`."""


def with_conditions(
    status: Object, wanted: Iterable[Condition], generation: int | None, now: datetime, *, without: Iterable[str] = ()
) -> Object:
    """A status in which these conditions are as wanted, and those of the types `without` are gone.

    `generation` is None for the few old kinds whose conditions have no room for it, such as Deployment.

    Conditions of other types belong to other writers, and stay. Their order stays too; new ones come last.
    """
    by_type = {condition.type: condition for condition in wanted}
    gone = frozenset(without) - frozenset(by_type)
    existing: list[Any] = status.get("conditions") or []
    result = []
    for old in existing:
        condition = by_type.pop(old.get("type"), None)
        if condition is not None:
            result.append(_written(condition, generation, now, old))
        elif old.get("type") not in gone:
            result.append(old)
    result += [_written(condition, generation, now, {}) for condition in by_type.values()]
    if not result and not existing:
        return status
    return {**status, "conditions": result}


def _written(condition: Condition, generation: int | None, now: datetime, old: Object) -> Object:
    is_as_before = old.get("status") == condition.status and old.get("lastTransitionTime")
    observed = {} if generation is None else {"observedGeneration": generation}
    kept = {name: value for name, value in old.items() if name != "cause"}
    return {
        **kept,
        "type": condition.type,
        "status": str(condition.status),
        **observed,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": old["lastTransitionTime"] if is_as_before else times.format_time(now),
        **({"cause": condition.cause} if condition.cause else {}),
    }
