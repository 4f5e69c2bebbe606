"""Service level objectives, and how fast their budgets burn.

An objective says what share of things should be done within a time: 99 % of pods are bound within 5 seconds. One in a
hundred may take longer: that is the budget. The burn is the share that took longer, within a window, measured in
budgets: at 1 the budget lasts exactly as long as it should, at 14 it is gone fourteen times as fast. Alerts look at a
short window and a long one together.
"""

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

WINDOWS: Final = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}
_STEP_NS: Final = 10_000_000_000
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Objective:
    name: str
    within: timedelta
    percent: int
    """How many of a hundred should be."""


@dataclass(slots=True)
class _Step:
    """What was done within ten seconds."""

    began_ns: int
    all: int = 0
    late: int = 0


class Burn:
    """Of one objective. Bounded: an hour is kept, in steps of ten seconds."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._within_ns = objective.within // _MICROSECOND * 1000
        self._steps: deque[_Step] = deque()

    def add(self, duration_ns: int, now_ns: int) -> None:
        if not self._steps or now_ns - self._steps[-1].began_ns >= _STEP_NS:
            self._steps.append(_Step(now_ns))
            self._forget(now_ns)
        step = self._steps[-1]
        step.all += 1
        step.late += duration_ns > self._within_ns

    def rate(self, window: timedelta, now_ns: int) -> float:
        """In budgets; 0 if nothing was done."""
        since_ns = now_ns - window // _MICROSECOND * 1000
        steps = [step for step in self._steps if step.began_ns >= since_ns]
        total = sum(step.all for step in steps)
        if not total:
            return 0.0
        return sum(step.late for step in steps) / total / (1 - self.objective.percent / 100)

    def _forget(self, now_ns: int) -> None:
        longest_ns = max(WINDOWS.values()) // _MICROSECOND * 1000
        while now_ns - self._steps[0].began_ns > longest_ns:
            self._steps.popleft()
