"""A retry as the rest of the system sees it: what is tried again, why, how often so far, and when next.

`RetryShape` (api/retry_shape.py) has the bounds. Here is the state of one retried action, as a frozen value that fits
into a decision's memory, and the reasons that users read in conditions. Together they are what makes a retry safer than
the failure it answers:

- *stable identity*: `operation_id` names the action by what it is for, so a repeat is known as the same action, by a
  restarted controller as well as by the server (header `Mainstay-Operation`);
- *bounded, backed off, with a deadline*: `failed` gives the next state, or says that it is over;
- *a fresh look first*: each attempt begins with a new view and a new decision, never with the old request. When
  `may_have_happened` is set, the look has to find out whether it is done already;
- *a reason*: a word from `Reason`, and whether it counts against the action itself.

Nothing here waits or draws random numbers; the work queue does the waiting for keys (queue/core.py), a decision's
`wake_at` for actions.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from mainstay.api.retry_shape import RetryShape

ERROR_LENGTH_MAX: Final = 256  # Of the text of an error in a state, which goes into statuses and records.
_ACTION: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Reason(StrEnum):
    """What a retry waits for. Shown to users: only add."""

    CONFLICT = "Conflict"
    """Somebody else has written first. Read again and decide again."""
    CAPACITY_CHANGED = "CapacityChanged"
    """The room that was seen is taken."""
    WAITING_ON_QUOTA = "WaitingOnQuota"
    WAITING_ON_NODE_HEALTH = "WaitingOnNodeHealth"
    WAITING_ON_IMAGE_PULL = "WaitingOnImagePull"
    WAITING_ON_DEPENDENCY = "WaitingOnDependency"
    """An object that it needs is not there, or not ready yet."""
    WAITING_ON_DELETION = "WaitingOnDeletion"
    """Something has to be gone first: finalizers, a drain."""
    THROTTLED = "Throttled"
    """The server has asked for patience."""
    UNAVAILABLE = "Unavailable"
    """No answer: it may or may not have happened."""
    STALE_VIEW = "StaleView"
    """The caches have not caught up with what was written."""
    NOT_LEADER = "NotLeader"
    """Another process leads now; this one's writes are refused."""
    REFUSED = "Refused"
    """The server says that the request is wrong. A repeat helps only if what it depends on changes."""
    INTERNAL_ERROR = "InternalError"
    """A bug of ours. The error has the rest."""


@dataclass(frozen=True, slots=True)
class ReasonFacts:
    counts: bool
    """Whether a failure with this reason uses up an attempt. What is not the fault of the action does not: an outage
    would otherwise end in everything being given up."""
    may_have_happened: bool
    """The attempt may have had its effect."""
    text: str
    """For users, after "waiting: "."""


REASONS: Final = {
    Reason.CONFLICT: ReasonFacts(True, False, "somebody else changed the object first"),
    Reason.CAPACITY_CHANGED: ReasonFacts(True, False, "the room was taken by another pod"),
    Reason.WAITING_ON_QUOTA: ReasonFacts(False, False, "the tenant's quota is used up"),
    Reason.WAITING_ON_NODE_HEALTH: ReasonFacts(False, False, "the node's health is in doubt"),
    Reason.WAITING_ON_IMAGE_PULL: ReasonFacts(True, False, "the image is not there yet"),
    Reason.WAITING_ON_DEPENDENCY: ReasonFacts(True, False, "something it needs is not ready"),
    Reason.WAITING_ON_DELETION: ReasonFacts(False, False, "something else has to be gone first"),
    Reason.THROTTLED: ReasonFacts(False, False, "the API server asks for patience"),
    Reason.UNAVAILABLE: ReasonFacts(False, True, "the API server does not answer"),
    Reason.STALE_VIEW: ReasonFacts(False, False, "the caches have not caught up yet"),
    Reason.NOT_LEADER: ReasonFacts(False, False, "another process leads"),
    Reason.REFUSED: ReasonFacts(True, False, "the API server refuses the request"),
    Reason.INTERNAL_ERROR: ReasonFacts(True, True, "an error in the controller"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryState:
    """An action that has failed and will be tried again at `next_at`."""

    operation: str
    """The same for all attempts; see `operation_id`."""
    attempt: int
    """The number of the next attempt: 2 after the first failure. Attempts that do not count are not numbered."""
    failures: int
    """All failures in a row, counted or not; what the delay grows with."""
    reason: Reason
    error: str
    """What the last failure said, cut to a length."""
    failed_first_at: datetime
    next_at: datetime
    may_have_happened: bool
    """Some attempt so far may have had its effect, or may still have it, and nobody has looked since."""

    @property
    def message(self) -> str:
        """For a condition."""
        return f"waiting: {REASONS[self.reason].text} (attempt {self.attempt}, next at {self.next_at:%H:%M:%S} UTC)"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """No further attempt: the action's status should say so, with this reason."""

    operation: str
    attempts: int
    reason: Reason
    error: str
    failed_first_at: datetime
    is_past_deadline: bool
    may_have_happened: bool
    """Whoever cleans up must look for its effect."""


def failed(
    shape: RetryShape,
    state: RetryState | None,
    *,
    operation: str,
    reason: Reason,
    error: str,
    now: datetime,
    jitter: float,
    at_least: timedelta = timedelta(),
) -> RetryState | GivenUp:
    """What follows from one more failure. `state` is None after the first one, or belongs to another operation.

    `now` is the view's; `jitter` a random number in [0, 1); `at_least` what a server has asked to wait. Whoever has
    another intent has another operation, and begins anew.
    """
    facts = REASONS[reason]
    if state is None or state.operation != operation:
        attempt, failures, first, may_have_happened = 1, 0, now, False
    else:
        attempt, failures = state.attempt, state.failures
        first, may_have_happened = state.failed_first_at, state.may_have_happened
    failures += 1
    error = error[:ERROR_LENGTH_MAX]
    may_have_happened = may_have_happened or facts.may_have_happened
    delay = max(shape.delay(failures, jitter), at_least)
    # Wall time can jump back; then no time has passed, rather than less than none.
    is_past_deadline = shape.deadline is not None and max(now - first, timedelta()) + delay > shape.deadline
    if is_past_deadline or (facts.counts and attempt >= shape.attempts_max):
        return GivenUp(
            operation=operation,
            attempts=attempt,
            reason=reason,
            error=error,
            failed_first_at=first,
            is_past_deadline=is_past_deadline,
            may_have_happened=may_have_happened,
        )
    return RetryState(
        operation=operation,
        attempt=attempt + facts.counts,
        failures=failures,
        reason=reason,
        error=error,
        failed_first_at=first,
        next_at=now + delay,
        may_have_happened=may_have_happened,
    )


def looked(state: RetryState) -> RetryState:
    """The effect was looked for, and is not there. It must be one that no attempt can still have: they carried an
    operation id that is now taken, or a condition that no longer holds."""
    return replace(state, may_have_happened=False)


def operation_id(action: str, *intent: str) -> str:
    """The stable identity of an action: the same action with the same intent has the same id, in any process.

    The intent is all that makes it *this* action: the owner's uid, its generation, the slot, what is replaced. Not the
    attempt, the time, or who tries. Two different bodies must not share an id: the server refuses the second one.
    """
    if _ACTION.fullmatch(action) is None:
        raise ValueError(f"an action is a short word, not {action!r}")
    digest = hashlib.sha256()
    for part in intent:
        encoded = part.encode()
        # The length goes in too, so that ("ab", "c") and ("a", "bc") differ.
        digest.update(len(encoded).to_bytes(4))
        digest.update(encoded)
    return f"{action}:{digest.hexdigest()[:32]}"
