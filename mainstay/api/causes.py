"""Causes of refusals that programs act on: `details.causes[].reason` of a Status. Part of the wire: only add.

Whatever refuses a write names its cause here; only authorization does not, as in Kubernetes. `find_cause` is the one
word for a refusal: clients record it, conditions say it (`cause`), and `why` reads it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

FENCED: Final = "Fenced"
"""The term of the leader that wrote is over."""
STORE_RESTORED: Final = "StorePutBack"
"""The resource version is from a past that the store, restored from a backup, does not have."""
VERSION_TOO_LARGE: Final = "ResourceVersionTooLarge"
"""The server has not seen this resource version yet. Kubernetes' word."""
FIELD_MANAGER_CONFLICT: Final = "FieldManagerConflict"
"""Another manager owns the field. Kubernetes' word."""
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""Nothing can be created in a namespace that is being deleted."""
NAMESPACE_NOT_FOUND: Final = "NamespaceNotFound"
"""Not on the wire: what `find_cause` makes of a 404 about the namespace of what was to be made."""
PRIORITY_CLASS_NOT_FOUND: Final = "PriorityClassNotFound"
"""A pod names a PriorityClass that does not exist."""
SERVICE_ACCOUNT_NOT_FOUND: Final = "ServiceAccountNotFound"
"""A pod names a service account that does not exist (403)."""
POD_SECURITY_VIOLATED: Final = "PodSecurityViolated"
"""A pod does what the level of its namespace does not allow (403)."""
ADMISSION_POLICY_VIOLATED: Final = "AdmissionPolicyViolated"
"""An admission policy denies the write (403, 422, …). The message names it."""
DISRUPTION_BUDGET: Final = "DisruptionBudget"
"""A PodDisruptionBudget does not allow the eviction. Kubernetes' word."""
QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""A ResourceQuota of the namespace has not enough left (403)."""
QUOTA_AMOUNT_MISSING: Final = "QuotaAmountMissing"
"""A ResourceQuota counts what a container does not say how much it takes of (403)."""
QUOTA_REQUESTED: Final = "QuotaRequested"
"""Goes with `QuotaExceeded`: how much of one resource was requested. See quota_refusal.py."""
QUOTA_CAUSES: Final = frozenset({QUOTA_EXCEEDED, QUOTA_AMOUNT_MISSING})


class BindingCause(StrEnum):
    """Why a binding was refused (409)."""

    CAPACITY_CHANGED = "CapacityChanged"
    ALREADY_BOUND = "AlreadyBound"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NODE_GONE = "NodeGone"
    NODE_NOT_ACCEPTING = "NodeNotAccepting"
    PORT_TAKEN = "PortTaken"
    RESERVATION_HELD = "ReservationHeld"
    HELD_BY_GHOSTS = "HeldByGhosts"
    """Force-deleted pods that may still run hold the resources."""
    STALE = "Stale"
    POD_DELETED = "PodDeleted"
    """It is being deleted, or was created again since."""
    POD_GONE = "PodGone"
    """Only in a scheduler: the server does not find the pod (404)."""
    OTHER = "Other"
    """Only in a scheduler: the server names a cause that is not among these."""


def find_cause(status: int, reason: str, details: Mapping[str, Any] | None) -> str:
    """The code of a refusal: its first cause, or where it has none the reason of its Status.

    What is invalid has a cause for each field, none of which says more about the whole than `Invalid`; unless an
    admission policy says so.
    """
    said = details or {}
    causes = said.get("causes")
    if isinstance(causes, list) and causes and isinstance(causes[0], dict):
        code = str(causes[0].get("reason") or "")
        if code and (status != 422 or code == ADMISSION_POLICY_VIOLATED):
            return code
    if status == 404 and said.get("kind") == "namespaces":
        return NAMESPACE_NOT_FOUND
    return reason or str(status)
