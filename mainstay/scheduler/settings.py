"""What can be set of a scheduler's cycle."""

from dataclasses import dataclass, field
from datetime import timedelta

from mainstay.api.feature_gates import DEFAULT_GATES, SHADOW_PLACEMENT, FeatureGates
from mainstay.api.retry_shape import RetryShape
from mainstay.scheduler.cache.unconfirmed import UnconfirmedSettings
from mainstay.scheduler.queue.scheduling_queue import BACKOFF, SchedulingQueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSettings:
    batch_max: int = 200
    """How many pods are decided in one step, and bound with one request. A step takes a few milliseconds."""
    requests_max: int = 4
    """How many requests are on their way at once. While all are, pods gather for the next one."""
    candidates_max: int = 5
    """How often a pod whose binding was refused gets another candidate at once."""
    operations: bool = True
    """Give each binding an id, so that a repeat finds the first outcome. A repeated binding is harmless without one
    too: it is refused, because the pod is bound."""
    repeat: RetryShape = BACKOFF
    """When a binding without an answer is sent again."""
    sweep_every: timedelta = timedelta(seconds=30)
    recheck_one_in: int = 10_000
    """One in so many decisions is made a second time, from the caches alone; 0: none."""
    recheck_objects_max: int = 5_000
    """Not if there are more: it takes a moment, in which nothing else is done."""
    check_one_in: int = 100
    """After one in so many steps a node's columns are checked against its pods."""
    unconfirmed: UnconfirmedSettings = field(default_factory=UnconfirmedSettings)
    queue: SchedulingQueueSettings = field(default_factory=SchedulingQueueSettings)
    gates: FeatureGates = DEFAULT_GATES

    @property
    def has_shadows(self) -> bool:
        """Whether decisions are also made by policies in shadow."""
        return SHADOW_PLACEMENT in self.gates
