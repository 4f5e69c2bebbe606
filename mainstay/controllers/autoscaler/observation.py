"""What one look at an autoscaler has read, as frozen values: all that `decide` goes by besides the list of pods.

It is recorded with each write of the look (loop/fresh_read.py), so that replay decides from the same. Samples and
recommendations are in no store; the object and its target are here as far as a decision reads them, because both were
read by name, each at a moment of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mainstay.api import labels
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey

RESCALED: Final = "rescaled"
"""As the outcome of a look: the target has the new number of replicas."""


@dataclass(frozen=True, slots=True)
class UsageSample:
    """What a pod used, as the metrics API says it."""

    at_us: int
    window_us: int
    containers: dict[str, dict[str, int]]
    """By container and resource, in billionths."""


@dataclass(frozen=True, slots=True)
class PodMetricValues:
    """What pods say of one metric, as the custom metrics API says it."""

    values: dict[str, int] = field(default_factory=dict)
    """By pod, in billionths."""
    problem: str = ""
    """Why there are none."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """How many replicas the metrics justified at a moment, before any rule of behaviour."""

    at_us: int
    replicas: int


@dataclass(frozen=True, slots=True)
class ScaleStep:
    """By how many replicas the target was scaled at a moment."""

    at_us: int
    replicas: int


@dataclass(frozen=True, slots=True)
class AutoscalerMemory:
    """What is remembered of an autoscaler from one look to the next. Lost with its leader, as upstream: a new one
    begins with the present number of replicas as the first recommendation."""

    recommendations: tuple[Recommendation, ...] = ()
    scale_ups: tuple[ScaleStep, ...] = ()
    scale_downs: tuple[ScaleStep, ...] = ()


NO_MEMORY: Final = AutoscalerMemory()


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """The target, and its scale, as of one resource version."""

    kind: KindName
    key: ObjectKey
    version: str
    replicas: int
    """As its spec asks for."""
    replicas_seen: int
    """As its status counts them."""
    selector: str
    generation: int = 0
    observed_generation: int = 0
    has_record: bool = False
    """It is of a kind whose progress is recorded (api/progress.py)."""
    progress: Object | None = None
    """Its record, as it stands in the status."""


@dataclass(frozen=True, slots=True)
class ScaleUnknown:
    """The scale of the target cannot be had, and why."""

    message: str


@dataclass(frozen=True, slots=True)
class AutoscalerInput:
    """What a look goes by besides the pods."""

    now_us: int
    spec: Object
    status: Object
    generation: int
    target: ScaleTarget | None = None
    unknown: ScaleUnknown | None = None
    """Instead of a target."""
    rivals: tuple[str, ...] = ()
    """Other autoscalers of the same target."""
    samples: dict[str, UsageSample] = field(default_factory=dict)
    """By pod."""
    samples_problem: str = ""
    """Why there are none."""
    pod_metrics: dict[str, PodMetricValues] = field(default_factory=dict)
    """By the identity of a metric of type Pods (`identify_metric`)."""
    quota_revision: int = 0
    """Of the last change of a ZoneQuota in the namespace; 0: not asked for."""
    seen_quotas: dict[str, int] = field(default_factory=dict)
    """By component that reads ZoneQuotas: how far its cache is, as it says itself (ComponentState)."""
    reads_progress: bool = True
    """The feature gate AutoscalerReadsProgress."""
    memory: AutoscalerMemory = NO_MEMORY
    outcome: str = ""
    """Of the write to the scale: empty if there was none, `RESCALED`, or the error. Only the status and
    the Events depend on it."""


def identify_metric(metric: Object) -> str:
    """A metric of type Pods: its name, and the selector of its series."""
    wanted = metric["pods"]["metric"]
    selector = wanted.get("selector")
    return f"{wanted['name']}{{{labels.from_object(selector)}}}" if selector else str(wanted["name"])


def get_spec(known: AutoscalerInput, *path: str) -> Any:
    """A field of the autoscaler's spec; None if it is not there."""
    value: Any = known.spec
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
