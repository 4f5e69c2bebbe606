"""Two final states compared field by field: `apps/statefulsets/default/db: spec.replicas 2 ≠ 1`.

What depends on the way has been taken out before (final_state.py). Objects that share a kind and an owner have no names
that two runs would share: they are compared in an order of their own, and what differs among equals is told of the
first that does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object

_NOTHING: Final = "nothing"
_SHOWN_MAX: Final = 120


class StateDifference(msgspec.Struct, frozen=True, order=True):
    name: str
    """Of the object: kind, namespace, and name or owner."""
    path: str
    """Of the field; empty if it is about the object as a whole."""
    wanted: str
    """As without faults."""
    found: str

    def __str__(self) -> str:
        return f"{self.name}: {self.path + ' ' if self.path else ''}{self.wanted} ≠ {self.found}"

    @property
    def at(self) -> tuple[str, str]:
        return self.name, self.path


def find_differences(
    wanted: Mapping[str, Sequence[Object]], found: Mapping[str, Sequence[Object]]
) -> list[StateDifference]:
    """All of them, by name and path."""
    made: list[StateDifference] = []
    for name in sorted({**wanted, **found}):
        left, right = list(wanted.get(name, ())), list(found.get(name, ()))
        if len(left) != len(right):
            made.append(StateDifference(name, "", _many(len(left)), _many(len(right))))
            continue
        for each in list(left):
            if each in right:
                left.remove(each)
                right.remove(each)
        for one, other in zip(left, right, strict=True):
            made += [StateDifference(name, path, *values) for path, *values in _fields("", one, other)]
    return list(dict.fromkeys(made))


def without(found: Iterable[StateDifference], noise: Iterable[StateDifference]) -> list[StateDifference]:
    """Those that are not about fields which differ anyway."""
    ignored = {each.at: None for each in noise}
    return [each for each in found if each.at not in ignored and (each.name, "") not in ignored]


def _fields(path: str, one: Any, other: Any) -> Iterator[tuple[str, str, str]]:
    if one == other:
        return
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted({**one, **other}):
            below = f"{path}.{name}" if path else str(name)
            yield from _fields(below, one.get(name, _NOTHING), other.get(name, _NOTHING))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _fields(f"{path}[{_named(left, place)}]", left, right)
    else:
        yield path, _shown(one), _shown(other)


def _named(item: Any, place: int) -> str:
    if isinstance(item, Mapping):
        for field in ("type", "name"):
            if isinstance(item.get(field), str):
                return str(item[field])
    return str(place)


def _shown(value: Any) -> str:
    if value is _NOTHING:
        return _NOTHING
    text = msgspec.json.encode(value, order="sorted").decode()
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _many(count: int) -> str:
    return "missing" if not count else "there" if count == 1 else f"{count} items"
