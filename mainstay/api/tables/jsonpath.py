"""Where in an object a column finds its value: the part of JSONPath that column definitions use.

    .spec.count    .metadata.labels.app\\.kubernetes\\.io/name    .metadata.labels['app']
    .spec.rules[0]    .spec.rules[-1].host    .spec.rules[0:2]    .spec.rules[*].host
    .status.conditions[?(@.type=="Ready")].status

A path is read once (`compile_path`) and then followed in many objects (`Path.find`). A step into what is not there
finds nothing; a step that makes no sense, such as an index into a text or a comparison of a text with a number, is
`Astray`.

Not here: descent into all depths (`..`), unions (`[0,2]`) and ranges, which make no single value.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

_FIELD: Final = re.compile(r"\.?((?:\\.|[^.\[\]\\\s(){}'\"$@*?,|&=!<>])+)")
_EVERY: Final = re.compile(r"\.\*|\[\*\]")
_QUOTED_FIELD: Final = re.compile(r"\.?\[(?:'([^']*)'|\"([^\"]*)\")\]")
_PART: Final = re.compile(r"\.?\[(-?\d*)(?:(:)(-?\d*)(?::(-?\d*))?)?\]", re.ASCII)
_FILTER: Final = re.compile(r"\.?\[\?\(((?:[^'\"()]|'[^']*'|\"[^\"]*\")*)\)\]")
_COMPARISON: Final = re.compile(r"((?:[^'\"<>=!]|'[^']*'|\"[^\"]*\")+)(?:(==|!=|<=|>=|<|>)(.*))?", re.DOTALL)
_LENGTH_MAX: Final = 1000  # Of a path. An honest one is a tenth of that.
_DIGITS_MAX: Final = 15  # Of a number in a path.

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Astray(Exception):
    """A path makes no sense in an object."""


@dataclass(frozen=True, slots=True)
class PathField:
    name: str

    def find(self, value: Any) -> Sequence[Any]:
        return [value[self.name]] if isinstance(value, dict) and self.name in value else []


@dataclass(frozen=True, slots=True)
class Every:
    def find(self, value: Any) -> Sequence[Any]:
        if isinstance(value, dict):
            return [value[key] for key in sorted(value)]
        return value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class PathIndex:
    position: int

    def find(self, value: Any) -> Sequence[Any]:
        if value is None:
            return []
        if not isinstance(value, list) or not -len(value) <= self.position < len(value):
            raise Astray(f"there is no element {self.position}")
        return [value[self.position]]


@dataclass(frozen=True, slots=True)
class PathSlice:
    part: slice

    def find(self, value: Any) -> Sequence[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise Astray("only a list has a part")
        return value[self.part]


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Filter:
    left: "Path"
    compare: str
    """Empty: it is enough that something is there."""
    right: "Path | Literal"

    def find(self, value: Any) -> Sequence[Any]:
        if not isinstance(value, list):
            raise Astray("only a list can be filtered")
        return [each for each in value if self._holds(each)]

    def _holds(self, value: Any) -> bool:
        if not self.compare:
            try:
                return bool(self.left.find(value))
            except Astray:
                return False
        left = self.left.find(value)
        right = [self.right.value] if isinstance(self.right, Literal) else self.right.find(value)
        if not left or not right:
            return False
        if len(left) > 1 or len(right) > 1:
            raise Astray("only one value can be compared with another")
        return _compared(left[0], self.compare, right[0])


Step = PathField | Every | PathIndex | PathSlice | Filter


@dataclass(frozen=True, slots=True)
class Path:
    steps: tuple[Step, ...]

    def find(self, value: Any) -> Sequence[Any]:
        """All that the path leads to. Raises `Astray`."""
        found: Sequence[Any] = [value]
        for step in self.steps:
            found = [each for value in found for each in step.find(value)]
        return found


def compile_path(text: str) -> Path | None:
    """The path that a text describes. None if it describes none, or one that is not followed here."""
    if len(text) > _LENGTH_MAX:
        return None
    steps: list[Step] = []
    rest = text.strip().removeprefix("$")
    while rest:
        read = _step(rest)
        if read is None:
            return None
        step, length = read
        steps.append(step)
        rest = rest[length:]
    return Path(tuple(steps))


def _step(text: str) -> tuple[Step, int] | None:
    step: Step | None = None
    if match := _EVERY.match(text):
        step = Every()
    elif match := _QUOTED_FIELD.match(text):
        step = PathField(match[1] if match[1] is not None else match[2])
    elif match := _PART.match(text):
        step = _part(match)
    elif match := _FILTER.match(text):
        step = _filter(match[1])
    elif match := _FIELD.match(text):
        step = PathField(re.sub(r"\\(.)", r"\1", match[1]))
    return None if step is None or match is None else (step, match.end())


def _part(match: re.Match[str]) -> PathIndex | PathSlice | None:
    numbers = [match[1], match[3], match[4]]
    if any(each and (each == "-" or len(each) > _DIGITS_MAX) for each in numbers):
        return None
    start, stop, step = (int(each) if each else None for each in numbers)
    if not match[2]:
        return None if start is None else PathIndex(start)
    return None if step is not None and step <= 0 else PathSlice(slice(start, stop, step))


def _filter(text: str) -> Filter | None:
    match = _COMPARISON.fullmatch(text.strip())
    left = _operand(match[1]) if match else None
    if match is None or not isinstance(left, Path):
        return None
    if not match[2]:
        return Filter(left, "", left)
    right = _operand(match[3])
    return None if right is None else Filter(left, match[2], right)


def _operand(text: str) -> Path | Literal | None:
    text = text.strip()
    if text.startswith("@"):
        return compile_path(text[1:])
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0] and text[0] not in text[1:-1]:
        return Literal(text[1:-1])
    if text in ("true", "false"):
        return Literal(text == "true")
    if re.fullmatch(r"-?\d+", text, re.ASCII) and len(text) <= _DIGITS_MAX:
        return Literal(int(text))
    return Literal(float(text)) if re.fullmatch(r"-?\d+\.\d+", text, re.ASCII) else None


def _compared(left: Any, compare: str, right: Any) -> bool:
    is_ordered = isinstance(left, str | int | float) and not isinstance(left, bool)
    if type(left) is not type(right) or not (is_ordered or isinstance(left, bool)):
        raise Astray("only values of one type can be compared")
    if not is_ordered and compare not in ("==", "!="):
        raise Astray("neither truth nor falsehood is the greater")
    return _OPERATORS[compare](left, right)
