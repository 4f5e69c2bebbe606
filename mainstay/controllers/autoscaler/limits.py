"""What keeps a target from getting the replicas that it has asked for already, from its progress record.

While replicas are missing because of placement, quota, policy or a control plane that lags, more of them would not run
either: they would wait behind the others, and when the cause goes, start all at once. So the autoscaler does not raise
the number then. What starts, crashes or is not routed to yet is no such limit: the metrics of pods that are not ready
are discounted anyway (proposals.py).

A target of a kind without a record limits nothing. One of a kind that has records, and has none for the generation that
is wanted now, lags: raising it again before its controllers have seen the last raise is the amplification meant.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mainstay.api.causes import QUOTA_CAUSES
from mainstay.api.progress import ProgressLimit, read_progress
from mainstay.api.stages import PodStage
from mainstay.controllers.autoscaler.observation import ScaleTarget

ZONE_QUOTA_EXCEEDED: Final = "ZoneQuotaExceeded"
"""The scheduler's word (scheduler/reasons.py)."""
_QUOTAS: Final = frozenset({*QUOTA_CAUSES, ZONE_QUOTA_EXCEEDED})
_UNDER_WAY: Final = frozenset({"Creating", "Queued", "NotTakenOn"})
"""Reasons of holdups before which only a component stands that has not acted yet."""
_BY_DESIGN: Final = "RollingOut"
"""The rollout takes its steps, each of which waits for pods that start."""
_FAILING: Final = "BackingOff"


class ScaleLimit(StrEnum):
    """Reasons of the condition ScalingLimited that are ours. Shown to users: only add."""

    PLACEMENT = "LimitedByPlacement"
    """The scheduler finds no node for replicas that were asked for already."""
    QUOTA = "LimitedByQuota"
    """A ResourceQuota or a ZoneQuota refuses them."""
    POLICY = "LimitedByPolicy"
    """Admission refuses the pods, or they are held or gated on purpose."""
    FAILURES = "LimitedByFailures"
    """Its pods keep failing, and are replaced less and less often."""
    LAG = "ControlPlaneLag"
    """A controller, the scheduler or an agent has not acted on what was asked for already."""


@dataclass(frozen=True, slots=True)
class FoundLimit:
    reason: ScaleLimit
    message: str
    """What stands in the way, without what follows from it."""


def find_scale_limit(
    target: ScaleTarget, quota_revision: int = 0, seen_quotas: Mapping[str, int] | None = None
) -> FoundLimit | None:
    """Why more replicas would not run; None: nothing that is known keeps them. `quota_revision` is that of the last
    change of a ZoneQuota, `seen_quotas` how far the caches of those are that place pods."""
    if not target.has_record:
        return None
    if target.observed_generation < target.generation:
        text = f"its controller has observed generation {target.observed_generation} of {target.generation}"
        return FoundLimit(ScaleLimit.LAG, text)
    progress = read_progress({"status": {"progress": target.progress}})
    if progress is None:
        return FoundLimit(ScaleLimit.LAG, "its progress is not recorded yet")
    if progress.observed_generation < target.generation:
        text = f"its progress is recorded for generation {progress.observed_generation} of {target.generation}"
        return FoundLimit(ScaleLimit.LAG, text)
    limit = progress.limited_by
    if limit is None or progress.ready >= progress.desired:
        return None
    reason = _classify(limit)
    if reason is None:
        return None
    if limit.cause == ZONE_QUOTA_EXCEEDED and (late := _find_late(quota_revision, seen_quotas or {})):
        return FoundLimit(ScaleLimit.LAG, late)
    return FoundLimit(reason, limit.words)


def _classify(limit: ProgressLimit) -> ScaleLimit | None:
    if limit.reason in _UNDER_WAY:
        return ScaleLimit.LAG
    match limit.stage:
        case PodStage.ADMITTED:
            if limit.reason in _QUOTAS:
                return ScaleLimit.QUOTA
            if limit.reason == _FAILING:
                return ScaleLimit.FAILURES
            return None if limit.reason == _BY_DESIGN else ScaleLimit.POLICY
        case PodStage.QUEUED:
            return ScaleLimit.POLICY
        case PodStage.SCHEDULED | PodStage.BOUND:
            return ScaleLimit.QUOTA if limit.cause in _QUOTAS else ScaleLimit.PLACEMENT
        case _:
            return None


def _find_late(quota_revision: int, seen_quotas: Mapping[str, int]) -> str:
    """That the refusal may be of a quota that has changed since, unseen; empty if a scheduler has seen the change."""
    late = [(name, seen) for name, seen in sorted(seen_quotas.items()) if seen < quota_revision]
    if not late or len(late) < len(seen_quotas):
        return ""  # Of several that place pods, one that is up to date is enough.
    name, seen = late[0]
    return f"{name} has seen ZoneQuotas up to revision {seen}, the last change is {quota_revision}"
