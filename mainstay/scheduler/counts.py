"""What a scheduler counts, for its metrics: attempts by result, how long they took, how long pods waited."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mainstay.loop.histogram import Histogram
from mainstay.scheduler.policy_figures import FiguresByPolicy

# Upper bounds in seconds, as Kubernetes has them: from a millisecond on, each twice the one before.
ATTEMPT_BOUNDS: Final = tuple(0.001 * 2**power for power in range(15))
WAIT_BOUNDS: Final = tuple(0.01 * 2**power for power in range(20))
ATTEMPTS_SHOWN_MAX: Final = 15


class Result(StrEnum):
    """Of an attempt. Kubernetes' words: only add."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


@dataclass(slots=True)
class SchedulerCounts:
    """Since the scheduler began."""

    attempts: dict[Result, Histogram] = field(
        default_factory=lambda: {result: Histogram(ATTEMPT_BOUNDS) for result in Result}
    )
    deciding: Histogram = field(default_factory=lambda: Histogram(ATTEMPT_BOUNDS))
    """Of one pod, without binding."""
    shadowing: Histogram = field(default_factory=lambda: Histogram(ATTEMPT_BOUNDS))
    """Deciding by a policy that does not apply (shadow.py)."""
    policies: FiguresByPolicy = field(default_factory=FiguresByPolicy)
    waits: dict[int, Histogram] = field(default_factory=dict)
    """From getting in line for the first time to being bound, by the number of attempts."""
    bound: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """Bindings that the server refused, by cause."""
    unknown: int = 0
    """Bindings that got no answer."""
    bugs: int = 0
    rechecked: int = 0
    """Decisions that were made a second time (recheck.py)."""
    disagreements: int = 0
    """Those that came out differently: bugs, too."""

    def waited(self, attempts: int, duration_ns: int, decision: str) -> None:
        shown = min(attempts, ATTEMPTS_SHOWN_MAX)
        histogram = self.waits.get(shown)
        if histogram is None:
            histogram = self.waits[shown] = Histogram(WAIT_BOUNDS)
        histogram.add(duration_ns, decision)
