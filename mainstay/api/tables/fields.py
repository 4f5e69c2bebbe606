"""Read a field of an object that may not have it, or have something else there.

A row is made of whatever is stored, perhaps by an older build or through a definition without a schema. A cell that
cannot be filled is empty or `<none>`; it never keeps the others from being shown. So nothing here raises.
"""

from datetime import datetime
from functools import cache
from typing import Any, Final, TypeGuard

from mainstay.api.kind import Object
from mainstay.api.times import parse_time

_INT_BITS: Final = 63  # Besides the sign.


def at(value: Any, path: str) -> Any:
    """What is at a dotted path, or None. Only objects are entered, not lists."""
    for step in _steps(path):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


@cache
def _steps(path: str) -> tuple[str, ...]:
    """Tables name the same few hundred paths for every object."""
    return tuple(path.split("."))


def text(value: Any, path: str, otherwise: str = "") -> str:
    """An empty text counts as missing, as it does for those who write these fields."""
    found = at(value, path)
    return found if isinstance(found, str) and found else otherwise


def whole(value: Any, path: str, otherwise: int = 0) -> int:
    found = at(value, path)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    return found if is_whole(found) else otherwise


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether it is a number that a field of Kubernetes can hold. Python's are longer, some too long to be written."""
    return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _INT_BITS


def flag(value: Any, path: str, otherwise: bool = False) -> bool:
    found = at(value, path)
    return found if isinstance(found, bool) else otherwise


def listed(value: Any, path: str) -> list[Any]:
    found = at(value, path)
    return found if isinstance(found, list) else []


def objects(value: Any, path: str) -> list[Object]:
    """The objects in a list. What is no object counts as an empty one, so that positions stay as they are."""
    return [each if isinstance(each, dict) else {} for each in listed(value, path)]


def texts(value: Any, path: str) -> list[str]:
    return [each for each in listed(value, path) if isinstance(each, str)]


def mapping(value: Any, path: str) -> Object:
    found = at(value, path)
    return found if isinstance(found, dict) else {}


def has(value: Any, path: str) -> bool:
    return at(value, path) is not None


def annotation(value: Any, key: str) -> str:
    """Separate from `text`, because the key has dots in it."""
    found = mapping(value, "metadata.annotations").get(key)
    return found if isinstance(found, str) else ""


def condition(value: Any, named: str, path: str = "status.conditions") -> Object | None:
    """The first condition of a type."""
    return next((each for each in objects(value, path) if each.get("type") == named), None)


def is_true(value: Any, named: str) -> bool:
    """Whether the first condition of a type holds."""
    found = condition(value, named)
    return found is not None and found.get("status") == "True"


def moment(value: Any) -> datetime | None:
    """The time that a timestamp stands for. None if it is none, or the zero time that stands for none."""
    if not isinstance(value, str):
        return None
    try:
        found = parse_time(value)
    except ValueError:
        return None
    return found if found.year > 1 else None
