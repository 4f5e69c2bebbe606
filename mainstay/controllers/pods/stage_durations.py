"""How long pods take from stage to stage (api/stages.py), and whether that is as quick as it should be.

Measured by the component that has all pods in a cache anyway, by its own clock, when it hears that a pod has got
further: to the second in which a condition says it happened would be too coarse. When a node was chosen comes with the
binding, to the microsecond and by the scheduler's clock: what this process has measured is divided there. Only pods
that were seen from their first stage on are counted, so a restart of this process does not look like a slow day. A pod
that goes back a stage is not counted again.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.stages import PodStage, find_scheduled_at, find_stage
from mainstay.client.entry import Change
from mainstay.env import Clock
from mainstay.loop.histogram import Histogram
from mainstay.loop.objectives import Burn, Objective

BOUNDS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
BOUND: Final = Objective("bound", timedelta(seconds=5), 99)
READY: Final = Objective("ready", timedelta(seconds=30), 99)
"""From the beginning, each."""

_ORDER: Final = {stage: number for number, stage in enumerate(PodStage)}
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST: Final = (PodStage.ADMITTED, PodStage.QUEUED)


class _Seen:
    __slots__ = ("began_ns", "since_ns", "stage")

    def __init__(self, stage: PodStage, now_ns: int) -> None:
        self.stage = stage
        self.since_ns = now_ns
        self.began_ns = now_ns


class StageDurations:
    """Subscribe `changed` to an informer of pods."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pods: dict[str, _Seen] = {}
        self.durations = {stage: Histogram(BOUNDS_S) for stage in PodStage}
        """How long pods were in a stage before they got further. Nothing comes after the last one."""
        self.burns = {PodStage.BOUND: Burn(BOUND), PodStage.READY: Burn(READY)}

    def now_ns(self) -> int:
        return self._clock.monotonic_ns()

    def changed(self, change: Change) -> None:
        entry = change.new
        if entry is None:
            if change.old is not None:
                self._pods.pop(change.old.uid, None)
            return
        found = find_stage(entry.object())
        if found is None:
            self._pods.pop(entry.uid, None)
            return
        stage, now_ns = found[0], self._clock.monotonic_ns()
        seen = self._pods.get(entry.uid)
        if seen is None:
            if change.old is None and stage in _FIRST:
                self._pods[entry.uid] = _Seen(stage, now_ns)
            return
        if _ORDER[stage] <= _ORDER[seen.stage]:
            return
        took_ns = now_ns - seen.since_ns
        if stage is PodStage.BOUND and seen.stage in _FIRST:
            binding_ns = self._find_binding_time(entry.object(), took_ns)
            if binding_ns is not None:
                self.durations[PodStage.SCHEDULED].add(binding_ns)
                took_ns -= binding_ns
        self.durations[seen.stage].add(took_ns)
        for aim, burn in self.burns.items():
            if _ORDER[seen.stage] < _ORDER[aim] <= _ORDER[stage]:
                burn.add(now_ns - seen.began_ns, now_ns)
        seen.stage, seen.since_ns = stage, now_ns

    def _find_binding_time(self, pod: Object, at_most_ns: int) -> int | None:
        """From when its node was chosen until now. None: its scheduler did not say."""
        chosen_at = find_scheduled_at(pod)
        if chosen_at is None:
            return None
        since_ns = (self._clock.wall() - chosen_at) // _MICROSECOND * 1000
        return min(max(since_ns, 0), at_most_ns)  # Two clocks may differ.
