"""An expression as a tree, read from what the compiler writes: the message `cel.expr.CheckedExpr` of the CEL project.

Only for looking at (cost.py, and which variables an expression uses): the library evaluates its own copy. Macros are
expanded there already: `all`, `exists`, `map` and `filter` are all a `LoopNode`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_CHECKED: Final = b"type.googleapis.com/cel.expr.CheckedExpr"


@dataclass(frozen=True, slots=True)
class LiteralNode:
    value: str | None
    """The text, if it is one. What other constants are worth does not matter here."""
    is_truth_or_number: bool


@dataclass(frozen=True, slots=True)
class NameNode:
    name: str


@dataclass(frozen=True, slots=True)
class SelectNode:
    operand: "TreeNode"
    field: str
    is_test: bool
    """Of `has(x.field)`."""


@dataclass(frozen=True, slots=True)
class CallNode:
    function: str
    arguments: tuple["TreeNode", ...]
    """What it is called on comes first."""


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """A list, or the keys and values of a map."""

    parts: tuple["TreeNode", ...]
    is_list: bool


@dataclass(frozen=True, slots=True)
class LoopNode:
    over: "TreeNode"
    variables: tuple[str, ...]
    accumulator: str
    start: "TreeNode"
    condition: "TreeNode"
    step: "TreeNode"
    result: "TreeNode"


TreeNode = LiteralNode | NameNode | SelectNode | CallNode | AggregateNode | LoopNode


def read_tree(serialized: bytes) -> TreeNode:
    """The tree of a compiled expression."""
    fields = dict(_fields(serialized))
    assert fields[1] == _CHECKED, fields[1]
    return _node(dict(_fields(fields[2]))[4])


def find_selected(tree: TreeNode, name: str) -> tuple[str, ...]:
    """The fields of a variable that an expression reads by name, sorted."""
    found: set[str] = set()
    for node in walk(tree):
        if isinstance(node, SelectNode) and node.operand == NameNode(name):
            found.add(node.field)
    return tuple(sorted(found))


def find_names(tree: TreeNode) -> frozenset[str]:
    return frozenset(node.name for node in walk(tree) if isinstance(node, NameNode))


def find_patterns(tree: TreeNode) -> tuple[str, ...]:
    """The regular expressions that are constants, sorted."""
    found: set[str] = set()
    for node in walk(tree):
        match node:
            case CallNode(function="matches", arguments=(_, LiteralNode(value=str(pattern)))):
                found.add(pattern)
            case _:
                pass
    return tuple(sorted(found))


def find_field_root(tree: TreeNode) -> str:
    """The variable that an expression reads a field of, if that is all it does: `object` for `object.spec["x"]`. Empty
    if it is anything else."""
    match tree:
        case NameNode(name=name):
            return name
        case SelectNode(operand=operand, is_test=False):
            return find_field_root(operand)
        case CallNode(function="_[_]", arguments=(operand, _)):
            return find_field_root(operand)
        case _:
            return ""


def walk(tree: TreeNode) -> Iterator[TreeNode]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        match node:
            case SelectNode(operand=operand):
                waiting.append(operand)
            case CallNode(arguments=parts) | AggregateNode(parts=parts):
                waiting.extend(parts)
            case LoopNode():
                waiting += [node.over, node.start, node.condition, node.step, node.result]
            case _:
                pass


def _node(data: bytes) -> TreeNode:
    for number, value in _fields(data):
        match number:
            case 3:
                return _literal(value)
            case 4:
                return NameNode(_text(dict(_fields(value)).get(1, b"")))
            case 5:
                select = dict(_fields(value))
                return SelectNode(_node(select[1]), _text(select[2]), bool(select.get(3)))
            case 6:
                return _call(value)
            case 7:
                return AggregateNode(tuple(_node(each) for at, each in _fields(value) if at == 1), is_list=True)
            case 8:
                return _map(value)
            case 9:
                return _comprehension(value)
            case _:
                continue
    raise ValueError("an expression without a content")


def _literal(data: bytes) -> LiteralNode:
    for number, value in _fields(data):
        if number in (6, 7):
            return LiteralNode(value.decode("utf-8", "replace"), is_truth_or_number=False)
    return LiteralNode(None, is_truth_or_number=True)


def _call(data: bytes) -> CallNode:
    function = ""
    arguments: list[TreeNode] = []
    for number, value in _fields(data):
        if number == 1:
            arguments.insert(0, _node(value))
        elif number == 2:
            function = _text(value)
        elif number == 3:
            arguments.append(_node(value))
    return CallNode(function, tuple(arguments))


def _map(data: bytes) -> AggregateNode:
    parts: list[TreeNode] = []
    for number, entry in _fields(data):
        if number == 2:
            parts += [_node(value) for at, value in _fields(entry) if at in (3, 4)]
    return AggregateNode(tuple(parts), is_list=False)


def _comprehension(data: bytes) -> LoopNode:
    found = dict(_fields(data))
    variables = tuple(_text(found[number]) for number in (1, 8) if number in found)
    parts = [_node(found[number]) for number in (4, 5, 6, 7)]
    return LoopNode(_node(found[2]), variables, _text(found[3]), *parts)


def _text(data: bytes) -> str:
    return data.decode()


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The number and the value of each field of a message: bytes, or an integer."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case other:
                raise ValueError(f"wire type {other}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
