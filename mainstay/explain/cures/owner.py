"""Whose pod it is, and how one would change it: the commands that a cure of the pod itself comes with.

A pod's spec cannot be changed once it is made, but that of its workload can; then it is replaced. The
template of a Job cannot be changed, nor a pod without an owner: then there is no command, and the words say what to
do. What changes others (nodes, quotas) has a command of its own (scheduler/why/cures/steps.py).
"""

import shlex
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.owners import find_controller
from mainstay.api.well_known_labels import HASH_LABEL

_CHANGEABLE: Final = ("deployment", "replicaset", "statefulset", "daemonset")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, order=True)
class Workload:
    """What a pod belongs to, as one names it to kubectl."""

    kind: str
    namespace: str
    name: str

    @property
    def can_change(self) -> bool:
        return self.kind in _CHANGEABLE

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def find_workload(pod: Object) -> Workload:
    """The pod itself, if it has no owner. A ReplicaSet of a Deployment is named by the hash in its label."""
    metadata = pod["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata["name"]
    owner = find_controller(pod)
    if owner is None:
        return Workload("pod", namespace, name)
    digits = (metadata.get("labels") or {}).get(HASH_LABEL)
    if owner["kind"] == "ReplicaSet" and digits and owner["name"].endswith(f"-{digits}"):
        return Workload("deployment", namespace, owner["name"].removesuffix(f"-{digits}"))
    return Workload(owner["kind"].lower(), namespace, owner["name"])


def patch_of_template(workload: Workload, spec: dict[str, Any]) -> str:
    """A command that changes the pods that a workload makes. Empty: there is none."""
    if not workload.can_change:
        return ""
    return patched(workload.kind, workload.name, workload.namespace, {"spec": {"template": {"spec": spec}}})


def set_requests(workload: Workload, container: str, requests: dict[str, str]) -> str:
    if not workload.can_change:
        return ""
    said = ",".join(f"{name}={amount}" for name, amount in sorted(requests.items()))
    return (
        f"kubectl set resources {workload} -n {workload.namespace} -c {shlex.quote(container)} "
        f"--requests={shlex.quote(said)}"
    )


def patched(kind: str, name: str, namespace: str, patch: dict[str, Any], how: str = "") -> str:
    place = f" -n {namespace}" if namespace else ""
    return (
        f"kubectl patch {kind} {name}{place}{f' --type={how}' if how else ''} -p {shlex.quote(_encode(patch).decode())}"
    )


def unchangeable(workload: Workload) -> str:
    """What has to be said of a cure that changes a pod without a command."""
    if workload.can_change:
        return ""
    if workload.kind == "pod":
        return " (the spec of a pod is immutable: delete and recreate it)"
    return f" (the pod template of {workload} is immutable: delete and recreate it)"
