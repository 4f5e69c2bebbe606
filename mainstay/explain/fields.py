"""What differs between two versions of an object, field by field.

A field is named by its path: `spec.replicas`, `spec.template.spec.containers[main].image`,
`metadata.labels[app.kubernetes.io/name]`. Entries of a list are named by what tells them apart (a container by its
name, a condition by its type), so that one that moves is not taken for another; a list without such a name is compared
by place. Not compared: what the server alone keeps about versions (`resourceVersion`, `managedFields`).

All here are plain functions of values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mainstay.api.kind import Object

Path = tuple[str, ...]
"""Steps: names of fields; an entry of a list or of a map with free names in brackets."""

_KEYS: Final = ("name", "type", "key", "mountPath", "containerPort", "port", "uid", "ip", "zone", "topologyKey")
"""What tells entries of lists apart: the first of these that all of them have, and that differs."""
_FREE_NAMES: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "hard", "used"})
_AMOUNTS: Final = frozenset({"requests", "limits", "capacity", "allocatable"})
_WHOLE: Final = frozenset({"taints", "tolerations"})
"""Lists that are one value: nothing tells their entries apart for sure."""
_NOT_COMPARED: Final = frozenset({("metadata", "resourceVersion"), ("metadata", "managedFields")})
_NOT_STORED: Final = frozenset({("apiVersion",), ("kind",)})
_PLAIN_STEP: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS_MAX: Final = 80


class _Nothing:
    """There is no such field: not the same as one that is null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


class FieldChange(NamedTuple):
    """`NOTHING` stands for a field that is not there."""

    path: Path
    before: Any
    after: Any


def differences(before: Object | None, after: Object | None) -> list[FieldChange]:
    """In the order of their paths. A part that is new, or gone as a whole, is one difference: see `leaves`."""
    return list(_differences((), before or {}, after or {}))


def _differences(path: Path, before: Any, after: Any) -> Iterator[FieldChange]:
    if before == after or path in _NOT_COMPARED or path in _NOT_STORED:
        return
    parts_before, parts_after = split_value(path, before), split_value(path, after)
    if parts_before is None or parts_after is None:
        yield FieldChange(path, before, after)
        return
    for step in sorted({**parts_before, **parts_after}):
        there, wanted = parts_before.get(step, NOTHING), parts_after.get(step, NOTHING)
        if there is NOTHING or wanted is NOTHING:
            if (*path, step) not in _NOT_COMPARED and (*path, step) not in _NOT_STORED:
                yield FieldChange((*path, step), there, wanted)
        else:
            yield from _differences((*path, step), there, wanted)


def leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The single fields of a part, with their values. Something empty is a value, too."""
    parts = split_value(path, value)
    if not parts:
        if path and path not in _NOT_COMPARED and path not in _NOT_STORED:
            yield path, value
        return
    for step in sorted(parts):
        if (*path, step) not in _NOT_COMPARED:
            yield from leaves((*path, step), parts[step])


def split_value(path: Path, value: Any) -> dict[str, Any] | None:
    """What a value is made of, by step; None if it is a leaf, or a list whose entries are not objects."""
    if isinstance(value, dict):
        free = bool(path) and (path[-1] in _FREE_NAMES or path[-1] in _AMOUNTS)
        return {f"[{name}]" if free else str(name): each for name, each in value.items()}
    if path and path[-1] in _WHOLE:
        return None
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        key = _find_key(value)
        if key is None:
            return {f"[{place}]": each for place, each in enumerate(value)}
        return {f"[{each[key]}]": each for each in value}
    return None


def _find_key(entries: Sequence[Mapping[str, Any]]) -> str | None:
    for key in _KEYS:
        values = [each.get(key) for each in entries]
        if None not in values and len({str(value) for value in values}) == len(values):
            return key
    return None


def path_text(path: Path) -> str:
    return "".join(step if step.startswith("[") else f".{step}" for step in path).removeprefix(".")


class BadPath(ValueError):
    """Not the path of a field. Says what one looks like."""


def parse_path(text: str) -> Path:
    """A path as people write it: with or without a dot at the beginning. Raises `BadPath`."""
    rest, steps = text.strip().removeprefix("."), []
    while rest:
        if rest.startswith("["):
            inside, end, rest = rest[1:].partition("]")
            if not end or not inside:
                raise BadPath(_how(text))
            # `[name=main]`, as some write it, is the same as `[main]`; so are names in quotes.
            steps.append(f"[{inside.rpartition('=')[2].strip(chr(34) + chr(39))}]")
        elif found := _PLAIN_STEP.match(rest):
            steps.append(found.group())
            rest = rest[found.end() :]
        else:
            raise BadPath(_how(text))
        if rest.startswith("."):
            rest = rest[1:]
            if not rest:
                raise BadPath(_how(text))
    if not steps:
        raise BadPath(_how(text))
    return tuple(steps)


def _how(text: str) -> str:
    return (
        f"{text!r} is not the path of a field: write spec.replicas, spec.template.spec.containers[main].image or "
        "metadata.labels[app]"
    )


def is_below(path: Path, above: Path) -> bool:
    """Whether a field is this one, or a part of it. A place in a list may be named by its number."""
    return len(path) >= len(above) and all(_is_step(own, asked) for own, asked in zip(path, above, strict=False))


def _is_step(own: str, asked: str) -> bool:
    return own == asked or own.strip("[]") == asked.strip("[]")


def at(obj: Any, path: Path) -> Any:
    """What an object has there, or `NOTHING`."""
    value = obj
    gone_by: Path = ()
    for step in path:
        parts = split_value(gone_by, value)
        found = next((name for name in parts or () if _is_step(name, step)), None)
        if parts is None or found is None:
            return NOTHING
        value, gone_by = parts[found], (*gone_by, found)
    return value


def shown(value: Any) -> str:
    """A value in few words, for one line."""
    if value is NOTHING or value is None:
        return "none"
    if isinstance(value, str):
        text = value if value else '""'
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, dict | list):
        text = msgspec.json.encode(value, order="sorted").decode()
    else:
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= _WORDS_MAX else text[: _WORDS_MAX - 1] + "…"


def plain(value: Any) -> Any:
    """As something that can be encoded: what is not there is null."""
    return None if value is NOTHING else value
