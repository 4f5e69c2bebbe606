"""Causes of refusals that clients act on: `details.causes[].reason` of a Status. Part of the wire: only add."""

from enum import StrEnum
from typing import Final

FENCED: Final = "Fenced"
"""The term of the leader that wrote is over."""
STORE_RESTORED: Final = "StorePutBack"
"""The resource version is from a past that the store, restored from a backup, does not have."""
VERSION_TOO_LARGE: Final = "ResourceVersionTooLarge"
"""The server has not seen this resource version yet. Kubernetes' word."""
FIELD_MANAGER_CONFLICT: Final = "FieldManagerConflict"
"""Another manager owns the field. Kubernetes' word."""
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
DISRUPTION_BUDGET: Final = "DisruptionBudget"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""A ResourceQuota of the namespace has not enough left (403)."""


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
    """There would be room, but for pods that were removed by force and may still run."""
    STALE = "Stale"
    POD_DELETED = "PodDeleted"
    """It is being deleted, or was created again since."""
    POD_GONE = "PodGone"
    """Only in a scheduler: the server does not find the pod (404)."""
    OTHER = "Other"
    """Only in a scheduler: the server names a cause that is not among these."""
