"""The one way to change what is stored: read, decide, commit on condition; again if the commit was refused.

What an attempt does is its caller's: it reads, decides from what it has read, and commits on condition that this has
not changed. It returns what that led to, or None if another writer was faster. Each attempt in vain means that some
other write has succeeded, so a bound is never reached by standing still. It bounds how long one request can take
where many write the same object.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mainstay.api.errors import StatusError, StatusReason

ATTEMPTS_MAX: Final = 20  # Of one write against others of the same object.

T = TypeVar("T")


async def transact(attempt: Callable[[], Awaitable[T | None]], attempts_max: int = ATTEMPTS_MAX) -> T | None:
    """Make attempts until one of them comes to something. None if none does: too many others write the same."""
    for _ in range(attempts_max):
        done = await attempt()
        if done is not None:
            return done
    return None


def too_many_conflicts(what: str) -> StatusError:
    """Not a conflict: the client has named no version that could be out of date, and may ask again."""
    text = f"too many conflicting updates to {what}; retry later"
    return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, text, retry_after_s=1)
