"""From what the metrics justify to what is asked for: stabilization windows, scaling policies, minimum and maximum.

Without `spec.behavior` the rules are Kubernetes' old defaults: down only to the highest recommendation of the last five
minutes, up at once, but at most to twice the present number, or to 4. With it, each direction has a window of its own,
and policies that say by how much the number may change within a period. What was done in the period counts, so that ten
small steps are no larger than one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final

from mainstay.controllers.autoscaler.observation import (
    AutoscalerInput,
    AutoscalerMemory,
    Recommendation,
    ScaleStep,
    get_spec,
)
from mainstay.loop.conditions import Condition, Truth

DOWN_WINDOW: Final = timedelta(minutes=5)
ABLE: Final = "AbleToScale"
LIMITED: Final = "ScalingLimited"
_GROWTH_MAX: Final = 2
_GROWTH_MIN: Final = 4
_SECOND_US: Final = 1_000_000
_LIMITS: Final = {
    "DesiredWithinRange": "the desired count is within the acceptable range",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
}
_ABLE: Final = {
    "ReadyForNewScale": "recommended size matches current size",
    "ScaleUpStabilized": "recent recommendations were lower than the current one: the lowest of them applies",
    "ScaleDownStabilized": "recent recommendations were higher than the current one: the highest of them applies",
}


@dataclass(frozen=True, slots=True)
class NormalizedScale:
    replicas: int
    able: Condition
    limited: Condition
    memory: AutoscalerMemory


def normalize(known: AutoscalerInput, current: int, recommended: int, least: int, most: int) -> NormalizedScale:
    """What to ask for, when the metrics justify `recommended`. `known` has the behaviour and the memory."""
    behavior = known.spec.get("behavior")
    is_rising = recommended >= current
    if behavior is None:
        window_up, window_down = timedelta(), DOWN_WINDOW
    else:
        window_up = _get_window(known, "scaleUp", timedelta())
        window_down = _get_window(known, "scaleDown", DOWN_WINDOW)
    stabilized = _stabilize(known, recommended, window_up if is_rising else window_down, min if is_rising else max)
    able = "ReadyForNewScale"
    if stabilized != recommended:
        able = "ScaleUpStabilized" if is_rising else "ScaleDownStabilized"
    if behavior is None:
        replicas, limited = _by_default(current, stabilized, least, most)
    else:
        replicas, limited = _by_policies(known, current, stabilized, least, most)
    kept_us = max(window_up, window_down) // timedelta(microseconds=1)
    memory = known.memory
    recommendations = [each for each in memory.recommendations if each.at_us >= known.now_us - kept_us]
    recommendations.append(Recommendation(known.now_us, recommended))
    truth = Truth.FALSE if replicas == stabilized else Truth.TRUE
    return NormalizedScale(
        replicas,
        Condition(ABLE, Truth.TRUE, able, _ABLE[able]),
        Condition(LIMITED, truth, limited, _LIMITS[limited]),
        AutoscalerMemory(tuple(recommendations), memory.scale_ups, memory.scale_downs),
    )


def remember_step(known: AutoscalerInput, memory: AutoscalerMemory, before: int, after: int) -> AutoscalerMemory:
    """The memory once the target was scaled."""
    step = ScaleStep(known.now_us, abs(after - before))
    ups, downs = _recent(memory.scale_ups, known), _recent(memory.scale_downs, known)
    if after > before:
        return AutoscalerMemory(memory.recommendations, (*ups, step), downs)
    return AutoscalerMemory(memory.recommendations, ups, (*downs, step))


_PERIOD_MAX: Final = timedelta(minutes=30)


def _recent(steps: Iterable[ScaleStep], known: AutoscalerInput) -> tuple[ScaleStep, ...]:
    since = known.now_us - _PERIOD_MAX // timedelta(microseconds=1)
    return tuple([each for each in steps if each.at_us > since])


def _get_window(known: AutoscalerInput, direction: str, default: timedelta) -> timedelta:
    seconds = get_spec(known, "behavior", direction, "stabilizationWindowSeconds")
    return default if seconds is None else timedelta(seconds=int(seconds))


def _stabilize(
    known: AutoscalerInput, recommended: int, window: timedelta, better: Callable[[Iterable[int]], int]
) -> int:
    since = known.now_us - window // timedelta(microseconds=1)
    recent = [each.replicas for each in known.memory.recommendations if each.at_us > since]
    return better([recommended, *recent])


def _by_default(current: int, wanted: int, least: int, most: int) -> tuple[int, str]:
    growth = max(_GROWTH_MAX * current, _GROWTH_MIN)
    if wanted < least:
        return least, "TooFewReplicas"
    if wanted > min(most, growth):
        return min(most, growth), "ScaleUpLimit" if most > growth else "TooManyReplicas"
    return wanted, "DesiredWithinRange"


def _by_policies(known: AutoscalerInput, current: int, wanted: int, least: int, most: int) -> tuple[int, str]:
    memory = known.memory
    if wanted > current:
        rules = get_spec(known, "behavior", "scaleUp") or {}
        limit = max(current, _find_limit(known, rules, current, memory.scale_ups, memory.scale_downs, +1))
        allowed = min(most, limit)
        if wanted > allowed:
            return allowed, "ScaleUpLimit" if most > limit else "TooManyReplicas"
    elif wanted < current:
        rules = get_spec(known, "behavior", "scaleDown") or {}
        limit = min(current, _find_limit(known, rules, current, memory.scale_downs, memory.scale_ups, -1))
        allowed = max(least, limit)
        if wanted < allowed:
            return allowed, "ScaleDownLimit" if least < limit else "TooFewReplicas"
    return wanted, "DesiredWithinRange"


def _find_limit(
    known: AutoscalerInput,
    rules: Any,
    current: int,
    same: Sequence[ScaleStep],
    other: Sequence[ScaleStep],
    sign: int,
) -> int:
    """How far the policies of a direction let the number go; `same` are past steps in it, `other` against it."""
    chosen = rules.get("selectPolicy") or "Max"
    if chosen == "Disabled":
        return current
    limits = []
    for policy in rules.get("policies") or ():
        since = known.now_us - int(policy["periodSeconds"]) * _SECOND_US
        start = current - sign * sum(each.replicas for each in same if each.at_us > since)
        start += sign * sum(each.replicas for each in other if each.at_us > since)
        value = int(policy["value"])
        if policy["type"] == "Pods":
            limits.append(start + sign * value)
        else:
            share = Fraction(100 + sign * value, 100) * start
            limits.append(ceil(share) if sign > 0 else floor(share))
    if not limits:
        return current
    widest, narrowest = (max, min) if sign > 0 else (min, max)
    return narrowest(limits) if chosen == "Min" else widest(limits)
