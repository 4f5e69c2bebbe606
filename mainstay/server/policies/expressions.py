"""Evaluates the expressions of one policy: what those that validate and those that mutate have in common.

All expressions of a policy share one `Budget`: the event loop waits for a policy no longer than an evaluation may take.
Variables are evaluated when an expression needs them, each once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mainstay.cel.errors import BadExpression, EvaluationFailed
from mainstay.cel.program import Budget, CelProgram, Language

VARIABLES: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
DEFAULT_REASON: Final = "Invalid"


@cache
def language() -> Language:
    """What the expressions of policies are written in. Imports the library of CEL when first called."""
    return Language(VARIABLES)


@cache
def mutation_language() -> Language:
    """The same with the types of mutations, `Object` and `JSONPatch`."""
    return Language(VARIABLES, has_literals=True)


@dataclass(frozen=True, slots=True)
class PolicyViolation:
    """A validation that a write does not keep, or that could not be evaluated."""

    message: str
    reason: str
    expression: str
    index: int
    """Of the validation; -1 if it is none of them."""


class ExpressionFailed(Exception):
    def __init__(self, violation: PolicyViolation) -> None:
        super().__init__(violation.message)
        self.violation = violation


class PolicyExpressions:
    """Those of one policy, for one write and one object of parameters. `values` are those of the variables that a write
    has, all but `variables`."""

    def __init__(
        self, written_in: Language, spec: Mapping[str, Any], values: Mapping[str, Any], budget: Budget | None = None
    ) -> None:
        self._language = written_in
        self._spec = spec
        self._values = values
        self._budget = budget or Budget()
        self._plain = written_in.bind(values, self._budget)
        self._sources = {each["name"]: each["expression"] for each in spec.get("variables") or ()}
        self._known: dict[str, Any] = {}

    def is_met(self) -> bool:
        """Whether all `matchConditions` are. One that is not decides, even if another fails."""
        failed: ExpressionFailed | None = None
        for condition in self._spec.get("matchConditions") or ():
            try:
                if self.evaluate(condition["expression"], -1) is not True:
                    return False
            except ExpressionFailed as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return True

    def evaluate(self, source: str, index: int) -> Any:
        """Raises `ExpressionFailed`."""
        try:
            return self._evaluate(source)
        except (EvaluationFailed, BadExpression) as error:
            text = f"expression '{source.strip()}' resulted in error: {error}"
            raise ExpressionFailed(PolicyViolation(text, DEFAULT_REASON, source.strip(), index)) from None

    def _evaluate(self, source: str) -> Any:
        program = self._language.compile(source)
        if "variables" not in program.names:
            return program.evaluate(self._plain)
        for name in find_variables(program, self._sources):
            self._find(name)
        # Another binding of the same values: what this policy knows by now is one of them.
        return program.evaluate(self._language.bind({**self._values, "variables": self._known}, self._budget))

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
