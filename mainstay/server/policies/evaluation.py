"""What one policy says about one write, with one object of parameters: plain functions of values.

All expressions of a policy share one `Budget`: the event loop waits for a policy no longer than an evaluation may take.
Variables are evaluated when an expression needs them, each once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mainstay.api.kind import Kind, Object
from mainstay.cel.errors import BadExpression, EvaluationFailed
from mainstay.cel.program import Budget, CelProgram, Language
from mainstay.server.auth.authorization import User
from mainstay.server.policies.match_rules import PolicyWrite

VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
MESSAGE_LENGTH_MAX: Final = 5 * 1024
DEFAULT_REASON: Final = "Invalid"
ANNOTATION_LENGTH_MAX: Final = 10 * 1024


@cache
def language() -> Language:
    """What the expressions of policies are written in. Imports the library of CEL when first called."""
    return Language(VARIABLES)


@dataclass(frozen=True, slots=True)
class PolicyViolation:
    """A validation that a write does not keep, or that could not be evaluated."""

    message: str
    reason: str
    expression: str
    index: int
    """Of the validation; -1 if it is none of them."""


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    violations: tuple[PolicyViolation, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """For the audit log."""


NOT_CONCERNED: Final = PolicyVerdict()


def evaluate(spec: Mapping[str, Any], fails_closed: bool, values: Mapping[str, Any]) -> PolicyVerdict:
    """`values` are those of the variables that a write has, all but `variables`."""
    scope = _Scope(spec, values)
    violations: list[PolicyViolation] = []
    try:
        if not _is_met(spec, scope):
            return NOT_CONCERNED
    except _Failed as failed:
        return PolicyVerdict((failed.violation,)) if fails_closed else NOT_CONCERNED
    for index, validation in enumerate(spec.get("validations") or ()):
        try:
            found = _validate(validation, index, scope)
        except _Failed as failed:
            found = failed.violation if fails_closed else None
        if found is not None:
            violations.append(found)
    annotations: list[tuple[str, str]] = []
    for each in spec.get("auditAnnotations") or ():
        try:
            value = scope.evaluate(each["valueExpression"], -1)
        except _Failed as failed:
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


class _Failed(Exception):
    def __init__(self, violation: PolicyViolation) -> None:
        super().__init__(violation.message)
        self.violation = violation


class _Scope:
    """Evaluates expressions of one policy."""

    def __init__(self, spec: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._values = values
        self._budget = Budget()
        self._plain = language().bind(values, self._budget)
        self._sources = {each["name"]: each["expression"] for each in spec.get("variables") or ()}
        self._known: dict[str, Any] = {}

    def evaluate(self, source: str, index: int) -> Any:
        try:
            return self._evaluate(source)
        except (EvaluationFailed, BadExpression) as error:
            text = f"expression '{source.strip()}' resulted in error: {error}"
            raise _Failed(PolicyViolation(text, DEFAULT_REASON, source.strip(), index)) from None

    def _evaluate(self, source: str) -> Any:
        program = language().compile(source)
        if "variables" not in program.names:
            return program.evaluate(self._plain)
        for name in find_variables(program, self._sources):
            self._find(name)
        # Another binding of the same values: what this policy knows by now is one of them.
        return program.evaluate(language().bind({**self._values, "variables": self._known}, self._budget))

    def _find(self, name: str) -> None:
        if name in self._known:
            return
        source = self._sources.get(name)
        if source is None:
            raise EvaluationFailed(f"there is no variable {name}")
        del self._sources[name]  # A variable that needs itself is not found.
        value = self._evaluate(source)  # Which may come to know others.
        self._known = {**self._known, name: value}


def find_variables(program: CelProgram, declared: Mapping[str, str]) -> tuple[str, ...]:
    """The variables of its policy that an expression needs."""
    return program.find_selected("variables") or tuple(declared)


def _is_met(spec: Mapping[str, Any], scope: _Scope) -> bool:
    """Whether all `matchConditions` are. One that is not decides, even if another fails."""
    failed: _Failed | None = None
    for condition in spec.get("matchConditions") or ():
        try:
            if scope.evaluate(condition["expression"], -1) is not True:
                return False
        except _Failed as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return True


def _validate(validation: Mapping[str, Any], index: int, scope: _Scope) -> PolicyViolation | None:
    source = validation["expression"]
    if scope.evaluate(source, index) is True:
        return None
    message = (validation.get("message") or "").strip() or f"failed expression: {source.strip()}"
    if validation.get("messageExpression"):
        try:
            said = scope.evaluate(validation["messageExpression"], index)
        except _Failed:
            said = None  # Then the message without it will have to do.
        if isinstance(said, str) and said.strip() and "\n" not in said.strip() and len(said) <= MESSAGE_LENGTH_MAX:
            message = said.strip()
    return PolicyViolation(message, validation.get("reason") or DEFAULT_REASON, source.strip(), index)
