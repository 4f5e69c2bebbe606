"""How often something is tried again, how soon, and when it is over.

A retry without a shape multiplies load exactly when there is already too much. The shape says: at most so many
attempts; after each failure a delay that grows by a factor up to a limit, shortened by chance so that those who failed
together do not come back together; and a deadline, after which the intent is no longer worth it. It is a plain value
and draws no random numbers itself: the caller passes them in.

It does not make a retry safe. That takes a stable identity of the intent and a fresh read before it is repeated:
`loop/retry.py` says how loops have both.
"""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

NO_BOUND: Final = 1_000_000_000
"""As `attempts_max`: what has to go on for as long as its reason is there, because to give up would be to guess. The
delay bounds its cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryShape:
    """The bounds of one kind of retry."""

    attempts_max: int
    """How many attempts there are in all, the first one included."""
    first_delay: timedelta
    """The longest wait after the first failure."""
    delay_max: timedelta
    """Delays stop growing here."""
    factor: float = 2.0
    """How much longer each delay is than the one before."""
    jitter: float = 0.5
    """The share of a delay that is left to chance: with 0.5 each wait is between half of its delay and all of it."""
    deadline: timedelta | None = None
    """The last attempt begins at the latest this long after the first one failed. None: only the number of attempts
    counts."""

    def __post_init__(self) -> None:
        if self.attempts_max < 1:
            raise ValueError(f"attempts_max must be at least 1, not {self.attempts_max}")
        if not timedelta() < self.first_delay <= self.delay_max:
            raise ValueError(f"delays must be positive and grow, not from {self.first_delay} to {self.delay_max}")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise ValueError(f"factor must be at least 1, not {self.factor}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be between 0 and 1, not {self.jitter}")
        if self.deadline is not None and self.deadline < timedelta():
            raise ValueError(f"deadline must be positive, not {self.deadline}")

    def delay(self, attempt: int, jitter: float) -> timedelta:
        """The wait after the failure of this attempt, the first one being 1. `jitter` is a random number in [0, 1)."""
        return self._longest(attempt) * (1 - self.jitter * jitter)

    def delay_before_deadline(self, attempt: int, elapsed: timedelta, jitter: float) -> timedelta:
        """As `delay`, but at most up to the deadline, if that is still to come: the last attempt comes then."""
        delay = self.delay(attempt, jitter)
        if self.deadline is None or elapsed >= self.deadline:
            return delay
        return min(delay, self.deadline - elapsed)

    def _longest(self, attempt: int) -> timedelta:
        if attempt < 1:
            raise ValueError(f"attempt must be at least 1, not {attempt}")
        if self.factor == 1:
            return self.first_delay
        # Without the limit on the exponent, a key that fails for long enough would overflow the power.
        steps_max = math.ceil(math.log(self.delay_max / self.first_delay, self.factor))
        return min(self.first_delay * self.factor ** min(attempt - 1, steps_max), self.delay_max)
