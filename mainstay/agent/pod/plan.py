"""What is to be done about a pod, as lifecycle.py decides it and worker.py does it.

The status is written first, if it differs from what is stored; then come the steps, in order. All steps are safe to
repeat: as long as the facts are the same, the next plan says the same again.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mainstay.agent.runner import ContainerId
from mainstay.api.kind import Object


class EndReason(StrEnum):
    """Why a container is terminated. Shown to users, in Events: only add."""

    POD_DELETED = "PodDeleted"
    POD_OVER = "PodOver"
    """It failed, was rejected, or completed."""
    DEADLINE = "DeadlineExceeded"
    LIVENESS = "LivenessProbeFailed"
    STARTUP = "StartupProbeFailed"
    POST_START = "FailedPostStartHook"
    CHANGED = "ContainerChanged"
    NOT_WANTED = "NotWanted"
    """The spec has no such container, or a later attempt of it exists."""


@dataclass(frozen=True, slots=True)
class MakeVolumes:
    """Make its volumes. Nothing starts before they are there (`PodFacts.is_placed`)."""


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Begin an attempt of a container."""

    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run the postStart hook of a container that runs. Its outcome goes into `PodFacts.hooks`."""

    id: ContainerId
    hook: Object


@dataclass(frozen=True, slots=True)
class End:
    """Ask a container to end. Said again with each plan until it has: the hook is run once, and of two graces the
    shorter one counts."""

    id: ContainerId
    grace: timedelta
    """From now, and all there is: what the hook takes is no longer there for the container itself."""
    hook: Object | None
    """preStop: to be run first."""
    why: EndReason


@dataclass(frozen=True, slots=True)
class Prune:
    """Forget the oldest ended attempts of a container, but for the last `keep`."""

    name: str
    keep: int


@dataclass(frozen=True, slots=True)
class RemovePod:
    """Nothing of it runs, and its last status is stored: delete the pod without grace, if it has still this uid."""


Step = MakeVolumes | StartContainer | RunHook | End | Prune | RemovePod


@dataclass(frozen=True, slots=True)
class PodPlan:
    steps: tuple[Step, ...]
    status: Object
    """The whole status the pod should have. Equal to what is stored if nothing has changed."""
    wake_at: datetime | None = None
    """When to decide again although nothing has changed."""
