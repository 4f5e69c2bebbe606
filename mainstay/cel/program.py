"""Compile expressions and evaluate them.

    language = Language(("object", "request"))
    rule = language.compile("object.spec.replicas <= 5")          # BadExpression: line, column, what is wrong
    inputs = language.bind({"object": {...}, "request": {...}}, Budget())   # converted once, when first needed
    rule.evaluate(inputs)                                         # JSON values; EvaluationFailed, CostExceeded

Variables are of any type, as JSON is. A field that is not there is a failure, unless the expression asks `has(…)`, or
reads it as `object.?field`. An evaluation takes at most `COST_MAX_NS`: one that could take longer is not begun
(cost.py). So it can run on the event loop, and needs neither a thread nor a time limit.

The library is imported with the first `Language`: a server without rules does without it.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mainstay.cel.cost import bound_cost
from mainstay.cel.errors import BadExpression, CostExceeded, EvaluationFailed
from mainstay.cel.size import Size, measure
from mainstay.cel.syntax_tree import TreeNode, find_names, find_patterns, find_selected, read_tree
from mainstay.cel.typed_literals import Rewritten, rewrite_literals

if TYPE_CHECKING:
    from cel_expr_python import cel

COST_MAX_NS: Final = 10_000_000
"""Of one evaluation. See cost.py."""
LENGTH_MAX: Final = 10_000
"""Characters of an expression."""
PROGRAMS_MAX: Final = 1_000
"""Compiled expressions that are kept for each language."""
_BOUNDS_MAX: Final = 64

_ERROR: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_STATUS: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_UNDECLARED: Final = re.compile(r"undeclared reference to '(\w+)'")
_KUBERNETES_FUNCTIONS: Final = frozenset(
    (
        *("quantity", "isQuantity", "ip", "isIP", "cidr", "isCIDR", "url", "isURL", "semver", "isSemver"),
        *("sets", "find", "findAll", "isSorted", "sum", "min", "max"),
    )
)
"""What Kubernetes adds to CEL and this library has not. docs/guides/admission.md names them."""
_PRECISION: Final = re.compile(r"%[^a-z%]{4,}")


class CelProgram:
    """A compiled expression."""

    def __init__(self, source: str, compiled: "cel.Expression", tree: TreeNode) -> None:
        self.source = source
        self.names: Final = tuple(sorted(find_names(tree)))
        self.tree: Final = tree
        self._compiled = compiled
        self._bounds: dict[tuple[Size, ...], float] = {}
        self._selected: dict[str, tuple[str, ...]] = {}

    def find_selected(self, name: str) -> tuple[str, ...]:
        """The fields of a variable that it reads by name."""
        known = self._selected.get(name)
        if known is None:
            known = self._selected[name] = find_selected(self.tree, name)
        return known

    @property
    def result_type(self) -> str:
        """BOOL, STRING, …; DYN if that is only known when it is evaluated."""
        return str(self._compiled.return_type().name())

    def evaluate(self, inputs: "Inputs") -> Any:
        """Its value, as JSON has them. Raises `EvaluationFailed`, `CostExceeded`."""
        cost = self._bound(inputs)
        if cost > COST_MAX_NS:
            raise CostExceeded(
                f"the expression could take {cost / 1e6:.0f} ms for objects of this size, and may take"
                f" {COST_MAX_NS / 1e6:.0f}: let it look at less"
            )
        inputs.budget.spend(cost)
        try:
            found = self._compiled.eval(activation=inputs.activation)
            value = found.plain_value()
        except (RuntimeError, TypeError) as error:
            raise EvaluationFailed(_STATUS.sub("", str(error).partition("\n")[0])) from None
        if found.type().name() == "ERROR":
            raise EvaluationFailed(_STATUS.sub("", str(value)))
        return _to_json(value)

    def _bound(self, inputs: "Inputs") -> float:
        sizes = {name: inputs.size(name) for name in self.names if name in inputs.values}
        key = tuple(sizes.values())
        known = self._bounds.get(key)
        if known is None:
            if len(self._bounds) >= _BOUNDS_MAX:
                self._bounds.clear()
            known = self._bounds[key] = bound_cost(self.tree, sizes)
        return known


class Budget:
    """What several evaluations may take together."""

    def __init__(self, left_ns: float = COST_MAX_NS) -> None:
        self._left_ns = left_ns

    def spend(self, cost_ns: float) -> None:
        """Raises `CostExceeded`."""
        self._left_ns -= cost_ns
        if self._left_ns < 0:
            raise CostExceeded("the expressions could together take longer than they may: let them look at less")


class Inputs:
    """Values of variables, for any number of programs of one language. Do not change the values meanwhile."""

    def __init__(self, env: "cel.Env", values: Mapping[str, Any], budget: Budget) -> None:
        self.values = values
        self.budget = budget
        self.activation = env.Activation(data=dict(values))
        self._sizes: dict[str, Size] = {}

    def size(self, name: str) -> Size:
        """Raises `CostExceeded`."""
        known = self._sizes.get(name)
        if known is None:
            known = self._sizes[name] = measure(self.values[name]).rounded()
        return known


class Language:
    """Expressions over these variables. With `has_literals`, also the types of mutations (typed_literals.py)."""

    def __init__(self, variables: Sequence[str], *, has_literals: bool = False) -> None:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

        extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_bindings.ExtBindings()]
        self._env = cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN), extensions=extensions)
        self._has_literals = has_literals
        self._compile = lru_cache(maxsize=PROGRAMS_MAX)(self._compile_now)

    def compile(self, source: str) -> CelProgram:
        """Raises `BadExpression`. What was compiled lately is remembered."""
        if len(source) > LENGTH_MAX:
            raise BadExpression(f"too long: {len(source)} characters; at most {LENGTH_MAX} are compiled")
        return self._compile(source)

    def bind(self, values: Mapping[str, Any], budget: Budget) -> Inputs:
        """Values of some of the variables: JSON objects. The others are not there."""
        return Inputs(self._env, values, budget)

    def _compile_now(self, source: str) -> CelProgram:
        if _PRECISION.search(source):
            raise BadExpression("a format with a width or precision of more than two digits is not supported")
        rewritten = rewrite_literals(source) if self._has_literals else None
        try:
            compiled = self._env.compile(source if rewritten is None else rewritten.text)
        except (RuntimeError, TypeError, UnicodeError) as error:
            raise BadExpression(_describe(str(error), rewritten)) from None
        program = CelProgram(source, compiled, read_tree(compiled.serialize()))
        for pattern in find_patterns(program.tree):
            self._require_pattern(pattern)
        return program

    def _require_pattern(self, pattern: str) -> None:
        """Raises `BadExpression` if a regular expression cannot be used: only an evaluation can tell."""
        compiled = self._env.compile(f"''.matches({msgspec.json.encode(pattern).decode()})")
        trial = CelProgram("", compiled, read_tree(compiled.serialize()))
        try:
            trial.evaluate(self.bind({}, Budget()))
        except CostExceeded:
            return  # What it costs is bounded with each evaluation.
        except EvaluationFailed as error:
            raise BadExpression(str(error)) from None


def _describe(text: str, rewritten: Rewritten | None = None) -> str:
    """The first error that the compiler reports, for the author of the expression."""
    found = _ERROR.search(text)
    if found is None:
        return _STATUS.sub("", text.partition("\n")[0])
    line, column, message = found.groups()
    message = message.removesuffix(" [INVALID_ARGUMENT]").replace(" (in container '')", "")
    undeclared = _UNDECLARED.search(message)
    if undeclared is not None and undeclared.group(1) in _KUBERNETES_FUNCTIONS:
        message += ": this function of Kubernetes is not supported"
    if rewritten is not None:
        column = rewritten.find_column(int(line), int(column))
    return message if int(line) < 1 else f"line {line}, column {column}: {message}"


def _to_json(value: Any) -> Any:
    match value:
        case dict():
            # The library's maps have no order, and another one in each process.
            return {str(key): _to_json(value[key]) for key in sorted(value, key=str)}
        case list():
            return [_to_json(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case datetime() | timedelta():
            return value
        case bytearray() | bytes():
            return bytes(value)
        case other:
            raise EvaluationFailed(f"the result is a {type(other).__name__}, which is no value of JSON")
