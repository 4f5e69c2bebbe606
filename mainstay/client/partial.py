"""Reading a few fields of an object from its JSON, and skipping the rest.

A cache keeps objects as bytes and needs of each only what names it and what its indexes look at. From a list of paths a
struct type is made that has just those fields, so a decoder creates nothing for the others. Of a pod of 2 KB that takes
a third of the time that reading all of it takes, and leaves no garbage behind.

    read = reader([("metadata", "name"), ("spec", "nodeName")])
    read(b'{"metadata":{"name":"web-1"},"spec":{"nodeName":"n1","containers":[…]}}') == ("web-1", "n1")

A field that is not there, or is null, is None. What is at a path comes as plain JSON values, whatever it is: nothing is
validated here beyond being JSON.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

Path = tuple[str, ...]
"""The names of the fields that lead to a value. Empty: the whole object."""

Reader = Callable[[bytes], tuple[Any, ...]]
"""Gives the values at the paths it was made for, in their order. Raises `msgspec.DecodeError` for what is no JSON."""

_decode_all = msgspec.json.Decoder().decode

_Tree = dict[str, "_Tree | None"]
"""Which fields to read: None is one whose whole value is wanted."""


def reader(paths: Sequence[Path]) -> Reader:
    """Make what reads the values at these paths. Takes a millisecond, the first time."""
    return _reader(tuple(paths))


@lru_cache(maxsize=256)
def _reader(paths: tuple[Path, ...]) -> Reader:
    if not paths:
        raise ValueError("no data to read")
    if () in paths or len(paths) == 1:  # A getter of one name gives no tuple, and a quick one of those is not needed.
        return lambda raw: values_at(paths, _decode_all(raw))
    tree = _tree(paths)
    decode = msgspec.json.Decoder(_struct(tree)).decode
    found = [_find(tree, path) for path in paths]
    getter = operator.attrgetter(*[dotted for dotted, _ in found])
    deeper = [(number, rest) for number, (_, rest) in enumerate(found) if rest]

    def read(raw: bytes) -> tuple[Any, ...]:
        try:
            values: tuple[Any, ...] = getter(decode(raw))
        except msgspec.ValidationError:
            # Something on the way to a value is no object: null, or a text where others have a spec. Rare enough.
            return values_at(paths, _decode_all(raw))
        if not deeper:
            return values
        below = list(values)
        for number, rest in deeper:
            below[number] = value_at(rest, values[number])
        return tuple(below)

    return read


def values_at(paths: Sequence[Path], obj: Any) -> tuple[Any, ...]:
    """The same from an object that has been read already."""
    return tuple([value_at(path, obj) for path in paths])


def value_at(path: Path, obj: Any) -> Any:
    """What is at one path; None if there is nothing."""
    for name in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def _tree(paths: Sequence[Path]) -> _Tree:
    tree: _Tree = {}
    # Shorter ones first: where the whole of something is read, its parts are taken from that.
    for path in sorted(paths, key=len):
        branch: _Tree | None = tree
        for name in path[:-1]:
            branch = branch.setdefault(name, {}) if branch is not None else None
        if branch is not None:
            branch.setdefault(path[-1], None)
    return tree


def _struct(tree: _Tree) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for number, (name, below) in enumerate(tree.items()):
        field = f"f{number}"  # Names of fields in JSON need not be names in Python.
        names[field] = name
        if below is None:
            fields.append((field, Any, None))
        else:
            part = _struct(below)
            fields.append((field, part, msgspec.field(default_factory=part)))
    # These live for microseconds and hold no cycles: nothing for the garbage collector to follow.
    return msgspec.defstruct("Partial", fields, rename=names, gc=False)


def _find(tree: _Tree, path: Path) -> tuple[str, Path]:
    """The attribute of the struct in which a path's value is, and the way from there on."""
    dotted: list[str] = []
    branch: _Tree | None = tree
    for depth, name in enumerate(path):
        if branch is None:
            return ".".join(dotted), path[depth:]
        dotted.append(f"f{list(branch).index(name)}")
        branch = branch[name]
    return ".".join(dotted), ()
