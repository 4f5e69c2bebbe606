"""Annotations that have a meaning: those of Mainstay, and the few of Kubernetes that are read here."""

from typing import Final

from mainstay.api.kind import Object

AT_MOST_ONE: Final = "mainstay.dev/at-most-one"
"""With the value `true`: of this pod, under whatever name it comes back, never two run at a time. Its containers run
only while their node holds its lease, and the control plane replaces it only after that lease has run out."""
SLOT: Final = "mainstay.dev/slot"
"""Which of the places of its ReplicaSet a pod is for."""
REPLACES: Final = "mainstay.dev/replaces"
"""The uid of the pod that was in the slot before."""
RESERVATION: Final = "mainstay.dev/reservation"
"""On a pod or its binding: the name of the reservation, in its namespace, that holds room for it."""
WITHDRAWN: Final = "mainstay.dev/withdrawn"
"""On a pod of a Job: it was deleted because the Job needs fewer pods, and is no failure."""
AGENT_CERTIFICATE: Final = "mainstay.dev/agent-certificate"
"""On a node: the certificate that its agent serves with."""
LEAVE: Final = "mainstay.dev/leave"
"""On the lease of a node: its agent is to stop all pods, clean up the machine and end. The value is since when."""
LEFT: Final = "mainstay.dev/left"
"""On the lease of a node: its agent has done so, and ends. What it could not remove, or nothing."""
STORE_EPOCH: Final = "mainstay.dev/opening"
"""On a bookmark: the epoch of the store that its resource version is from."""

# On an Event, and in the audit log:
DECISION: Final = "mainstay.dev/decision"
TRACE: Final = "mainstay.dev/trace"
GENERATION: Final = "mainstay.dev/generation"
REVISION: Final = "mainstay.dev/revision"
POLICIES: Final = "mainstay.dev/policies"
"""The admission policies that have refused the request: name, uid and revision of each."""
MUTATIONS: Final = "mainstay.dev/mutations"
"""The admission policies that have changed what was sent, likewise."""

# Of Kubernetes:
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Not an annotation but a finalizer: the Job has not counted this pod yet."""


def is_at_most_one(pod: Object) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return bool(annotations.get(AT_MOST_ONE) == "true")
