"""Who may do what: roles, and who has them."""

from collections.abc import Sequence
from functools import partial

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, forbidden_value, not_supported, required
from mainstay.api.kind import Object
from mainstay.api.kinds.checks import check_selector, check_subdomain, invalid_json
from mainstay.api.kinds.declare import builtin, child, fill

_GROUP = "rbac.authorization.k8s.io"
_NOT_ALLOWED_TOGETHER = "rules cannot apply to both regular resources and non-resource URLs"


def _default_role(new: Object) -> None:
    fill(new, rules=[])


def _default_binding(new: Object) -> None:
    reference = child(new, "roleRef")
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _GROUP
    for subject in new.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _GROUP


def _validate_role(new: Object, old: Object | None, *, is_namespaced: bool) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    for number, rule in enumerate(new.get("rules") or ()):
        here = f"rules[{number}]"
        if not rule.get("verbs"):
            causes.append(required(f"{here}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if is_namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                causes.append(invalid_json(f"{here}.nonResourceURLs", rule["nonResourceURLs"], detail))
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                causes.append(invalid_json(f"{here}.nonResourceURLs", rule["nonResourceURLs"], _NOT_ALLOWED_TOGETHER))
            continue
        if not rule.get("apiGroups"):
            causes.append(required(f"{here}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(required(f"{here}.resources", "resource rules must supply at least one resource"))
    aggregation = new.get("aggregationRule")
    if aggregation is not None and not is_namespaced:
        selectors = aggregation.get("clusterRoleSelectors")
        if not selectors:
            detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            causes.append(required("aggregationRule.clusterRoleSelectors", detail))
        for number, selector in enumerate(selectors or ()):
            check_selector(selector, f"aggregationRule.clusterRoleSelectors[{number}]", causes)
    return causes


def _validate_binding(new: Object, old: Object | None, *, is_namespaced: bool) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    reference = new["roleRef"]
    if reference.get("apiGroup") != _GROUP:
        causes.append(not_supported("roleRef.apiGroup", reference.get("apiGroup"), (_GROUP,)))
    kinds = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        causes.append(not_supported("roleRef.kind", reference.get("kind") or "", kinds))
    if not reference.get("name"):
        causes.append(required("roleRef.name"))
    for number, subject in enumerate(new.get("subjects") or ()):
        _check_subject(subject, f"subjects[{number}]", is_namespaced, causes)
    if old is not None and reference != old.get("roleRef"):
        causes.append(invalid_json("roleRef", reference, "cannot change roleRef"))
    return causes


def _check_subject(subject: Object, here: str, is_namespaced: bool, causes: list[StatusCause]) -> None:
    kind, name, group = subject.get("kind") or "", subject.get("name"), subject.get("apiGroup") or ""
    if not name:
        causes.append(required(f"{here}.name"))
    if kind == "ServiceAccount":
        if name:
            check_subdomain(name, here, ".name", causes)
        if group:
            causes.append(not_supported(f"{here}.apiGroup", group, ("",)))
        if not is_namespaced and not subject.get("namespace"):
            causes.append(required(f"{here}.namespace"))
    elif kind in ("User", "Group"):
        if group != _GROUP:
            causes.append(not_supported(f"{here}.apiGroup", group, (_GROUP,)))
        if subject.get("namespace"):
            causes.append(forbidden_value(f"{here}.namespace", f"may not be set for a {kind}"))
    else:
        causes.append(not_supported(f"{here}.kind", kind, ("ServiceAccount", "User", "Group")))


_rbac = partial(builtin, name_rule="path", has_generation=False, put_creates=True)

ROLE = _rbac(kind_names.ROLES, defaults=_default_role, validate=partial(_validate_role, is_namespaced=True))
CLUSTER_ROLE = _rbac(
    kind_names.CLUSTER_ROLES, defaults=_default_role, validate=partial(_validate_role, is_namespaced=False)
)
ROLE_BINDING = _rbac(
    kind_names.ROLE_BINDINGS, defaults=_default_binding, validate=partial(_validate_binding, is_namespaced=True)
)
CLUSTER_ROLE_BINDING = _rbac(
    kind_names.CLUSTER_ROLE_BINDINGS,
    defaults=_default_binding,
    validate=partial(_validate_binding, is_namespaced=False),
)

KINDS = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)
