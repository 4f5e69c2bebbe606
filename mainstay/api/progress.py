"""How far a workload has come: `status.progress` of a Deployment, ReplicaSet or Job, as values.

Written by controllers/progress/controller.py, and read by people, the
autoscaler, a rollout. `read_progress(workload)` is how to read it.

`admitted`, `bound`, `ready` and `serving` say how many replicas have got at least so far; `pending` and `starting` how
many are held up there: pending + bound = admitted, starting + ready = bound. `serving` counts only pods that a Service
leads to, so that it is 0 for a workload without one. What limits a workload is the *boundary* that most of its missing
replicas stand before: `limitedBy.stage` is the stage that they do not reach, `component` who would have to let them.
"""

from enum import StrEnum
from typing import Final

import msgspec

from mainstay.api.kind import Object

FIELD: Final = "progress"


class ProgressVerdict(StrEnum):
    """What to make of it. Shown to users: only add."""

    COMPLETE = "complete"
    """There is nothing left to do."""
    PROGRESSING = "progressing"
    WAITING = "waiting"
    """For something that may resolve by itself, or that is held back on purpose: room, a quota, a pause."""
    STUCK = "stuck"
    """Nothing that the cluster does by itself will help: a user has to change something."""
    FAILED = "failed"
    """It stopped retrying, or its deadline has passed."""


class DeadlineState(StrEnum):
    NONE = "none"
    RUNNING = "running"
    PASSED = "passed"


class ActionOutcome(StrEnum):
    """What came of an action."""

    REQUESTED = "requested"
    """It was asked for, and is under way."""
    COMPLETED = "completed"
    REFUSED = "refused"


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class PendingReason(_Part, frozen=True):
    reason: str
    count: int
    message: str = ""


class ProgressLimit(_Part, frozen=True):
    stage: str
    """What they do not reach, a `stages.PodStage`."""
    component: str
    reason: str
    count: int
    """How many replicas stand there."""
    message: str = ""
    cause: str = ""
    """Another word for programs, where the reason leaves open which of several it is: `SkewTooLarge`."""

    @property
    def words(self) -> str:
        noun = "replica waits" if self.count == 1 else "replicas wait"
        cause = f" ({self.cause})" if self.cause and self.cause != self.reason else ""
        message = f": {self.message}" if self.message else ""
        return f"{self.count} {noun} to be {self.stage} by {self.component}, {self.reason}{cause}{message}"


class ProgressAction(_Part, frozen=True):
    action: str
    outcome: ActionOutcome
    object: str = ""
    """Its name, if it has one: what could not be made has none. The server leaves out what is empty."""
    at: str = ""


class Error(_Part, frozen=True):
    reason: str
    message: str = ""
    at: str = ""
    """When it was first seen."""


class Deadline(_Part, frozen=True):
    state: DeadlineState
    at: str = ""


class Progress(_Part, frozen=True, kw_only=True):
    """See the module's words. Times are as the API writes them."""

    observed_generation: int
    desired: int
    admitted: int
    pending: int
    bound: int
    starting: int
    ready: int
    serving: int
    succeeded: int | None = None
    """Of work that ends: how many pods have. None for what is to go on."""
    pending_reasons: tuple[PendingReason, ...] = ()
    last_action: ProgressAction | None = None
    last_error: Error | None = None
    deadline: Deadline
    limited_by: ProgressLimit | None = None
    verdict: ProgressVerdict

    def as_object(self) -> Object:
        found: Object = msgspec.to_builtins(self)
        return found


def read_progress(workload: Object) -> Progress | None:
    """What is said of a workload; None if nothing is, or nothing that can be understood."""
    said = (workload.get("status") or {}).get(FIELD)
    if not said:
        return None
    try:
        return msgspec.convert(said, Progress)
    except msgspec.ValidationError:
        return None
