"""Whether and when a container that has ended is started again.

The first time at once; then after 10 s, 20 s, 40 s and so on up to 5 min, counted from its end; and at once again after
it has run for more than 10 min. These are the kubelet's rules (its `CrashLoopBackOff`).

The kubelet counts in memory. Here the delay before the last start is read off the last two attempts, so that an agent
that was started again goes on where the last one was: the pause between them was at least that delay, and the number of
the attempt says how long it can have been at most. A pause that was longer for another reason can make a container wait
longer than the kubelet would, never longer than 5 min.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mainstay.agent.pod.attempts import Container
from mainstay.agent.pod.facts import PodFacts, ProbeVerdicts
from mainstay.agent.runner import Exited, Running

DELAY_FIRST: Final = timedelta(seconds=10)
DELAY_MAX: Final = timedelta(minutes=5)
RESET_AFTER: Final = timedelta(minutes=10)
DELAYS: Final[tuple[timedelta, ...]] = tuple(min(DELAY_FIRST * (1 << number), DELAY_MAX) for number in range(6))
"""Before the second restart, the third, and so on."""
KEEP: Final = 2
"""How many ended attempts are kept: the last one, and one before it for `kubectl logs --previous`."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """It is started again, though not before a moment."""

    delay: timedelta
    since: datetime
    """When it has ended."""

    @property
    def until(self) -> datetime:
        return self.since + self.delay

    def is_over(self, now: datetime) -> bool:
        """Also if the clock was set back since it ended: how long ago that was is unknown, and it must not wait until
        the clock has come so far again."""
        return not self.since <= now < self.until


def restarts(container: Container, verdicts: ProbeVerdicts | None = None) -> bool:
    """Whether a container that has ended is to be started again."""
    exited = container.exited
    if exited is None:
        return False
    match container.policy:
        case "Never":
            return False
        case "OnFailure":
            # Who was ended because a probe failed has not done its work, even if it says that all went well.
            return exited.code != 0 or (verdicts is not None and verdicts.failed is not None)
    return True


def latest_verdicts(container: Container, facts: PodFacts) -> ProbeVerdicts | None:
    return facts.probes.get(container.latest.id) if container.latest is not None else None


def backoff(container: Container) -> Backoff | None:
    """How long a container that has ended has to wait before it is started again. None: not at all."""
    exited = container.exited
    if exited is None or exited.finished_at - exited.started_at > RESET_AFTER:
        return None
    number = container.attempts[-1].id.attempt
    if number == 0:
        return None
    longest = DELAYS[min(number, len(DELAYS)) - 1]
    delay = min(longest, _after(_pause(container)))
    return Backoff(delay, exited.finished_at)


def _pause(container: Container) -> timedelta:
    """Between the last two attempts. If the one before is not known any more: as long as can be."""
    if len(container.attempts) < 2:
        return DELAY_MAX
    before, last = container.attempts[-2].state, container.attempts[-1].state
    if not isinstance(before, Exited) or not isinstance(last, Exited | Running):
        return DELAY_MAX
    return last.started_at - before.finished_at


def _after(pause: timedelta) -> timedelta:
    """What comes after the longest delay that fits into a pause."""
    fitting = sum(1 for delay in DELAYS if delay <= pause)
    return DELAYS[min(fitting, len(DELAYS) - 1)]


def in_words(delay: timedelta) -> str:
    """As Go writes it: `10s`, `1m20s`, `5m0s`."""
    minutes, seconds = divmod(int(delay.total_seconds()), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
