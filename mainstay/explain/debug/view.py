"""The debug view of a workload, as values: what the six signals say of it, joined by workload and generation. (SPEC O5)

Each part answers one question of a user whose replicas do not come: is it the generation that I think, was the
rollback heard of, what was the last reason, on which picture, who else turns the same knobs, is repair done, is
something held, which signals of failure there are. `cause` and `next` say what follows from all of it; they are made by
conclusion.py.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from mainstay.explain.answer_part import AnswerPart
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.why.answer import API_VERSION
from mainstay.explain.writers import Who


class DebugFinding(StrEnum):
    """What the view comes to. Shown to users: only add."""

    COMPLETE = "Complete"
    HELD = "Held"
    STALE_CACHE = "StaleCache"
    """A decision was made without a change that would have turned it."""
    SEEN_SINCE = "SeenSince"
    """It has been seen by now, and the next decision is still to come."""
    ROLLBACK_NOT_SEEN = "RollbackNotSeen"
    REPAIR_NOT_DONE = "RepairNotDone"
    REFUSED = "Refused"
    """By the scheduler, on a picture that is true."""
    CONTROLLER_BEHIND = "ControllerBehind"
    STARTING = "Starting"
    """The replicas have nodes, and are not ready."""
    NOT_MADE = "NotMade"
    """The replicas that are missing were never made."""
    UNKNOWN = "Unknown"
    ROOT_CAUSE = "RootCause"
    """What `why` says: nothing in the joined view knows better."""


class ReplicaCounts(AnswerPart, frozen=True, kw_only=True):
    desired: int
    ready: int
    pending: int
    starting: int = 0


class ObservedRevision(AnswerPart, frozen=True, kw_only=True):
    """Which revision of something a component goes by."""

    component: str
    revision: int
    is_observed: bool
    source: str
    """Where that is known from: a decision's id, or `ComponentState`."""


class Rollback(AnswerPart, frozen=True, kw_only=True):
    """What was last changed of a policy or of the workload's template, and who has heard of it."""

    about: StoryObject
    version: str = ""
    revision: int
    at: datetime
    who: Who
    is_rollback: bool
    """It was so before."""
    observed: tuple[ObservedRevision, ...] = ()

    @property
    def is_observed(self) -> bool:
        return bool(self.observed) and all(each.is_observed for each in self.observed)


class Pending(AnswerPart, frozen=True, kw_only=True):
    """A replica that has no node, or is not ready."""

    pod: str
    uid: str = ""
    since: datetime | None = None
    reason: str
    """Of the last decision: `quota/risk-zone-c`, `SkewTooLarge`; of its container, if it has a node."""
    words: tuple[str, ...] = ()
    node: str = ""
    decision: str = ""
    component: str = ""
    at: datetime | None = None
    attempts: int = 0
    would_go_to: str = ""
    """With all that the decision had not seen; empty: nowhere, or that is not known."""


class CacheSeen(AnswerPart, frozen=True, kw_only=True):
    """How far a component had come with a kind when it last decided, and how far it says it is now."""

    component: str
    kind: str
    seen: int
    """By its last decision."""
    says: int = 0
    """By its ComponentState; 0: it says nothing."""
    latest: int
    """The last change of that kind."""
    behind_ms: int = 0
    """For how long the oldest change that the decision has not seen has been there."""
    objects: tuple[str, ...] = ()
    """What has changed since."""
    is_decisive: bool = False
    """With it, the last decision would have been another one."""

    @property
    def is_behind(self) -> bool:
        return self.latest > self.seen


class Writer(AnswerPart, frozen=True, kw_only=True):
    """A writer of the desired state of the workload, and its last write."""

    who: Who
    text: str
    at: datetime
    revision: int
    writes: int = 1


class RepairView(AnswerPart, frozen=True, kw_only=True):
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    """Of this workload, as repair last looked at it; 0: it says nothing of it."""
    is_current: bool = False
    """It is about the generation that is wanted now."""


class AutoscalerView(AnswerPart, frozen=True, kw_only=True):
    """What an autoscaler wants of the workload, and why."""

    name: str
    current: int
    desired: int
    reason: str
    """Of the condition that says most: `LimitedByQuota`, `ValidMetricFound`, `FailedGetResourceMetric`."""
    message: str = ""


class EvidenceView(AnswerPart, frozen=True, kw_only=True):
    """A signal behind what is done, or not done, and what the table of evidence makes of it."""

    signal: str
    strength: str
    about: str
    """`controller replicaset`, `node b7`."""
    since: datetime | None = None
    detail: str = ""
    allows: tuple[str, ...] = ()
    never: str = ""
    """What it must not lead to, and why."""


class ConditionView(AnswerPart, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    is_current: bool = True


class HoldView(AnswerPart, frozen=True, kw_only=True):
    name: str
    what: str
    words: str


class DebugView(AnswerPart, frozen=True, kw_only=True):
    about: StoryObject
    uid: str = ""
    generation: int = 0
    observed_generation: int = 0
    revision: int = 0
    at: datetime
    verdict: str = ""
    """Of the workload's own record of progress."""
    limited_by: str = ""
    counts: ReplicaCounts
    finding: DebugFinding
    cause: str
    next: str
    root_cause: str = ""
    """The code of what `why` says (`explain.why.causes.Cause`)."""
    why_verdict: str = ""
    """And what to make of that (`explain.why.answer.Verdict`)."""
    rollbacks: tuple[Rollback, ...] = ()
    pending: tuple[Pending, ...] = ()
    caches: tuple[CacheSeen, ...] = ()
    writers: tuple[Writer, ...] = ()
    repair: RepairView | None = None
    autoscalers: tuple[AutoscalerView, ...] = ()
    evidence: tuple[EvidenceView, ...] = ()
    conditions: tuple[ConditionView, ...] = ()
    holds: tuple[HoldView, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_observed(self) -> bool:
        """Whether the controller has seen what is wanted now."""
        return self.observed_generation >= self.generation

    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Debug", **found}
