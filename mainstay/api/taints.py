"""Taints and tolerations, by the rules of Kubernetes.

A toleration without an effect tolerates all effects; one without a key, which must then say `Exists`, all keys. The
operators `Lt` and `Gt` compare whole numbers: the *toleration's* value must be less than, or greater than, the taint's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from mainstay.api.times import to_duration
from mainstay.api.well_known_labels import UNSCHEDULABLE_TAINT

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
KEEPS_AWAY: Final = (NO_SCHEDULE, NO_EXECUTE)

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """As `kubectl describe node` has it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Lt" | "Gt":
                own, other = _integer(self.value), _integer(taint.value)
                if own is None or other is None:
                    return False
                return own < other if self.operator == "Lt" else own > other
        return False


# What a node that is marked as unschedulable counts as. Pods that tolerate it, such as those of a DaemonSet, may come.
UNSCHEDULABLE: Final = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)


def parse_taints(node: Mapping[str, Any]) -> tuple[Taint, ...]:
    found = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(each.get("key", ""), each.get("value") or "", each.get("effect") or "") for each in found)


def parse_tolerations(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.get("key") or "", each.get("operator") or "", each.get("value") or "", each.get("effect") or "")
        for each in spec.get("tolerations") or ()
    )


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration], effects: Sequence[str]) -> list[Taint]:
    """The taints of these effects that no toleration tolerates."""
    return [
        taint for taint in taints if taint.effect in effects and not any(each.tolerates(taint) for each in tolerations)
    ]


def stays_for(pod: Mapping[str, Any], taints: Sequence[Taint]) -> timedelta | None:
    """How long a pod may stay on a node from when the taints are there; None: for as long as it likes.

    A pod that does not tolerate one of the `NoExecute` taints goes at once. One that tolerates all of them stays: for
    ever, or for the shortest `tolerationSeconds` among the tolerations that it needs. Of several that tolerate the same
    taint the first counts.
    """
    spec: Mapping[str, Any] = pod.get("spec") or {}
    found: list[timedelta] = []
    written = spec.get("tolerations") or ()
    tolerations = list(zip(parse_tolerations(spec), written, strict=True))
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        fitting = [said for each, said in tolerations if each.tolerates(taint)]
        if not fitting:
            return timedelta()
        seconds = fitting[0].get("tolerationSeconds")
        if seconds is not None:
            found.append(to_duration(max(0, seconds)))  # One below nothing is nothing.
    return min(found, default=None)


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
