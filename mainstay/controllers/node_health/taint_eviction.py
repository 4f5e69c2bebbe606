"""Which pods a `NoExecute` taint removes from a node, and after how long: by the rules of Kubernetes.

A pod that does not tolerate one of the taints goes at once. One that tolerates all of them stays: for ever, or for the
shortest `tolerationSeconds` among the tolerations that it needs. Of several that tolerate the same taint the first
counts.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.taints import NO_EXECUTE, Taint, tolerations_of

STAYS: Final = None


def stays_for(pod: Object, taints: Sequence[Taint]) -> timedelta | None:
    """How long a pod may stay from when the taints are there; None: for as long as it likes."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    found: list[timedelta] = []
    written = spec.get("tolerations") or ()
    tolerations = list(zip(tolerations_of(spec), written, strict=True))
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        fitting = [said for each, said in tolerations if each.tolerates(taint)]
        if not fitting:
            return timedelta()
        seconds = fitting[0].get("tolerationSeconds")
        if seconds is not None:
            found.append(timedelta(seconds=max(0, seconds)))  # One below nothing is nothing.
    return min(found, default=STAYS)
