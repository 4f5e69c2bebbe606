"""How the declarations of this package are written: what Kubernetes' own kinds have in common, and small helpers.

`builtin` fills in what follows from group, version and kind. The rest of this module are the few steps that many kinds
share when an object is filled in (`child`, `fill`), prepared (`own_status`) or selected by a field (`at`).
"""

from collections.abc import Callable
from typing import Any

from mainstay.api.kind import Kind, Object, TextAt
from mainstay.api.kind_name import KindName, message_name


def builtin(name: KindName, **rest: Any) -> Kind:
    """Declare a kind of Kubernetes. Kinds count generations unless the declaration says otherwise."""
    return declare(name, message=message_name(name.group, name.version, name.kind), **rest)


def declare(name: KindName, **rest: Any) -> Kind:
    """Declare a kind by its name. The singular follows from the name unless it is given."""
    rest.setdefault("singular", name.kind.lower())
    return Kind(
        group=name.group,
        version=name.version,
        kind=name.kind,
        plural=name.plural,
        namespaced=name.namespaced,
        **rest,
    )


def at(*path: str) -> TextAt:
    """The text at a path, for a field selector. What is not there is the empty text, as it is for the real server."""
    return TextAt(path)


def count_at(*path: str) -> Callable[[Object], str]:
    """The number at a path as text, 0 if it is not there."""

    def read(obj: Object) -> str:
        value: Any = obj
        for step in path:
            value = value.get(step) if value else None
        return str(value or 0)

    return read


def flag_at(*path: str) -> Callable[[Object], str]:
    """The truth at a path as text, false if it is not there."""

    def read(obj: Object) -> str:
        value: Any = obj
        for step in path:
            value = value.get(step) if value else None
        return "true" if value else "false"

    return read


def own_status(fresh: Callable[[], Object] = dict) -> Callable[[Object, Object | None], None]:
    """For a kind whose status is written through its own address, and has nothing else to put right."""

    def prepare(new: Object, old: Object | None) -> None:
        set_status(new, old, fresh)

    return prepare


def set_status(new: Object, old: Object | None, fresh: Callable[[], Object] = dict) -> None:
    """A new object begins with a fresh status, and one that is there keeps its own, whatever came with the write."""
    if old is None:
        new["status"] = fresh()
    elif "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def child(parent: Object, key: str) -> Object:
    """The object under a key, made if it is not there (or null, which means the same)."""
    value: Object | None = parent.get(key)
    if value is None:
        value = parent[key] = {}
    return value


def fill(target: Object, **values: Any) -> None:
    """Give each field that is not there, or null, its value."""
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value
