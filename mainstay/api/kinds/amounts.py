"""Amounts of resources where they are asked for or given. How they are written was put right when they were decoded."""

from typing import Any

from mainstay.api.errors import StatusCause, invalid_value, required
from mainstay.api.kind import Object
from mainstay.api.kinds.checks import NOT_NEGATIVE, check_qualified
from mainstay.api.quantity import NANO, parse

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})


def check_amount(value: Any, path: str, causes: list[StatusCause]) -> int:
    """An amount that is not negative, in billionths. 0 if it cannot be read, which is then among the causes."""
    try:
        nano = parse(value).nano
    except ValueError as problem:
        causes.append(invalid_value(path, value, str(problem)))
        return 0
    if nano < 0:
        causes.append(invalid_value(path, value, NOT_NEGATIVE))
    return nano


def check_amounts(amounts: Object, path: str, causes: list[StatusCause]) -> None:
    """A plain map of amounts, as of a node or a quota."""
    for name, value in amounts.items():
        check_amount(value, f"{path}[{name}]", causes)


def check_resources(resources: Object, path: str, causes: list[StatusCause]) -> None:
    """Requests and limits of a container, or of a pod."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    limited: dict[str, int] = {}
    for name, value in limits.items():
        limited[name] = _check_one(name, value, f"{path}.limits", causes)
    for name, value in requests.items():
        nano = _check_one(name, value, f"{path}.requests", causes)
        limit = limited.get(name)
        if name in _STANDARD:
            if limit is not None and nano > limit:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                causes.append(invalid_value(f"{path}.requests", value, detail))
        elif limit is None:
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif nano != limit:
            detail = f"must be equal to {name} limit of {limits[name]}"
            causes.append(invalid_value(f"{path}.requests", value, detail))
    for number, claim in enumerate(resources.get("claims") or ()):
        if not claim.get("name"):
            causes.append(required(f"{path}.claims[{number}]"))


def _check_one(name: str, value: Any, path: str, causes: list[StatusCause]) -> int:
    """An amount of a resource that a container may ask for: a standard one, or an extended one with its domain."""
    if name in _STANDARD:
        return check_amount(value, f"{path}[{name}]", causes)
    here = f"{path}[{name}]"
    if "/" in name:
        check_qualified(name, here, causes)
    elif not name.startswith("hugepages-"):
        causes.append(invalid_value(here, name, "must be a standard resource for containers"))
    nano = check_amount(value, here, causes)
    if "/" in name and nano % NANO:
        causes.append(invalid_value(here, value, "must be an integer"))
    return nano
