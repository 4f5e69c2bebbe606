"""The kind SamplingPolicy, `mainstay.dev/v1`: which decisions the journal keeps, and in which detail.

    metadata: {name: default}
    spec:
      rules:                       tried in order, the first that matches decides; none: those that are built in
        - {name: failures, when: {failures: true}}
        - {name: hpa, when: {components: [horizontal-pod-autoscaler]}, keep: summary}
        - {name: quiet, when: {noops: true}, oneIn: 100}
        - {name: rest, when: {noops: true}, keep: nothing}
      dryRun: false                true: keep everything, and say on each record what would have been kept
      incident: {until: 2026-01-01T12:00:00Z, reason: orders are lost}     rules may ask for `when: {incidents: true}`

There is one for the cluster. What the rules mean is in journal/sampling.py, which has the same shape; that whatever is
accepted here can be followed there, a test sees to.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from mainstay.api import kind_names
from mainstay.api.errors import CauseType, StatusCause, invalid_value, required
from mainstay.api.kind import Object
from mainstay.api.kinds.declare import declare
from mainstay.api.kinds.struct_checks import convert_spec
from mainstay.api.times import parse_time

NAME: Final = "default"
RULES_MAX: Final = 100
_NAME_LENGTH_MAX: Final = 63


class SamplingMatchSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    failures: bool = False
    noops: bool = False
    rollouts: bool = False
    policy_changes: bool = False
    incidents: bool = False
    priority_at_least: int | None = None
    priority_classes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class SamplingRuleSpec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: str
    when: SamplingMatchSpec = msgspec.field(default_factory=SamplingMatchSpec)
    keep: Literal["full", "summary", "nothing"] = "full"
    one_in: int = 1


class Incident(msgspec.Struct, forbid_unknown_fields=True):
    until: str
    reason: str = ""


class _Spec(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    rules: list[SamplingRuleSpec] = []
    dry_run: bool = False
    incident: Incident | None = None


def _validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
    name = new["metadata"].get("name", "")
    if name != NAME:
        return [invalid_value("metadata.name", name, f"must be {NAME}: a cluster has one policy")]
    spec = new.get("spec")
    if spec is None:
        return [required("spec")]
    found = convert_spec(spec, _Spec)
    if isinstance(found, StatusCause):
        return [found]
    causes: list[StatusCause] = []
    if len(found.rules) > RULES_MAX:
        causes.append(invalid_value("spec.rules", len(found.rules), f"must have at most {RULES_MAX} rules"))
    _check_rules(found.rules, causes)
    if found.incident is not None:
        try:
            parse_time(found.incident.until)
        except ValueError as problem:
            causes.append(invalid_value("spec.incident.until", found.incident.until, str(problem)))
    return causes


def _check_rules(rules: Sequence[SamplingRuleSpec], causes: list[StatusCause]) -> None:
    names: dict[str, None] = {}
    for number, rule in enumerate(rules):
        path = f"spec.rules[{number}]"
        is_name = bool(rule.name) and len(rule.name) <= _NAME_LENGTH_MAX and rule.name.replace("-", "a").isalnum()
        if not is_name:
            detail = f"must consist of letters, digits and hyphens, up to {_NAME_LENGTH_MAX}"
            causes.append(invalid_value(f"{path}.name", rule.name, detail))
        elif rule.name in names:
            causes.append(StatusCause(CauseType.DUPLICATE, f"{path}.name", f'Duplicate value: "{rule.name}"'))
        if rule.one_in < 1:
            causes.append(invalid_value(f"{path}.oneIn", rule.one_in, "must be greater than or equal to 1"))
        names[rule.name] = None


def incident_until(spec: dict[str, Any]) -> str:
    """Until when an incident lasts, by what the policy says; empty: there is none."""
    incident = spec.get("incident") or {}
    until = incident.get("until", "")
    return until if isinstance(until, str) else ""


SAMPLING_POLICY: Final = declare(
    kind_names.SAMPLING_POLICIES,
    short_names=("sampling",),
    categories=("mainstay",),
    validate=_validate,
)

KINDS: Final = (SAMPLING_POLICY,)
