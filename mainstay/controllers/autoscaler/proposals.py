"""How many replicas one metric justifies: the ratio of what pods use to what they should, as Kubernetes computes it.

    replicas = ceil(counted pods × used ÷ target), unless the ratio is within the tolerance of 1

What is not known is guessed against the change. A pod without a sample counts as using its whole request when the
number would fall, and nothing when it would rise; a pod that is not ready yet counts as using nothing when it would
rise, and not at all when it would fall. If the guesses turn the direction, nothing changes.

The CPU of a pod that has just started says little: for `CPU_INITIALIZATION` after its start a sample counts only if the
pod is ready and was for a whole window, and afterwards only if it has ever been ready. Ratios are exact fractions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.quantity import Quantity, parse
from mainstay.controllers.autoscaler.observation import PodMetricValues, UsageSample, identify_metric
from mainstay.journal.record import micros

CPU_INITIALIZATION: Final = timedelta(minutes=5)
INITIAL_READINESS: Final = timedelta(seconds=30)
"""A pod that became unready within so long after its start has never been ready."""
MISSING_REQUEST: Final = "missing request for"
"""Begins what a failure says about a container without a request. `why` advises by it."""
_CPU: Final = "cpu"
_MILLI: Final = 10**6  # Billionths in a thousandth: upstream counts in these.
_ONE: Final = Fraction(1)


class MetricFailure(Exception):
    """A metric gives no number of replicas. `reason` is that of the condition and of the Event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much the ratio may be off 1 before the number changes."""

    up: Fraction = Fraction(1, 10)
    down: Fraction = Fraction(1, 10)

    def covers(self, ratio: Fraction) -> bool:
        return _ONE - self.down <= ratio <= _ONE + self.up


@dataclass(frozen=True, slots=True)
class ReplicaProposal:
    replicas: int
    name: str
    """Of the metric, in words."""
    status: Object
    """For `status.currentMetrics`."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """The pods of a target, by what their samples are worth."""

    counted: tuple[str, ...]
    unready: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricSource:
    """What proposals are made from."""

    now: datetime
    pods: Sequence[Object]
    """Those that the selector of the target finds."""
    samples: Mapping[str, UsageSample]
    problem: str
    """Why there are no samples."""
    metrics: Mapping[str, PodMetricValues]
    """Of type Pods, by their identity."""
    replicas: int
    """As the target asks for now."""
    tolerance: Tolerance


_REFUSED: Final = {
    "Object": ("FailedGetObjectMetric", "object"),
    "External": ("FailedGetExternalMetric", "external"),
}


def propose(metric: Object, source: MetricSource) -> ReplicaProposal:
    """What a metric of the spec justifies. Raises `MetricFailure`."""
    kind = metric.get("type")
    match kind:
        case "Resource":
            return _propose_resource(metric["resource"], "", source)
        case "ContainerResource":
            inner = metric["containerResource"]
            return _propose_resource(inner, str(inner.get("container") or ""), source)
        case "Pods":
            return _propose_pods(metric, source)
        case "Object" | "External":
            reason, key = _REFUSED[kind]
            name = ((metric.get(key) or {}).get("metric") or {}).get("name") or "?"
            text = f"metrics of type {kind} are not supported, so {name} is unknown: use Resource or Pods"
            raise MetricFailure(reason, text)
        case _:
            raise MetricFailure("InvalidMetricSourceType", f"unknown metric source type {kind}")


def _propose_resource(wanted: Object, container: str, source: MetricSource) -> ReplicaProposal:
    resource, target = str(wanted["name"]), wanted.get("target") or {}
    failure = "FailedGetContainerResourceMetric" if container else "FailedGetResourceMetric"
    words = f"{resource} container resource" if container else f"{resource} resource"
    try:
        used = _read_used(resource, container, source)
        groups = _group(resource, used, source)
        values = {name: used[name] for name in groups.counted}
        if not values:
            raise ValueError("no ready pod has a sample")
        average = sum(values.values()) // len(values)
        current: Object = {"averageValue": str(Quantity(average // _MILLI * _MILLI))}
        if target.get("averageValue") is not None:
            goal = parse(target["averageValue"]).nano
            replicas = _count(groups, values, goal, dict.fromkeys((*groups.counted, *groups.missing), goal), source)
        elif target.get("averageUtilization") is not None:
            percent = int(target["averageUtilization"])
            requests = _read_requests(resource, container, source.pods)
            replicas = _count(groups, values, percent, requests, source, by_request=True)
            current = {"averageUtilization": _utilization(values, requests), **current}
            words += " utilization (percentage of request)"
        else:
            raise ValueError("neither averageUtilization nor averageValue is set")
    except ValueError as error:
        what = f"{resource} of container {container}" if container else resource
        raise MetricFailure(failure, f"failed to get {what} usage: {error}") from None
    kind = "ContainerResource" if container else "Resource"
    inner: Object = {"name": resource, "current": current, **({"container": container} if container else {})}
    return ReplicaProposal(replicas, words, {"type": kind, kind[0].lower() + kind[1:]: inner})


def _propose_pods(metric: Object, source: MetricSource) -> ReplicaProposal:
    wanted = metric["pods"]
    name = wanted["metric"]["name"]
    found = source.metrics.get(identify_metric(metric)) or PodMetricValues()
    try:
        if not found.values:
            raise ValueError(found.problem or "no pod serves it")
        if not source.pods:
            raise ValueError("the selector of the target finds no pods")
        groups = _group("", found.values, source)
        values = {pod: found.values[pod] for pod in groups.counted}
        if not values:
            raise ValueError("no running pod serves it")
        goal = parse((wanted.get("target") or {}).get("averageValue") or "0").nano
        if goal <= 0:
            raise ValueError("averageValue is not set")
        replicas = _count(groups, values, goal, dict.fromkeys((*groups.counted, *groups.missing), goal), source)
    except ValueError as error:
        raise MetricFailure("FailedGetPodsMetric", f"failed to get pods metric {name}: {error}") from None
    average = sum(values.values()) // len(values) // _MILLI * _MILLI
    inner: Object = {"metric": wanted["metric"], "current": {"averageValue": str(Quantity(average))}}
    return ReplicaProposal(replicas, f"pods metric {name}", {"type": "Pods", "pods": inner})


def _read_used(resource: str, container: str, source: MetricSource) -> dict[str, int]:
    """By pod. Raises `ValueError`."""
    if not source.samples:
        raise ValueError(source.problem or "the metrics API has no samples of its pods")
    if not source.pods:
        raise ValueError("the selector of the target finds no pods")
    found: dict[str, int] = {}
    for name, sample in sorted(source.samples.items()):
        if container and container not in sample.containers:
            raise ValueError(f"container {container} is not in the metrics of pod {name}")
        chosen = [sample.containers[container]] if container else list(sample.containers.values())
        if chosen and all(resource in each for each in chosen):
            found[name] = sum(each[resource] for each in chosen)
    return found


def _read_requests(resource: str, container: str, pods: Iterable[Object]) -> dict[str, int]:
    """By pod. Raises `ValueError`."""
    found: dict[str, int] = {}
    for pod in pods:
        name, total = pod["metadata"]["name"], 0
        for each in _list_containers(pod):
            if container and each["name"] != container:
                continue
            asked = ((each.get("resources") or {}).get("requests") or {}).get(resource)
            if asked is None:
                raise ValueError(f"{MISSING_REQUEST} {resource} in container {each['name']} of pod {name}")
            total += parse(asked).nano
        found[name] = total
    return found


def _list_containers(pod: Object) -> list[Any]:
    spec = pod["spec"]
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return [*spec.get("containers", ()), *sidecars]


def _group(resource: str, used: Mapping[str, int], source: MetricSource) -> _Groups:
    counted, unready, missing = [], [], []
    for pod in source.pods:
        name = pod["metadata"]["name"]
        if not pod_state.is_active(pod):
            continue
        if (pod.get("status") or {}).get("phase") == "Pending":
            unready.append(name)
        elif name not in used:
            missing.append(name)
        elif resource == _CPU and _is_too_young(pod, source.samples[name], source.now):
            unready.append(name)
        else:
            counted.append(name)
    return _Groups(tuple(counted), tuple(unready), tuple(missing))


def _is_too_young(pod: Object, sample: UsageSample, now: datetime) -> bool:
    ready = pod_state.find_condition(pod, "Ready")
    started = pod_state.parse_time_or_none((pod.get("status") or {}).get("startTime"))
    if ready is None or started is None:
        return True
    is_unready, changed = ready.get("status") == "False", pod_state.parse_time_or_none(ready.get("lastTransitionTime"))
    if changed is None:
        return is_unready
    if started + CPU_INITIALIZATION > now:
        return is_unready or sample.at_us < micros(changed) + sample.window_us
    return is_unready and started + INITIAL_READINESS > changed


def _utilization(values: Mapping[str, int], requests: Mapping[str, int]) -> int:
    """In percent of what is requested, rounded down as upstream does. Raises `ValueError`."""
    asked = sum(requests[name] for name in values if name in requests)
    if not asked:
        raise ValueError("no metrics returned matched known pods")
    return sum(used for name, used in values.items() if name in requests) * 100 // asked


def _count(
    groups: _Groups,
    values: Mapping[str, int],
    goal: int,
    whole: Mapping[str, int],
    source: MetricSource,
    *,
    by_request: bool = False,
) -> int:
    """The number of replicas. `whole` is what a pod without a sample uses at most, for the guess."""

    def compute_ratio(guessed: Mapping[str, int]) -> Fraction:
        if by_request:
            return Fraction(_utilization(guessed, whole), goal)
        return Fraction(sum(guessed.values()) // len(guessed), goal)

    ratio = compute_ratio(values)
    is_rising = ratio > 1
    rebalances = bool(groups.unready) and is_rising
    if not rebalances and not groups.missing:
        return source.replicas if source.tolerance.covers(ratio) else ceil(ratio * len(values))
    guessed = dict(values)
    if ratio != 1:
        guessed |= {name: 0 if is_rising else whole.get(name, 0) for name in groups.missing}
    if rebalances:
        guessed |= dict.fromkeys(groups.unready, 0)
    again = compute_ratio(guessed)
    if source.tolerance.covers(again) or (again > 1) != is_rising:
        return source.replicas
    replicas = ceil(again * len(guessed))
    if (replicas > source.replicas) != is_rising and replicas != source.replicas:
        return source.replicas  # That fewer or more pods were counted must not turn the direction.
    return replicas
