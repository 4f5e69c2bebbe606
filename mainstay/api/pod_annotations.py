"""Annotations of pods that Mainstay knows: what a pod asks for, and what its controller says of it."""

from typing import Final

from mainstay.api.kind import Object

AT_MOST_ONE: Final = "mainstay.dev/at-most-one"
"""With the value `true`: of this pod, under whatever name it comes back, never two run at a time. Its containers run
only while their node holds its lease, and the control plane replaces it only after that lease has run out."""
SLOT: Final = "mainstay.dev/slot"
"""Which of the places of its ReplicaSet a pod is for."""
REPLACES: Final = "mainstay.dev/replaces"
"""The uid of the pod that was in the slot before."""


def is_at_most_one(pod: Object) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return bool(annotations.get(AT_MOST_ONE) == "true")
