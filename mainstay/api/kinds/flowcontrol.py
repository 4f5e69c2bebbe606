"""FlowSchema and PriorityLevelConfiguration: which requests wait for which, when the server has too many.

The server uses them in server/flow/, which also has the objects that are there from the beginning. `MANDATORY_LEVELS`
and `MANDATORY_SCHEMAS` are the four that cannot be changed.
"""

import re
from collections.abc import Mapping, Sequence
from math import ceil, log2
from typing import Any, Final

from mainstay.api import kind_names, names
from mainstay.api.errors import StatusCause, duplicate, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.checks import check_subdomain, invalid_json
from mainstay.api.kinds.declare import builtin, child, fill, own_status

EXEMPT: Final = "exempt"
CATCH_ALL: Final = "catch-all"
PRECEDENCE_MAX: Final = 10_000
QUEUES_MAX: Final = 10_000_000
ENTROPY_BITS_MAX: Final = 60
"""Of the hash of a flow, from which its queues are chosen."""

EVERYTHING: Final[Mapping[str, Any]] = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def group_subject(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


MANDATORY_LEVELS: Final[Mapping[str, Object]] = {
    EXEMPT: {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    CATCH_ALL: {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0},
    },
}
MANDATORY_SCHEMAS: Final[Mapping[str, Object]] = {
    EXEMPT: {
        "priorityLevelConfiguration": {"name": EXEMPT},
        "matchingPrecedence": 1,
        "rules": [{"subjects": [group_subject("system:masters")], **EVERYTHING}],
    },
    CATCH_ALL: {
        "priorityLevelConfiguration": {"name": CATCH_ALL},
        "matchingPrecedence": PRECEDENCE_MAX,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {"subjects": [group_subject("system:unauthenticated"), group_subject("system:authenticated")], **EVERYTHING}
        ],
    },
}

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_NOT_FOR: Final = "{} is forbidden when subject kind is not '{}'"
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_NO_SPACE: Final = re.compile(r"[^ ]*")


# FlowSchema.


def _default_schema(new: Object) -> None:
    fill(child(new, "spec"), matchingPrecedence=1000)


def _validate_schema(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    name, spec = new["metadata"].get("name") or "", new["spec"]
    precedence = spec["matchingPrecedence"]
    here = "spec.matchingPrecedence"
    if precedence <= 0:
        causes.append(invalid_value(here, precedence, "must be a positive value"))
    if precedence > PRECEDENCE_MAX:
        causes.append(invalid_value(here, precedence, f"must not be greater than {PRECEDENCE_MAX}"))
    if precedence == 1 and name != EXEMPT:
        causes.append(invalid_value(here, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        causes.append(
            not_supported("spec.distinguisherMethod.type", method.get("type") or "", ("ByNamespace", "ByUser"))
        )
    level = (spec.get("priorityLevelConfiguration") or {}).get("name")
    if level:
        check_subdomain(level, "spec.priorityLevelConfiguration", ".name", causes)
    else:
        causes.append(required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
    for number, rule in enumerate(spec.get("rules") or ()):
        _check_rule(rule, f"spec.rules[{number}]", causes)
    if name in MANDATORY_SCHEMAS and _without_nothing(spec) != MANDATORY_SCHEMAS[name]:
        causes.append(invalid_json("spec", spec, f"spec of '{name}' must equal the fixed value"))
    _check_conditions(new, causes)
    return causes


def _check_rule(rule: Object, here: str, causes: list[StatusCause]) -> None:
    subjects = rule.get("subjects") or ()
    if not subjects:
        causes.append(required(f"{here}.subjects", "subjects must contain at least one value"))
    for number, subject in enumerate(subjects):
        _check_subject(subject, f"{here}.subjects[{number}]", causes)
    resources, others = rule.get("resourceRules") or (), rule.get("nonResourceRules") or ()
    if not resources and not others:
        causes.append(required(here, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for number, each in enumerate(resources):
        _check_resource_rule(each, f"{here}.resourceRules[{number}]", causes)
    for number, each in enumerate(others):
        _check_non_resource_rule(each, f"{here}.nonResourceRules[{number}]", causes)


def _check_subject(subject: Object, here: str, causes: list[StatusCause]) -> None:
    kind = subject.get("kind") or ""
    field = _SUBJECTS.get(kind)
    if field is None:
        causes.append(not_supported(f"{here}.kind", kind, tuple(_SUBJECTS)))
        return
    found = subject.get(field)
    if found is None:
        causes.append(required(f"{here}.{field}", f"{field} is required when subject kind is '{kind}'"))
    elif not found.get("name"):
        causes.append(required(f"{here}.{field}.name"))
    elif field == "serviceAccount" and found["name"] != "*":
        check_subdomain(found["name"], here, ".serviceAccount.name", causes)
    if field == "serviceAccount" and found is not None:
        namespace = found.get("namespace")
        if not namespace:
            causes.append(required(f"{here}.serviceAccount.namespace", "must specify namespace for service account"))
        else:
            causes.extend(
                invalid_value(f"{here}.serviceAccount.namespace", namespace, problem)
                for problem in names.label(namespace)
            )
    for other_kind, other in _SUBJECTS.items():
        if other != field and subject.get(other) is not None:
            causes.append(forbidden_value(f"{here}.{other}", _NOT_FOR.format(other, other_kind)))


def _check_resource_rule(rule: Object, here: str, causes: list[StatusCause]) -> None:
    _check_verbs(rule, here, causes)
    _check_values(rule, here, "apiGroups", "resource rules must supply at least one api group", causes)
    _check_values(rule, here, "resources", "resource rules must supply at least one resource", causes)
    namespaces = rule.get("namespaces") or ()
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        causes.append(required(f"{here}.namespaces", detail))
    elif "*" in namespaces:
        _check_alone(namespaces, f"{here}.namespaces", "namespaces", causes)
    else:
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for number, namespace in enumerate(namespaces):
            causes.extend(
                invalid_value(f"{here}.namespaces[{number}]", namespace, intro + problem)
                for problem in names.label(namespace)
            )


def _check_non_resource_rule(rule: Object, here: str, causes: list[StatusCause]) -> None:
    _check_verbs(rule, here, causes)
    paths = rule.get("nonResourceURLs") or ()
    if not paths:
        causes.append(required(f"{here}.nonResourceURLs", "nonResourceURLs must contain at least one value"))
    elif "*" in paths:
        _check_alone(paths, f"{here}.nonResourceURLs", "non-resource URLs", causes)
    else:
        for number, path in enumerate(paths):
            if problem := _find_path_problem(path):
                causes.append(invalid_value(f"{here}.nonResourceURLs[{number}]", path, problem))


def _find_path_problem(path: str) -> str:
    if not path:
        return "must not be empty"
    if path == "/":
        return ""
    if not path.startswith("/"):
        return "must start with slash"
    if not _NO_SPACE.fullmatch(path):
        return "must not contain white-space"
    if "//" in path:
        return "must not contain double slash"
    if "*" in path and (path.count("*") > 1 or not path.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def _check_verbs(rule: Object, here: str, causes: list[StatusCause]) -> None:
    verbs = rule.get("verbs") or ()
    if not verbs:
        causes.append(required(f"{here}.verbs", "verbs must contain at least one value"))
    elif "*" in verbs:
        _check_alone(verbs, f"{here}.verbs", "verbs", causes)
    elif any(verb not in _VERBS for verb in verbs):
        causes.append(not_supported(f"{here}.verbs", ", ".join(verbs), _VERBS))


def _check_values(rule: Object, here: str, field: str, missing: str, causes: list[StatusCause]) -> None:
    values = rule.get(field) or ()
    if not values:
        causes.append(required(f"{here}.{field}", missing))
    elif "*" in values:
        _check_alone(values, f"{here}.{field}", "api groups" if field == "apiGroups" else field, causes)


def _check_alone(values: Sequence[str], path: str, what: str, causes: list[StatusCause]) -> None:
    if len(values) > 1:
        causes.append(invalid_json(path, list(values), f"if '*' is present, must not specify other {what}"))


# PriorityLevelConfiguration.


def _default_level(new: Object) -> None:
    spec = child(new, "spec")
    if spec.get("type") == "Exempt":
        fill(child(spec, "exempt"), nominalConcurrencyShares=0, lendablePercent=0)
    limited = spec.get("limited")
    if limited is not None:
        fill(limited, nominalConcurrencyShares=30, lendablePercent=0)
        response = child(limited, "limitResponse")
        queuing = response.get("queuing")
        if queuing is not None:
            for field, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                queuing[field] = queuing.get(field) or value


def _validate_level(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    name, spec = new["metadata"].get("name") or "", new["spec"]
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    if (name == EXEMPT) != (kind == "Exempt"):
        causes.append(invalid_value("spec.type", kind, "type must be 'Exempt' if and only if name is 'exempt'"))
    match kind:
        case "Exempt":
            if limited is not None:
                causes.append(forbidden_value("spec.limited", "must be nil if the type is not Limited"))
            if exempt is not None:
                _check_shares(exempt, "spec.exempt", causes)
        case "Limited":
            if exempt is not None:
                causes.append(forbidden_value("spec.exempt", "must be nil if the type is Limited"))
            if limited is None:
                causes.append(required("spec.limited", "must not be empty when type is Limited"))
            else:
                _check_limited(limited, "spec.limited", causes)
        case _:
            causes.append(not_supported("spec.type", kind, ("Exempt", "Limited")))
    if name in MANDATORY_LEVELS and not _is_mandatory(name, spec):
        causes.append(invalid_json("spec", spec, f"spec of '{name}' must equal the fixed value"))
    _check_conditions(new, causes)
    return causes


def _is_mandatory(name: str, spec: Object) -> bool:
    """Of the exempt level, its share may be changed."""
    if name == EXEMPT:
        return spec.get("type") == "Exempt" and spec.get("limited") is None
    return bool(_without_nothing(spec) == MANDATORY_LEVELS[name])


def _check_limited(limited: Object, here: str, causes: list[StatusCause]) -> None:
    _check_shares(limited, here, causes)
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        detail = "if specified, must be a non-negative integer"
        causes.append(invalid_value(f"{here}.borrowingLimitPercent", borrowing, detail))
    response = limited["limitResponse"]
    queuing = response.get("queuing")
    match response.get("type"):
        case "Reject":
            if queuing is not None:
                detail = "must be nil if limited.limitResponse.type is not Limited"
                causes.append(forbidden_value(f"{here}.limitResponse.queuing", detail))
        case "Queue":
            if queuing is None:
                detail = "must not be empty if limited.limitResponse.type is Limited"
                causes.append(required(f"{here}.limitResponse.queuing", detail))
            else:
                _check_queuing(queuing, f"{here}.limitResponse.queuing", causes)
        case other:
            causes.append(not_supported(f"{here}.limitResponse.type", other or "", ("Queue", "Reject")))


def _check_shares(level: Object, here: str, causes: list[StatusCause]) -> None:
    shares, lendable = level.get("nominalConcurrencyShares"), level.get("lendablePercent")
    if shares is not None and shares < 0:
        causes.append(invalid_value(f"{here}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    if lendable is not None and not 0 <= lendable <= 100:
        causes.append(invalid_value(f"{here}.lendablePercent", lendable, "must be between 0 and 100, inclusive"))


def _check_queuing(queuing: Object, here: str, causes: list[StatusCause]) -> None:
    queues, hand, length = queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"]
    if length <= 0:
        causes.append(invalid_value(f"{here}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        causes.append(invalid_value(f"{here}.queues", queues, "must be positive"))
    elif queues > QUEUES_MAX:
        causes.append(invalid_value(f"{here}.queues", queues, f"must not be greater than {QUEUES_MAX}"))
    if hand <= 0:
        causes.append(invalid_value(f"{here}.handSize", hand, "must be positive"))
    elif hand > queues:
        causes.append(invalid_value(f"{here}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif _count_entropy_bits(queues, hand) > ENTROPY_BITS_MAX:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than"
            f" {ENTROPY_BITS_MAX}"
        )
        causes.append(invalid_value(f"{here}.handSize", hand, detail))


def _count_entropy_bits(queues: int, hand: int) -> int:
    """How many bits it takes to choose so many of them, in order."""
    if hand > ENTROPY_BITS_MAX:
        return ENTROPY_BITS_MAX + 1 if queues > 1 else 0
    return ceil(sum(log2(queues - dealt) for dealt in range(hand)))


def _check_conditions(new: Object, causes: list[StatusCause]) -> None:
    seen: set[str] = set()
    for number, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        here, kind = f"status.conditions[{number}].type", condition.get("type") or ""
        if kind in seen:
            causes.append(duplicate(here, kind))
        seen.add(kind)
        if not kind:
            causes.append(required(here, "must not be empty"))


def _without_nothing(value: Any) -> Any:
    """The same without fields that are null, false or empty, which are as good as not there."""
    if isinstance(value, dict):
        kept = {key: _without_nothing(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, [], {}) and each is not False}
    return [_without_nothing(each) for each in value] if isinstance(value, list) else value


FLOW_SCHEMA = builtin(
    kind_names.FLOW_SCHEMAS,
    subresources=(STATUS,),
    defaults=_default_schema,
    prepare=own_status(),
    validate=_validate_schema,
)
PRIORITY_LEVEL = builtin(
    kind_names.PRIORITY_LEVELS,
    subresources=(STATUS,),
    defaults=_default_level,
    prepare=own_status(),
    validate=_validate_level,
)

KINDS = (FLOW_SCHEMA, PRIORITY_LEVEL)
