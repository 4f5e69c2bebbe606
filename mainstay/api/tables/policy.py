"""The rows of what limits disruption and sets size."""

from typing import Any

from mainstay.api.kind import Object
from mainstay.api.tables.fields import has, mapping, objects, text, whole
from mainstay.api.tables.table import AGE, NAME, filled, of, of_field, table, whole_at
from mainstay.api.tables.texts import NONE, UNKNOWN, UNSET, plain, quantity, shortened

_METRICS_SHOWN_MAX = 2
# The field that describes a metric of a type.
_METRIC_FIELDS = {
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_NAMED_METRICS = ("Resource", "ContainerResource")


def _or_not_applicable(value: Any) -> str:
    return plain(value) or "N/A"


def _targets(autoscaler: Object) -> str:
    metrics = objects(autoscaler, "spec.metrics")
    current = objects(autoscaler, "status.currentMetrics")
    if not metrics and has(autoscaler, "spec.targetCPUUtilizationPercentage"):
        return _cpu_target(autoscaler)
    written = [
        _metric(metric, current[position] if position < len(current) else {}) for position, metric in enumerate(metrics)
    ]
    return shortened(written, _METRICS_SHOWN_MAX, ", ") or NONE


def _cpu_target(autoscaler: Object) -> str:
    """The first version of the kind knows one metric only, and says it in other words."""
    used = "status.currentCPUUtilizationPercentage"
    current = f"{whole(autoscaler, used)}%" if has(autoscaler, used) else UNKNOWN
    return f"cpu: {current}/{whole(autoscaler, 'spec.targetCPUUtilizationPercentage')}%"


def _metric(metric: Object, status: Object) -> str:
    """What a metric is and what it should be: `cpu: 40%/80%`, `7/10 (avg)`."""
    named = text(metric, "type")
    field = _METRIC_FIELDS.get(named)
    if field is None:
        return "<unknown type>"
    target = mapping(metric, f"{field}.target")
    current = mapping(status, f"{field}.current")
    if named in _NAMED_METRICS:
        return f"{text(metric, f'{field}.name')}: {_resource(target, current)}"
    is_average = named == "Pods" or has(target, "averageValue")
    value = "averageValue" if is_average else "value"
    written = f"{_amount(current, value)}/{_amount(target, value)}"
    return f"{written} (avg)" if is_average and named != "Pods" else written


def _resource(target: Object, current: Object) -> str:
    if has(target, "averageValue"):
        return f"{_amount(current, 'averageValue')}/{_amount(target, 'averageValue')}"
    return f"{_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"


def _amount(value: Object, named: str) -> str:
    return quantity(value.get(named)) if has(value, named) else UNKNOWN


def _percent(value: Object, otherwise: str) -> str:
    share = plain(value.get("averageUtilization"))
    return f"{share}%" if share else otherwise


def _reference(autoscaler: Object) -> str:
    return f"{text(autoscaler, 'spec.scaleTargetRef.kind')}/{text(autoscaler, 'spec.scaleTargetRef.name')}"


TABLES = {
    ("policy", "PodDisruptionBudget"): table(
        NAME,
        filled("Min Available", of_field("spec.minAvailable", _or_not_applicable), "How many pods must stay."),
        filled("Max Unavailable", of_field("spec.maxUnavailable", _or_not_applicable), "How many pods may be gone."),
        filled(
            "Allowed Disruptions",
            whole_at("status.disruptionsAllowed"),
            "How many pods may be taken away now.",
            holds="integer",
        ),
        AGE,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): table(
        NAME,
        filled("Reference", of(_reference), "What it sizes."),
        filled("Targets", of(_targets), "What is measured, and what it should be."),
        filled(
            "MinPods",
            of_field("spec.minReplicas", lambda found: plain(found) or UNSET),
            "The fewest pods it may leave.",
        ),
        filled("MaxPods", whole_at("spec.maxReplicas"), "The most pods it may ask for."),
        filled("Replicas", whole_at("status.currentReplicas"), "How many there are."),
        AGE,
    ),
    ("autoscaling", "Scale"): table(
        NAME,
        filled("Desired", whole_at("spec.replicas"), "How many pods there should be.", holds="integer"),
        filled("Available", whole_at("status.replicas"), "How many there are.", holds="integer"),
        AGE,
    ),
}
