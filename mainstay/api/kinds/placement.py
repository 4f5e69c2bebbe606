"""Where a pod may and would like to run: tolerations, affinity and spreading, as parts of a pod spec."""

from collections.abc import Sequence

from mainstay.api.errors import StatusCause, duplicate, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import Object
from mainstay.api.kinds.checks import check_qualified, check_selector, invalid_json
from mainstay.api.names import label_value

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_tolerations(tolerations: Sequence[Object], path: str, causes: list[StatusCause]) -> None:
    for number, toleration in enumerate(tolerations):
        get = toleration.get
        key, operator, effect = get("key"), get("operator"), get("effect")
        if key:
            if "/" not in key or key[:19] != "node.kubernetes.io/":
                check_qualified(key, f"{path}[{number}].key", causes)
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid_value(f"{path}[{number}].operator", operator or "", detail))
        if get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid_value(f"{path}[{number}].effect", effect or "", detail))
        value = get("value")
        if operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                causes.append(invalid_json(f"{path}[{number}].operator", toleration, detail))
        elif operator and operator not in _OPERATORS:
            causes.append(not_supported(f"{path}[{number}].operator", operator, ("Equal", "Exists")))
        elif value:
            for problem in label_value(value):
                causes.append(invalid_value(f"{path}[{number}].operator", value, problem))
        if effect and effect not in EFFECTS:
            causes.append(not_supported(f"{path}[{number}].effect", effect, EFFECTS))


def check_spread(constraints: Sequence[Object], path: str, causes: list[StatusCause]) -> None:
    seen: set[tuple[str, str]] = set()
    for number, constraint in enumerate(constraints):
        here = f"{path}[{number}]"
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            causes.append(invalid_value(f"{here}.maxSkew", skew, "must be greater than zero"))
        key, otherwise = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not key:
            causes.append(required(f"{here}.topologyKey", "can not be empty"))
        else:
            check_qualified(key, f"{here}.topologyKey", causes)
        if otherwise not in _UNSATISFIABLE:
            causes.append(not_supported(f"{here}.whenUnsatisfiable", otherwise, _UNSATISFIABLE))
        if (key, otherwise) in seen:
            causes.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {otherwise}}}"))
        seen.add((key, otherwise))
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                causes.append(invalid_value(f"{here}.minDomains", domains, "must be greater than 0"))
            if otherwise != "DoNotSchedule":
                detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {otherwise}"
                causes.append(invalid_value(f"{here}.minDomains", domains, detail))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in ("Honor", "Ignore"):
                causes.append(not_supported(f"{here}.{field}", policy, ("Honor", "Ignore")))
        if constraint.get("labelSelector"):
            check_selector(constraint["labelSelector"], f"{here}.labelSelector", causes)


def check_affinity(affinity: Object, path: str, causes: list[StatusCause]) -> None:
    of_nodes = affinity.get("nodeAffinity")
    if of_nodes:
        here = f"{path}.nodeAffinity"
        wanted = of_nodes.get(_REQUIRED)
        if wanted is not None:
            check_node_selector(wanted, f"{here}.{_REQUIRED}", causes)
        for number, liked in enumerate(of_nodes.get(_PREFERRED) or ()):
            _check_weight(liked, f"{here}.{_PREFERRED}[{number}]", causes)
            _check_node_term(liked.get("preference") or {}, f"{here}.{_PREFERRED}[{number}].preference", causes)
    for name in ("podAffinity", "podAntiAffinity"):
        of_pods = affinity.get(name)
        if of_pods:
            here = f"{path}.{name}"
            for number, term in enumerate(of_pods.get(_REQUIRED) or ()):
                _check_pod_term(term, f"{here}.{_REQUIRED}[{number}]", causes)
            for number, liked in enumerate(of_pods.get(_PREFERRED) or ()):
                _check_weight(liked, f"{here}.{_PREFERRED}[{number}]", causes)
                term = liked.get("podAffinityTerm") or {}
                _check_pod_term(term, f"{here}.{_PREFERRED}[{number}].podAffinityTerm", causes)


def _check_weight(liked: Object, path: str, causes: list[StatusCause]) -> None:
    weight = liked.get("weight") or 0
    if not 0 < weight <= 100:
        causes.append(invalid_value(f"{path}.weight", weight, "must be in the range 1-100"))


def _check_pod_term(term: Object, path: str, causes: list[StatusCause]) -> None:
    if term.get("labelSelector"):
        check_selector(term["labelSelector"], f"{path}.labelSelector", causes)
    if term.get("namespaceSelector"):
        check_selector(term["namespaceSelector"], f"{path}.namespaceSelector", causes)
    key = term.get("topologyKey")
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        check_qualified(key, f"{path}.topologyKey", causes)


def check_node_selector(selector: Object, path: str, causes: list[StatusCause]) -> None:
    """Which nodes will do: of a pod, of a volume, of a device."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        causes.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
    for number, term in enumerate(terms or ()):
        _check_node_term(term, f"{path}.nodeSelectorTerms[{number}]", causes)


def _check_node_term(term: Object, path: str, causes: list[StatusCause]) -> None:
    for number, wanted in enumerate(term.get("matchExpressions") or ()):
        _check_node_requirement(wanted, f"{path}.matchExpressions[{number}]", causes)
    for number, wanted in enumerate(term.get("matchFields") or ()):
        here = f"{path}.matchFields[{number}]"
        values = wanted.get("values") or ()
        if wanted.get("operator") not in ("In", "NotIn"):
            causes.append(
                invalid_value(f"{here}.operator", wanted.get("operator") or "", "not a valid selector operator")
            )
        elif len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            causes.append(required(f"{here}.values", detail))
        if wanted.get("key") != "metadata.name":
            causes.append(invalid_value(f"{here}.key", wanted.get("key") or "", "not a valid field selector key"))


def _check_node_requirement(wanted: Object, path: str, causes: list[StatusCause]) -> None:
    operator, values = wanted.get("operator") or "", wanted.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_value(f"{path}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{path}.values", detail))
    else:
        causes.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    check_qualified(wanted.get("key") or "", f"{path}.key", causes)
