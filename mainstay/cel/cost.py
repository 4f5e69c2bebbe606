"""How long an expression can take at most, in nanoseconds of an ordinary machine, before it is evaluated.

The library stops after 10,000 iterations of all loops together, but one step may be as long as its values are large: a
text that doubles, two lists that are compared. So each evaluation is bounded beforehand, from the expression and the
sizes of its inputs, by going through the tree once with sizes in the place of values.

Two things keep the bound near the truth. `times` is how often a node is evaluated: loops multiply it, up to the
library's limit. And the elements of a list are together no larger than the list: an operation on an element is charged
with the whole list once for each pass through it (`SizeBound.passes`), and not once for each element.

The figures were measured (docs/decisions/0016-cel-by-googles-library.md) and rounded up.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from mainstay.cel.size import NOTHING, Size
from mainstay.cel.syntax_tree import AggregateNode, CallNode, LiteralNode, LoopNode, NameNode, SelectNode, TreeNode

ITERATIONS_MAX: Final = 10_000  # Of the library: then it gives up.

REPEATED_MAX: Final = 1_000  # How often RE2 repeats something by a count, all counts around it together.

_NODE_NS: Final = 40
_VALUE_NS: Final = 40  # To compare or copy one.
_COMPARED_NS: Final = 0.3  # For each character.
_COPIED_NS: Final = 3.0
_APPENDED_NS: Final = 25  # The library copies a list with each element that `map` and `filter` add.
_PATTERN_NS: Final = 20_000
_INSTRUCTION_NS: Final = 400  # To compile one of a regular expression.
_MATCHED_NS: Final = 30.0  # For each character, with few instructions; with many, one nanosecond for each.
_SEARCHED_NS: Final = 1.0
_SPLIT_NS: Final = 80.0
_CLASS_INSTRUCTIONS: Final = 150  # Of a class of Unicode such as \pL.
_COUNTED: Final = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")
_UNICODE: Final = re.compile(r"\\[pPXC]|\(\?[a-zA-Z]*i")

_SCALAR_RESULTS: Final = frozenset(
    [
        "_&&_",
        "_||_",
        "!_",
        "-_",
        "_-_",
        "_*_",
        "_/_",
        "_%_",
        "@not_strictly_false",
        "__not_strictly_false__",
        "_>_",
        "_<_",
        "_>=_",
        "_<=_",
        "int",
        "uint",
        "double",
        "bool",
        "duration",
        "timestamp",
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
        "hasValue",
        "type",
    ]
)
_KEEP: Final = frozenset(
    [
        "_[_]",
        "_?._",
        "_[?_]",
        "dyn",
        "value",
        "or",
        "orValue",
        "optional.of",
        "optional.ofNonZeroValue",
        "optional.none",
    ]
)
_LINEAR_TEXT: Final = frozenset(
    ["lowerAscii", "upperAscii", "trim", "reverse", "substring", "charAt", "string", "bytes"]
)
_SEARCHES: Final = frozenset(["contains", "indexOf", "lastIndexOf"])


@dataclass(frozen=True, slots=True)
class SizeBound:
    """The most that a value can be."""

    size: Size = NOTHING
    passes: int | None = None
    """Of what is part of an element of a list: how often that list is gone through. None: see `times`."""
    is_text: bool = False


_SCALAR: Final = SizeBound()


class CostModel:
    """One walk through a tree."""

    def __init__(self, inputs: Mapping[str, Size]) -> None:
        self.total_ns = 0.0
        self._inputs = inputs

    def visit(self, node: TreeNode, times: int, scope: Mapping[str, SizeBound]) -> SizeBound:
        self.total_ns += _NODE_NS * times
        match node:
            case LiteralNode(value=value):
                return _SCALAR if value is None else _text_bound(len(value))
            case NameNode(name=name):
                return scope[name] if name in scope else SizeBound(self._inputs.get(name, NOTHING))
            case SelectNode(operand=operand, is_test=is_test):
                found = self.visit(operand, times, scope)
                return _SCALAR if is_test else found
            case AggregateNode(parts=parts):
                found_parts = [self.visit(each, times, scope) for each in parts]
                self._charge(times, *found_parts, value_ns=_VALUE_NS)
                return _added(*found_parts, length=len(parts))
            case CallNode(function="_?:_" | "_?_:_", arguments=(condition, yes, no)):
                self.visit(condition, times, scope)
                return _larger(self.visit(yes, times, scope), self.visit(no, times, scope))
            case CallNode(function="matches", arguments=(subject, pattern)):
                return self._match(self.visit(subject, times, scope), self.visit(pattern, times, scope), pattern, times)
            case CallNode(function=function, arguments=arguments):
                return self._call(function, [self.visit(each, times, scope) for each in arguments], times)
            case LoopNode():
                return self._loop(node, times, scope)

    def _call(self, function: str, given: list[SizeBound], times: int) -> SizeBound:
        if function in _SCALAR_RESULTS:
            return _SCALAR
        if function in _KEEP:
            return _larger(*given) if given else _SCALAR
        texts = [each.size.longest_text for each in given]
        match function:
            case "_==_" | "_!=_":
                self.total_ns += min(
                    (each.passes or times) * (each.size.values * _VALUE_NS + each.size.text * _COMPARED_NS)
                    for each in given
                )
                return _SCALAR
            case "@in" | "_in_":
                self._charge(times, given[-1], value_ns=_VALUE_NS, text_ns=_COMPARED_NS)
                return _SCALAR
            case "startsWith" | "endsWith":
                self.total_ns += times * min(texts) * _COMPARED_NS
                return _SCALAR
            case "size":
                self.total_ns += times * texts[0] * _COMPARED_NS
                return _SCALAR
            case "_+_":
                return self._add(given, times)
            case "split":
                self.total_ns += times * texts[0] * _SPLIT_NS
                return SizeBound(Size(texts[0] + 2, texts[0], texts[0], texts[0] + 1))
            case "replace":
                grown = texts[0] * (1 + texts[-1] if len(given) == 3 else 1 + max(texts[1:]))
                self.total_ns += times * (grown + texts[-1]) * _COPIED_NS
                return _text_bound(grown + texts[-1])
        if function in _SEARCHES:
            self.total_ns += times * texts[0] * (1 + texts[1] / 8) * _SEARCHED_NS
            return _SCALAR
        if function in _LINEAR_TEXT:
            self.total_ns += times * texts[0] * _COPIED_NS
            return _text_bound(max(texts[0], 40))
        # `format`, `join`, `quote`, and whatever is added: as large as all that goes in, written twice.
        self._charge(times, *given, value_ns=10 * _VALUE_NS, text_ns=2 * _COPIED_NS)
        everything = sum(2 * each.size.text + 40 * each.size.values for each in given)
        if function == "join":
            everything += given[0].size.values * sum(texts[1:])
            self.total_ns += times * everything * _COPIED_NS
        sizes = _added(*given).size
        return SizeBound(replace(sizes, text=everything, longest_text=everything), is_text=function != "_")

    def _match(self, subject: SizeBound, given: SizeBound, pattern: TreeNode, times: int) -> SizeBound:
        if isinstance(pattern, LiteralNode) and pattern.value is not None:
            instructions, consumed = _bound_pattern(pattern.value)
        else:  # It may be any, and repeat all of itself.
            instructions, consumed = given.size.longest_text * REPEATED_MAX * _CLASS_INSTRUCTIONS, None
        text = subject.size.longest_text if consumed is None else min(subject.size.longest_text, consumed)
        characters = times * text
        if subject.passes is not None:
            characters = min(characters, subject.passes * subject.size.text)
        self.total_ns += times * (_PATTERN_NS + instructions * _INSTRUCTION_NS)
        self.total_ns += characters * max(_MATCHED_NS, instructions)
        return _SCALAR

    def _add(self, given: list[SizeBound], times: int) -> SizeBound:
        if any(each.is_text for each in given):
            total = sum(each.size.longest_text for each in given)
            self.total_ns += times * total * _COPIED_NS
            return _text_bound(total)
        self._charge(times, *given, value_ns=_VALUE_NS, text_ns=_COPIED_NS)
        found = _added(*given)
        size = replace(
            found.size,
            longest_text=sum(each.size.longest_text for each in given),
            longest_list=sum(each.size.longest_list for each in given),
        )
        return replace(found, size=size)

    def _loop(self, node: LoopNode, times: int, scope: Mapping[str, SizeBound]) -> SizeBound:
        over = self.visit(node.over, times, scope)
        start = self.visit(node.start, times, scope)
        length = min(over.size.longest_list, ITERATIONS_MAX)
        if length == 0:  # `cel.bind` is a loop over nothing.
            return self.visit(node.result, times, {**scope, node.accumulator: start})
        rounds = min(times * length, ITERATIONS_MAX)
        if (
            over.passes is not None
        ):  # A list in an element: all of these lists together are no longer than what they are in.
            rounds = min(rounds, over.passes * over.size.values)
        element = replace(over, passes=over.passes or times, is_text=False)
        within = {**scope, **dict.fromkeys(node.variables, element), node.accumulator: _SCALAR}
        self.visit(node.condition, rounds, within)
        if not (isinstance(node.start, AggregateNode) and node.start.is_list):
            self.visit(node.step, rounds, within)
            return self.visit(node.result, times, {**scope, node.accumulator: _SCALAR})
        added = self.visit(node.step, rounds, within)
        self.total_ns += rounds * length * _APPENDED_NS
        many = 1 if added.passes is not None and added.passes <= times else length
        size = added.size
        grown = Size(length + many * size.values, many * size.text, size.longest_text, max(length, size.longest_list))
        return self.visit(node.result, times, {**scope, node.accumulator: SizeBound(grown)})

    def _charge(self, times: int, *values: SizeBound, value_ns: float, text_ns: float = 0.0) -> None:
        for each in values:
            self.total_ns += (each.passes or times) * (each.size.values * value_ns + each.size.text * text_ns)


def bound_cost(tree: TreeNode, inputs: Mapping[str, Size]) -> float:
    """The most nanoseconds that it takes for inputs of these sizes."""
    model = CostModel(inputs)
    model.visit(tree, 1, {})
    return model.total_ns


def _bound_pattern(pattern: str) -> tuple[int, int | None]:
    """The most instructions that a regular expression has, and how much of a text it looks at; None: all of it."""
    counts = [min(int(most or least or 0), REPEATED_MAX) for least, most in _COUNTED.findall(pattern)]
    if "){" in pattern or "}{" in pattern:  # A group is repeated: with what is repeated in it.
        instructions = len(pattern) * min(prod(max(each, 1) for each in counts), REPEATED_MAX)
    else:
        instructions = len(pattern) + 4 * sum(counts)
    if _UNICODE.search(pattern):
        instructions *= _CLASS_INSTRUCTIONS
    is_anchored = pattern.startswith("^") and not any(each in pattern for each in ("*", "+", "|", ",}"))
    return instructions, instructions if is_anchored else None


def _text_bound(length: int) -> SizeBound:
    return SizeBound(Size(1, length, length), is_text=True)


def _larger(*bounds: SizeBound) -> SizeBound:
    sizes = [each.size for each in bounds]
    passes = sorted({each.passes or 0 for each in bounds if each.size != NOTHING})
    size = Size(
        max(each.values for each in sizes),
        max(each.text for each in sizes),
        max(each.longest_text for each in sizes),
        max(each.longest_list for each in sizes),
    )
    return SizeBound(size, passes[0] or None if len(passes) == 1 else None, any(each.is_text for each in bounds))


def _added(*bounds: SizeBound, length: int = 0) -> SizeBound:
    """What holds all of them, side by side."""
    sizes = [each.size for each in bounds]
    size = Size(
        1 + sum(each.values for each in sizes),
        sum(each.text for each in sizes),
        max((each.longest_text for each in sizes), default=0),
        max([length, *(each.longest_list for each in sizes)]),
    )
    passes = sorted({each.passes or 0 for each in bounds if each.size != NOTHING})
    return SizeBound(size, passes[0] or None if len(passes) == 1 else None)
