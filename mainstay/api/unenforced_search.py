"""Finds in an object what is accepted and not enforced: the rows of the table (unenforced.py) that it touches.

The rows of a kind are put together once to a tree of field names. An object is compared with it from the top, and only
what it has of the tree is looked into: a pod that touches no row costs about two microseconds.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from mainstay.api.errors import StatusCause, forbidden_value
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import PODS
from mainstay.api.pod_security import TEMPLATE_PATHS
from mainstay.api.unenforced import FIELDS, KINDS, UnenforcedField

_EACH: Final = "[*]"
_CONTAINERS: Final = "spec.containers[*]."
_INIT_CONTAINERS: Final = "spec.initContainers[*]."
_TEXTS: Final[Mapping[tuple[str, str], str]] = {(each.kind.group, each.kind.plural): each.text for each in KINDS}


@dataclass(slots=True)
class _Branch:
    rows: list[UnenforcedField] = field(default_factory=list)
    fields: dict[str, "_Branch"] = field(default_factory=dict)
    items: "_Branch | None" = None
    names: set[str] = field(default_factory=set)
    """Those of its fields."""


@dataclass(frozen=True, slots=True)
class Unenforced:
    """Something in an object that nothing acts on."""

    path: str
    """Empty: the object itself."""
    text: str
    row: UnenforcedField | None = None
    more: int = 0
    """How many other places in the object have the same."""

    @property
    def is_refused(self) -> bool:
        return self.row is not None and self.row.refused

    def __str__(self) -> str:
        if not self.path:
            return f"stored but not acted on: {self.text}"
        also = f" (and {self.more} more)" if self.more else ""
        runner = f" by the {self.row.runner} runner" if self.row is not None and self.row.runner else ""
        return f"{self.path}{also}: not enforced{runner}: {self.text}"


def has_rows(group: str, plural: str) -> bool:
    """Whether there is anything to find in objects of a kind."""
    return (group, plural) in _TEXTS or _build_tree(group, plural) is not None


def find_kind_text(kind: KindName) -> str:
    """What is not done about a kind, and what to do instead; empty if something acts on it."""
    return _TEXTS.get((kind.group, kind.plural), "")


def find_unenforced(
    group: str, plural: str, obj: Object, runners: Container[str] | None = None, *, only_refused: bool = False
) -> list[Unenforced]:
    """What of an object nothing acts on: the object itself, or some of its fields. The same at many places is one.

    With `runners`, what depends on the runner is found only for one of these.
    """
    if text := _TEXTS.get((group, plural)):
        return [Unenforced("", text)]
    tree = _build_tree(group, plural, only_refused)
    if tree is None:
        return []
    touched = _collect(tree, obj)
    if not touched:
        return []
    places: dict[int, tuple[UnenforcedField, list[str]]] = {}
    for path, row in touched:
        if runners is None or not row.runner or row.runner in runners:
            places.setdefault(id(row), (row, []))[1].append(path)
    return [Unenforced(paths[0], row.text, row, len(paths) - 1) for row, paths in places.values()]


def find_runner(node: Object) -> str:
    """The runner of a node, by what its agent reports; empty if it is none of ours."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    name, _, _ = str(info.get("containerRuntimeVersion") or "").partition("://")
    return name.removeprefix("mainstay-") if name.startswith("mainstay-") else ""


def find_refused(
    group: str, plural: str, new: Object, old: Object | None, known: Sequence[Unenforced] | None = None
) -> list[StatusCause]:
    """What is refused because it is not enforced. What is there already may stay.

    `known` is what `find_unenforced` has found in the new object, if the caller has asked.
    """
    among = find_unenforced(group, plural, new, only_refused=True) if known is None else known
    found = [each for each in among if each.is_refused]
    if found and old is not None:
        before = [each.row for each in find_unenforced(group, plural, old, only_refused=True)]
        found = [each for each in found if each.row not in before]
    return [forbidden_value(each.path, f"not supported: {each.text}") for each in found]


@cache
def _build_tree(group: str, plural: str, only_refused: bool = False) -> _Branch | None:
    """None: no row is about the kind."""
    rows = [(each.path, each) for each in FIELDS if (each.kind.group, each.kind.plural) == (group, plural)]
    is_pod = (group, plural) == (PODS.group, PODS.plural)
    template = () if (group, plural) in _TEXTS else TEMPLATE_PATHS.get((group, plural), ())
    if is_pod or template:
        prefix = "".join(f"{step}." for step in template)
        for each in FIELDS:
            if each.kind == PODS:
                rows += [(prefix + path, each) for path in _list_paths(each.path)] if template else []
                rows += [(path, each) for path in _list_paths(each.path)[1:]] if is_pod else []
    tree = _Branch()
    for path, row in rows:
        if row.refused or (row.warned and not only_refused):
            _grow(tree, path).rows.append(row)
    return tree if tree.fields else None


def _list_paths(path: str) -> list[str]:
    if path.startswith(_CONTAINERS):
        return [path, _INIT_CONTAINERS + path.removeprefix(_CONTAINERS)]
    return [path]


def _grow(tree: _Branch, path: str) -> _Branch:
    for step in path.split("."):
        name, each, _ = step.partition(_EACH)
        tree.names.add(name)
        tree = tree.fields.setdefault(name, _Branch())
        if each:
            tree.items = tree.items or _Branch()
            tree = tree.items
    return tree


def _collect(branch: _Branch, value: Mapping[str, Any]) -> list[tuple[str, UnenforcedField]]:
    """The rows that a value touches, each with its path. On the way of every write: paths are made of what is found."""
    found: list[tuple[str, UnenforcedField]] = []
    for name, below in branch.fields.items():
        inner = value.get(name)
        if inner is None:
            continue
        for row in below.rows:
            if _matters(row, inner, value):
                found.append((name, row))
        if below.fields and isinstance(inner, dict):
            for path, row in _collect(below, inner):
                found.append((f"{name}.{path}", row))
        if below.items is not None and isinstance(inner, list):
            for number, each in enumerate(inner):
                if isinstance(each, dict) and not below.items.names.isdisjoint(each):
                    for path, row in _collect(below.items, each):
                        found.append((f"{name}[{number}].{path}", row))
    return found


def _matters(row: UnenforcedField, value: Any, parent: Mapping[str, Any]) -> bool:
    if row.only:
        return value in row.only and (row.when is None or row.when(value, parent))
    # An empty object is set: `emptyDir: {}` and `grpc: {}` say something.
    if value is None or value == "" or value is False or value == [] or value in row.but:
        return False
    return row.when is None or row.when(value, parent)
