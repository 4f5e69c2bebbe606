"""Whether to send a request again, and when. A plain function of the failure, what was tried so far, the time left.

    what happened                                   sent again
    ─────────────────────────────────────────────   ─────────────────────────────────────────────────
    no connection, nothing was sent                 whatever it is; at once if there is another server
    no answer, or 5xx that does not say more        only what is safe to repeat
    429, or 503, with Retry-After                   whatever it is, then: it was refused, not begun
    429 without                                     no: it is about this request (an eviction, for example)
    any other answer                                no

A wait that is longer than the time that is left is not begun.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

from mainstay.api.retry_shape import RetryShape


class RequestFailure(Enum):
    NOT_SENT = auto()
    NO_ANSWER = auto()
    UNABLE = auto()
    """5xx."""
    REFUSED = auto()
    """The server did not begin with it."""
    FINAL = auto()
    """Asking again gives the same answer."""


@dataclass(frozen=True, slots=True)
class RequestAttempt:
    number: int
    """1 for the first."""
    failure: RequestFailure
    retry_after: timedelta | None
    """What the server asks for."""
    is_safe: bool
    """Whether sending it twice can do no harm."""
    servers: int
    """How many there are to ask."""
    left: timedelta
    jitter: float
    """From 0 up to 1, drawn for this attempt."""


def wait_before_repeat(attempt: RequestAttempt, shape: RetryShape) -> timedelta | None:
    """How long to wait and then send it again. None: give up."""
    if attempt.number >= shape.attempts_max or not _may_repeat(attempt):
        return None
    wait = _wait(attempt, shape)
    return wait if wait < attempt.left else None


def _may_repeat(attempt: RequestAttempt) -> bool:
    match attempt.failure:
        case RequestFailure.NOT_SENT:
            return True
        case RequestFailure.NO_ANSWER | RequestFailure.UNABLE:
            return attempt.is_safe
        case RequestFailure.REFUSED:
            return attempt.retry_after is not None
        case RequestFailure.FINAL:
            return False


def _wait(attempt: RequestAttempt, shape: RetryShape) -> timedelta:
    if attempt.failure is RequestFailure.NOT_SENT and attempt.number < attempt.servers:
        return timedelta(0)
    delay = shape.delay(attempt.number, attempt.jitter)
    # Never sooner than was asked for; and not all at once who were told the same.
    return delay if attempt.retry_after is None else attempt.retry_after + delay
