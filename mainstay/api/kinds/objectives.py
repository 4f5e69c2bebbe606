"""The kind ServiceLevelObjective, `mainstay.dev/v1`: how quickly the pods of a workload should come, and how many stay.

    spec:
      target: {kind: Deployment, name: web}
      objectives:
      - {type: TimeToReady, withinSeconds: 30, percent: 95}
      - {type: Availability, percent: "99.9"}

What it means and what comes of it is in controllers/objectives/. Fields that nothing acts on are refused.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Final

import msgspec

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, duplicate, forbidden_value, required
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.declare import declare, own_status
from mainstay.api.kinds.struct_checks import convert_spec
from mainstay.api.objectives import ObjectiveType, TargetKind

_DAY_S: Final = 24 * 3600
_DECIMAL: Final = r"^[1-9][0-9]?\.[0-9]{1,3}$"
_OBJECTIVES_MAX: Final = len(ObjectiveType)


class TargetSpec(msgspec.Struct, forbid_unknown_fields=True):
    kind: TargetKind
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


class ObjectiveSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    type: ObjectiveType
    percent: Annotated[int, msgspec.Meta(ge=1, le=99)] | Annotated[str, msgspec.Meta(pattern=_DECIMAL)]
    """How many of a hundred, as a number or with decimals as text, as Kubernetes writes quantities. The rest is the
    budget: there has to be one, or any slow pod would use up all of it."""
    within_seconds: Annotated[int, msgspec.Meta(ge=1, le=_DAY_S)] | None = None

    @property
    def good_percent(self) -> Fraction:
        return Fraction(self.percent)


class SloSpec(msgspec.Struct, forbid_unknown_fields=True):
    target: TargetSpec
    objectives: Annotated[list[ObjectiveSpec], msgspec.Meta(min_length=1, max_length=_OBJECTIVES_MAX)]


def parse_slo(slo: Object) -> SloSpec:
    """What an object asks for, which was accepted."""
    return msgspec.convert(slo["spec"], SloSpec)


def _validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
    if new.get("spec") is None:
        return [required("spec")]
    spec = convert_spec(new["spec"], SloSpec)
    if isinstance(spec, StatusCause):
        return [spec]
    causes = []
    seen: set[ObjectiveType] = set()
    for number, each in enumerate(spec.objectives):
        path = f"spec.objectives[{number}]"
        if each.type in seen:
            causes.append(duplicate(f"{path}.type", each.type))
        seen.add(each.type)
        if each.type is ObjectiveType.AVAILABILITY:
            if each.within_seconds is not None:
                detail = "must not be set for Availability, which is measured over time"
                causes.append(forbidden_value(f"{path}.withinSeconds", detail))
        elif each.within_seconds is None:
            causes.append(required(f"{path}.withinSeconds"))
    return causes


SERVICE_LEVEL_OBJECTIVE: Final = declare(
    kind_names.SERVICE_LEVEL_OBJECTIVES,
    categories=("mainstay",),
    short_names=("slo",),
    subresources=(STATUS,),
    prepare=own_status(dict),
    validate=_validate,
)

KINDS: Final = (SERVICE_LEVEL_OBJECTIVE,)
