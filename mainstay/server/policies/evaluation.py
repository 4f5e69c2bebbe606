"""What one validating policy says about one write, with one object of parameters: plain functions of values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.kind import Kind, Object
from mainstay.server.auth.authorization import User
from mainstay.server.policies.expressions import (
    DEFAULT_REASON,
    ExpressionFailed,
    PolicyExpressions,
    PolicyViolation,
    language,
)
from mainstay.server.policies.match_rules import PolicyWrite

MESSAGE_LENGTH_MAX: Final = 5 * 1024
ANNOTATION_LENGTH_MAX: Final = 10 * 1024


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    violations: tuple[PolicyViolation, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """For the audit log."""


NOT_CONCERNED: Final = PolicyVerdict()


def evaluate(spec: Mapping[str, Any], fails_closed: bool, values: Mapping[str, Any]) -> PolicyVerdict:
    """`values` are those of the variables that a write has, all but `variables`."""
    scope = PolicyExpressions(language(), spec, values)
    violations: list[PolicyViolation] = []
    try:
        if not scope.is_met():
            return NOT_CONCERNED
    except ExpressionFailed as failed:
        return PolicyVerdict((failed.violation,)) if fails_closed else NOT_CONCERNED
    for index, validation in enumerate(spec.get("validations") or ()):
        try:
            found = _validate(validation, index, scope)
        except ExpressionFailed as failed:
            found = failed.violation if fails_closed else None
        if found is not None:
            violations.append(found)
    annotations: list[tuple[str, str]] = []
    for each in spec.get("auditAnnotations") or ():
        try:
            value = scope.evaluate(each["valueExpression"], -1)
        except ExpressionFailed as failed:
            if fails_closed:
                violations.append(failed.violation)
            continue
        if isinstance(value, str):
            annotations.append((each["key"], value[:ANNOTATION_LENGTH_MAX]))
    return PolicyVerdict(tuple(violations), tuple(annotations))


def describe_request(write: PolicyWrite, user: User, *, is_dry_run: bool) -> Object:
    """The variable `request`."""
    kind = write.kind
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    sort = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    described = {
        "kind": sort,
        "resource": resource,
        "requestKind": sort,
        "requestResource": resource,
        "name": write.name,
        "operation": write.operation,
        "userInfo": user.info(),
        "dryRun": is_dry_run,
    }
    if write.subresource:
        described["subResource"] = described["requestSubResource"] = write.subresource
    if write.namespace:
        described["namespace"] = write.namespace
    return described


def show_object(kind: Kind, obj: Object | None) -> Object | None:
    """An object with its kind, as clients see it."""
    return None if obj is None else {"apiVersion": kind.group_version, "kind": kind.kind, **obj}


def _validate(validation: Mapping[str, Any], index: int, scope: PolicyExpressions) -> PolicyViolation | None:
    source = validation["expression"]
    if scope.evaluate(source, index) is True:
        return None
    message = (validation.get("message") or "").strip() or f"failed expression: {source.strip()}"
    if validation.get("messageExpression"):
        try:
            said = scope.evaluate(validation["messageExpression"], index)
        except ExpressionFailed:
            said = None  # Then the message without it will have to do.
        if isinstance(said, str) and said.strip() and "\n" not in said.strip() and len(said) <= MESSAGE_LENGTH_MAX:
            message = said.strip()
    return PolicyViolation(message, validation.get("reason") or DEFAULT_REASON, source.strip(), index)
