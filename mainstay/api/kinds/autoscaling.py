"""HorizontalPodAutoscaler in its two versions, which are two views of one object, kept as v2.

v1 knows only a target for the CPU. What else there is stays in annotations while an object is looked at as v1, so that
nothing is lost when it comes back. `to_v1` and `to_v2` leave their argument alone.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from mainstay.api import kind_names, quantity
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required
from mainstay.api.json_values import UNREADABLE
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.checks import check_not_negative, check_selector
from mainstay.api.kinds.declare import builtin, child, fill, own_status

_CPU_PERCENT_DEFAULT = 80
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_WINDOW_S_MAX = 3600
_PERIOD_S_MAX = 1800


def _cpu_metric(percent: int) -> Object:
    return {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    }


def _default_v2(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, minReplicas=1, maxReplicas=0)
    child(spec, "scaleTargetRef")
    if not spec.get("metrics"):
        spec["metrics"] = [_cpu_metric(_CPU_PERCENT_DEFAULT)]
    behavior = spec.get("behavior")
    if behavior is not None:
        _default_rules(child(behavior, "scaleUp"), [("Pods", 4), ("Percent", 100)], 0)
        _default_rules(child(behavior, "scaleDown"), [("Percent", 100)], None)


def _default_rules(rules: Object, policies: list[tuple[str, int]], window_s: int | None) -> None:
    if not rules.get("selectPolicy"):
        rules["selectPolicy"] = "Max"
    if rules.get("policies") is None:
        rules["policies"] = [{"type": kind, "value": value, "periodSeconds": 15} for kind, value in policies]
    if window_s is not None and rules.get("stabilizationWindowSeconds") is None:
        rules["stabilizationWindowSeconds"] = window_s


def _default_v1(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, minReplicas=1, maxReplicas=0)
    child(spec, "scaleTargetRef")


def _check_common(spec: Object, causes: list[StatusCause]) -> None:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        causes.append(invalid_value("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            causes.append(required(f"spec.scaleTargetRef.{field}"))


def _validate_v2(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    _check_common(spec, causes)
    for number, metric in enumerate(spec.get("metrics") or ()):
        _check_metric(metric, f"spec.metrics[{number}]", causes)
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction):
            _check_rules(behavior[direction], f"spec.behavior.{direction}", causes)
    return causes


def _check_metric(metric: Object, path: str, causes: list[StatusCause]) -> None:
    kind = metric.get("type")
    if not kind:
        causes.append(required(f"{path}.type", "must specify a metric source type"))
        return
    if kind not in _SOURCES:
        causes.append(not_supported(f"{path}.type", kind, tuple(_SOURCES)))
        return
    wanted = _SOURCES[kind]
    for name in _SOURCES.values():
        if name != wanted and metric.get(name) is not None:
            detail = "must populate the given metric source only"
            causes.append(forbidden_value(f"{path}.{name}", detail))
    source = metric.get(wanted)
    if source is None:
        causes.append(required(f"{path}.{wanted}", "must populate information for the given metric source"))
        return
    if wanted in ("resource", "containerResource"):
        _check_resource_metric(source, f"{path}.{wanted}", causes)
    target = source.get("target") or {}
    if wanted == "pods":
        _check_pods_metric(source, f"{path}.pods", causes)
    if not target.get("type"):
        causes.append(required(f"{path}.{wanted}.target.type", "must specify a metric target type"))
    elif target["type"] not in ("Utilization", "Value", "AverageValue"):
        detail = "must be either Utilization, Value, or AverageValue"
        causes.append(invalid_value(f"{path}.{wanted}.target.type", target["type"], detail))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        detail = "must be greater than 0"
        causes.append(invalid_value(f"{path}.{wanted}.target.averageUtilization", utilization, detail))


def _check_resource_metric(source: Object, path: str, causes: list[StatusCause]) -> None:
    if not source.get("name"):
        causes.append(required(f"{path}.name", "must specify a resource name"))
    if path.endswith(".containerResource") and not source.get("container"):
        causes.append(required(f"{path}.container", "must specify a container"))
    target = source.get("target") or {}
    utilization, value = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and value is None:
        detail = "must set either a target raw value or a target utilization"
        causes.append(required(f"{path}.target.averageUtilization", detail))
    elif utilization is not None and value is not None:
        detail = "may not set both a target raw value and a target utilization"
        causes.append(forbidden_value(f"{path}.target.averageValue", detail))


def _check_pods_metric(source: Object, path: str, causes: list[StatusCause]) -> None:
    metric = source.get("metric") or {}
    if not metric.get("name"):
        causes.append(required(f"{path}.metric.name", "must specify a metric name"))
    elif "/" in metric["name"] or "%" in metric["name"] or metric["name"] in (".", ".."):
        causes.append(invalid_value(f"{path}.metric.name", metric["name"], "must be usable as a path segment"))
    if metric.get("selector"):
        check_selector(metric["selector"], f"{path}.metric.selector", causes)
    average = (source.get("target") or {}).get("averageValue")
    if average is None or quantity.parse(average).nano <= 0:
        causes.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))


def _check_rules(rules: Object, path: str, causes: list[StatusCause]) -> None:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window > _WINDOW_S_MAX:
        detail = f"must be less than or equal to {_WINDOW_S_MAX}"
        causes.append(invalid_value(f"{path}.stabilizationWindowSeconds", window, detail))
    check_not_negative(rules, "stabilizationWindowSeconds", path, causes)
    if rules.get("selectPolicy") not in ("Disabled", "Max", "Min"):
        causes.append(not_supported(f"{path}.selectPolicy", rules.get("selectPolicy"), ("Disabled", "Max", "Min")))
    if not rules.get("policies"):
        causes.append(required(f"{path}.policies", "must specify at least one Policy"))
    for number, policy in enumerate(rules.get("policies") or ()):
        here = f"{path}.policies[{number}]"
        if policy.get("type") not in ("Percent", "Pods"):
            causes.append(not_supported(f"{here}.type", policy.get("type"), ("Percent", "Pods")))
        if (policy.get("value") or 0) <= 0:
            causes.append(invalid_value(f"{here}.value", policy.get("value") or 0, "must be greater than zero"))
        period = policy.get("periodSeconds") or 0
        if period <= 0:
            causes.append(invalid_value(f"{here}.periodSeconds", period, "must be greater than zero"))
        elif period > _PERIOD_S_MAX:
            detail = f"must be less than or equal to {_PERIOD_S_MAX}"
            causes.append(invalid_value(f"{here}.periodSeconds", period, detail))


def _validate_v1(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    _check_common(new["spec"], causes)
    percent = new["spec"].get("targetCPUUtilizationPercentage")
    if percent is not None and percent < 1:
        causes.append(invalid_value("spec.targetCPUUtilizationPercentage", percent, "must be greater than 0"))
    return causes


def to_v2(seen: Object) -> Object:
    """A v1 object as the v2 object that it stands for."""
    spec: Object = dict(seen.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metadata = dict(seen.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    metrics = _decoded(annotations.pop(_METRICS, None)) or []
    if percent is not None:
        metrics = [_cpu_metric(percent), *metrics]
    if metrics:
        spec["metrics"] = metrics
    behavior = _decoded(annotations.pop(_BEHAVIOR, None))
    if behavior:
        spec["behavior"] = behavior
    status = dict(seen.get("status") or {})
    current = status.pop("currentCPUUtilizationPercentage", None)
    status["currentMetrics"] = [_cpu_status(current)] if current is not None else None
    conditions = _decoded(annotations.pop(_CONDITIONS, None))
    if conditions:
        status["conditions"] = conditions
    fill(status, desiredReplicas=0)
    _set_annotations(metadata, annotations)
    return {**seen, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec, "status": status}


def to_v1(kept: Object) -> Object:
    """A v2 object as v1 shows it."""
    spec: Object = dict(kept.get("spec") or {})
    metadata = dict(kept.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        percent = _cpu_percent(metric)
        if percent is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(metric)
    if others:
        annotations[_METRICS] = msgspec.json.encode(others).decode()
    behavior = spec.pop("behavior", None)
    if behavior:
        annotations[_BEHAVIOR] = msgspec.json.encode(behavior).decode()
    status = dict(kept.get("status") or {})
    for metric in status.pop("currentMetrics", None) or ():
        resource = metric.get("resource") or {}
        current = (resource.get("current") or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and current is not None:
            status["currentCPUUtilizationPercentage"] = current
    conditions = status.pop("conditions", None)
    if conditions:
        annotations[_CONDITIONS] = msgspec.json.encode(conditions).decode()
    fill(status, currentReplicas=0, desiredReplicas=0)
    _set_annotations(metadata, annotations)
    return {**kept, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def _set_annotations(metadata: Object, annotations: Object) -> None:
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)


def _cpu_percent(metric: Object) -> int | None:
    resource = metric.get("resource") or {}
    percent: int | None = (resource.get("target") or {}).get("averageUtilization")
    return percent if metric.get("type") == "Resource" and resource.get("name") == "cpu" else None


def _cpu_status(percent: int) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}


def _decoded(text: str | None) -> Any:
    """What a client may have broken is as if it were not there."""
    try:
        return msgspec.json.decode(text) if text else None
    except UNREADABLE:
        return None


AUTOSCALER_V2 = builtin(
    kind_names.AUTOSCALERS,
    short_names=("hpa",),
    categories=("all",),
    subresources=(STATUS,),
    defaults=_default_v2,
    prepare=own_status(lambda: {"desiredReplicas": 0, "currentMetrics": None}),
    validate=_validate_v2,
    has_generation=False,
)

AUTOSCALER_V1 = builtin(
    kind_names.AUTOSCALERS_V1,
    short_names=("hpa",),
    categories=("all",),
    subresources=(STATUS,),
    from_stored=to_v1,
    to_stored=to_v2,
    defaults=_default_v1,
    prepare=own_status(lambda: {"currentReplicas": 0, "desiredReplicas": 0}),
    validate=_validate_v1,
    has_generation=False,
)

KINDS = (AUTOSCALER_V2, AUTOSCALER_V1)
