"""Admission policies and their bindings: rules in CEL that a write must keep (ValidatingAdmissionPolicy) or that change
what is written (MutatingAdmissionPolicy), and where they hold.

What is wrong with an expression is not known here: the API server compiles it when a policy is written
(server/policies/policy_review.py), and evaluates it with every write that matches (server/policies/).
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from mainstay.api import kind_names, names
from mainstay.api.errors import (
    StatusCause,
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
)
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.checks import check_one_of, check_qualified, check_selector, check_subdomain, too_many
from mainstay.api.kinds.declare import builtin, child, fill

MATCH_CONDITIONS_MAX: Final = 64
RULES_MAX: Final = 1000  # Of one list of a policy. Kubernetes bounds what they cost instead.
ACTIONS: Final = ("Audit", "Deny", "Warn")
REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
PATCH_TYPES: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
REINVOCATIONS: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")
_OPERATIONS_MUTATED: Final = ("*", "CREATE", "UPDATE", "CONNECT")  # A deletion has no object that could be changed.
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")


def _default_match(match: Object) -> None:
    fill(match, namespaceSelector={}, objectSelector={}, matchPolicy="Equivalent")
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            fill(rule, scope="*")


def _default_policy(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, failurePolicy="Fail")
    if spec.get("matchConstraints") is not None:
        _default_match(spec["matchConstraints"])


def _default_binding(new: Object) -> None:
    spec = child(new, "spec")
    if spec.get("matchResources") is not None:
        _default_match(spec["matchResources"])


def _prepare_policy(new: Object, old: Object | None) -> None:
    """A policy that is stored was compiled: what Kubernetes' controller reports later is known at once."""
    generation = 1
    if old is not None:
        generation = old["metadata"].get("generation", 1) + (new.get("spec") != old.get("spec"))
    new["status"] = {"observedGeneration": generation, "typeChecking": {}}


def _check_policy(spec: Object, operations: Sequence[str], causes: list[StatusCause]) -> None:
    """What policies of both sorts have."""
    check_one_of(spec, "failurePolicy", ("Fail", "Ignore"), "spec", causes)
    if spec.get("paramKind") is not None:
        _check_parameter_kind(spec["paramKind"], "spec.paramKind", causes)
    match = spec.get("matchConstraints")
    if match is None:
        causes.append(required("spec.matchConstraints"))
    else:
        _check_match(match, operations, "spec.matchConstraints", causes)
        if not match.get("resourceRules"):
            causes.append(required("spec.matchConstraints.resourceRules"))
    _check_named(spec, "matchConditions", causes)
    if len(spec.get("matchConditions") or ()) > MATCH_CONDITIONS_MAX:
        causes.append(too_many("spec.matchConditions", len(spec["matchConditions"]), MATCH_CONDITIONS_MAX))
    _check_named(spec, "variables", causes)
    for number, each in enumerate(spec.get("variables") or ()):
        name = each.get("name") or ""
        if name and not _IDENTIFIER.fullmatch(name):
            causes.append(invalid_value(f"spec.variables[{number}].name", name, "name is not a valid CEL identifier"))
    for field in ("validations", "auditAnnotations", "variables", "mutations"):
        if len(spec.get(field) or ()) > RULES_MAX:
            causes.append(too_many(f"spec.{field}", len(spec[field]), RULES_MAX))


def _validate_policy(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    _check_policy(spec, _OPERATIONS, causes)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        text = "validations or auditAnnotations must be provided"
        causes += [required("spec.validations", text), required("spec.auditAnnotations", text)]
    for number, each in enumerate(validations):
        _check_validation(each, f"spec.validations[{number}]", causes)
    seen: set[str] = set()
    for number, each in enumerate(annotations):
        _check_annotation(each, new["metadata"].get("name") or "", f"spec.auditAnnotations[{number}]", seen, causes)
    return causes


def _validate_mutating_policy(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    _check_policy(spec, _OPERATIONS_MUTATED, causes)
    if not spec.get("reinvocationPolicy"):
        causes.append(required("spec.reinvocationPolicy"))
    else:
        check_one_of(spec, "reinvocationPolicy", REINVOCATIONS, "spec", causes)
    if not spec.get("mutations"):
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for number, each in enumerate(spec.get("mutations") or ()):
        _check_mutation(each, f"spec.mutations[{number}]", causes)
    return causes


def _check_mutation(mutation: Object, here: str, causes: list[StatusCause]) -> None:
    patch_type = mutation.get("patchType")
    if not patch_type:
        causes.append(required(f"{here}.patchType"))
    elif patch_type not in PATCH_TYPES:
        causes.append(not_supported(f"{here}.patchType", patch_type, tuple(PATCH_TYPES)))
    for name, field in PATCH_TYPES.items():
        if name == patch_type:
            if not ((mutation.get(field) or {}).get("expression") or "").strip():
                causes.append(required(f"{here}.{field}.expression", "expression is not specified"))
        elif mutation.get(field) is not None:
            causes.append(forbidden_value(f"{here}.{field}", f"must not be specified when patchType is {patch_type}"))


def _check_validation(validation: Object, here: str, causes: list[StatusCause]) -> None:
    if not (validation.get("expression") or "").strip():
        causes.append(required(f"{here}.expression", "expression is not specified"))
    message = validation.get("message") or ""
    if message and not message.strip():
        causes.append(invalid_value(f"{here}.message", message, "message must be non-empty if specified"))
    elif "\n" in message.strip():
        causes.append(invalid_value(f"{here}.message", message, "message must not contain line breaks"))
    elif not message and "\n" in (validation.get("expression") or "").strip():
        causes.append(required(f"{here}.message", "message must be specified if expression contains line breaks"))
    if validation.get("reason") is not None and validation["reason"] not in REASONS:
        causes.append(not_supported(f"{here}.reason", validation["reason"], REASONS))


def _check_annotation(each: Object, policy: str, here: str, seen: set[str], causes: list[StatusCause]) -> None:
    key = each.get("key") or ""
    if not key:
        causes.append(required(f"{here}.key", "auditAnnotations must have a key"))
    else:
        check_qualified(f"{policy}/{key}" if policy else key, f"{here}.key", causes)
        if key in seen:
            causes.append(duplicate(f"{here}.key", key))
        seen.add(key)
    if not (each.get("valueExpression") or "").strip():
        causes.append(required(f"{here}.valueExpression", "valueExpression is not specified"))


def _check_named(spec: Object, field: str, causes: list[StatusCause]) -> None:
    seen: set[str] = set()
    for number, each in enumerate(spec.get(field) or ()):
        here, name = f"spec.{field}[{number}]", each.get("name") or ""
        if not name:
            causes.append(required(f"{here}.name"))
        elif field == "matchConditions":
            check_qualified(name, f"{here}.name", causes)
        if name in seen:
            causes.append(duplicate(f"{here}.name", name))
        seen.add(name)
        if not (each.get("expression") or "").strip():
            causes.append(required(f"{here}.expression"))


def _check_parameter_kind(kind: Object, here: str, causes: list[StatusCause]) -> None:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version or version.count("/") > 1:
        causes.append(
            invalid_value(f"{here}.apiVersion", version, "must be a version, or a group and a version")
            if version
            else required(f"{here}.apiVersion")
        )
    if not name:
        causes.append(required(f"{here}.kind"))
    elif problems := names.label_1035(name.lower()):
        causes.append(
            invalid_value(f"{here}.kind", name, "may have mixed case, but should otherwise match: " + problems[0])
        )


def _check_match(match: Object, operations: Sequence[str], here: str, causes: list[StatusCause]) -> None:
    """Which requests are meant: of a policy, or of a binding."""
    check_one_of(match, "matchPolicy", ("Equivalent", "Exact"), here, causes)
    for field in ("namespaceSelector", "objectSelector"):
        if match.get(field):
            check_selector(match[field], f"{here}.{field}", causes)
    for field in ("resourceRules", "excludeResourceRules"):
        for number, rule in enumerate(match.get(field) or ()):
            _check_rule(rule, operations, f"{here}.{field}[{number}]", causes)


def _check_rule(rule: Object, operations: Sequence[str], here: str, causes: list[StatusCause]) -> None:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule.get(field) or ()
        if not values:
            causes.append(required(f"{here}.{field}"))
        if len(values) > 1 and "*" in values:
            text = "if '*' is present, must not specify other " + ("operations" if field == "operations" else "values")
            causes.append(invalid_value(f"{here}.{field}", ", ".join(map(str, values)), text))
    for number, operation in enumerate(rule.get("operations") or ()):
        if operation not in operations:
            causes.append(not_supported(f"{here}.operations[{number}]", operation, operations))
    for field in ("apiVersions", "resources"):
        for number, value in enumerate(rule.get(field) or ()):
            if not value:
                causes.append(required(f"{here}.{field}[{number}]"))
    for number, name in enumerate(rule.get("resourceNames") or ()):
        if not name:
            causes.append(required(f"{here}.resourceNames[{number}]"))
    check_one_of(rule, "scope", _SCOPES, here, causes)


def _check_binding(spec: Object, operations: Sequence[str]) -> list[StatusCause]:
    """What bindings of both sorts have."""
    causes: list[StatusCause] = []
    if not spec.get("policyName"):
        causes.append(required("spec.policyName"))
    else:
        check_subdomain(spec["policyName"], "spec.policyName", "", causes)
    if spec.get("paramRef") is not None:
        _check_parameter_reference(spec["paramRef"], "spec.paramRef", causes)
    if spec.get("matchResources") is not None:
        _check_match(spec["matchResources"], operations, "spec.matchResources", causes)
    return causes


def _validate_binding(new: Object, old: Object | None) -> Sequence[StatusCause]:
    spec = new["spec"]
    causes = _check_binding(spec, _OPERATIONS)
    _check_actions(spec.get("validationActions") or (), causes)
    return causes


def _validate_mutating_binding(new: Object, old: Object | None) -> Sequence[StatusCause]:
    return _check_binding(new["spec"], _OPERATIONS_MUTATED)


def _check_actions(actions: Sequence[Any], causes: list[StatusCause]) -> None:
    here = "spec.validationActions"
    if not actions:
        causes.append(required(here, "at least one validation action is required"))
    for number, action in enumerate(actions):
        if action not in ACTIONS:
            causes.append(not_supported(f"{here}[{number}]", action, ACTIONS))
        elif action in actions[:number]:
            causes.append(duplicate(f"{here}[{number}]", action))
    if "Deny" in actions and "Warn" in actions:
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API"
        causes.append(invalid_value(here, ", ".join(actions), f"{text} response and headers serves no purpose)"))


def _check_parameter_reference(reference: Object, here: str, causes: list[StatusCause]) -> None:
    name, selector = reference.get("name"), reference.get("selector")
    if not name and selector is None:
        causes.append(required(here, "one of name or selector must be specified"))
    elif name and selector is not None:
        causes.append(forbidden_value(f"{here}.name", "name and selector are mutually exclusive"))
    elif selector:
        check_selector(selector, f"{here}.selector", causes)
    if not reference.get("parameterNotFoundAction"):
        causes.append(required(f"{here}.parameterNotFoundAction"))
    else:
        check_one_of(reference, "parameterNotFoundAction", ("Allow", "Deny"), here, causes)


VALIDATING_ADMISSION_POLICY = builtin(
    kind_names.VALIDATING_ADMISSION_POLICIES,
    subresources=(STATUS,),
    defaults=_default_policy,
    prepare=_prepare_policy,
    validate=_validate_policy,
)
VALIDATING_ADMISSION_POLICY_BINDING = builtin(
    kind_names.VALIDATING_ADMISSION_POLICY_BINDINGS, defaults=_default_binding, validate=_validate_binding
)
MUTATING_ADMISSION_POLICY = builtin(
    kind_names.MUTATING_ADMISSION_POLICIES, defaults=_default_policy, validate=_validate_mutating_policy
)
MUTATING_ADMISSION_POLICY_BINDING = builtin(
    kind_names.MUTATING_ADMISSION_POLICY_BINDINGS, defaults=_default_binding, validate=_validate_mutating_binding
)

KINDS = (
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
)
