"""Small checks that many kinds share: names, ports, labels and selectors, in the words of Kubernetes.

A check appends to the causes it is given. Those on the way of every pod take path and field apart (`here`, `.name`), so
that the text is only put together when it is needed.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainstay.api import names
from mainstay.api.errors import CauseType, StatusCause, invalid_value, not_supported
from mainstay.api.kind import Object
from mainstay.api.labels import from_object, problems_of_selector

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
PROTOCOLS = ("SCTP", "TCP", "UDP")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PORT_NAME = re.compile(r"(?=[-0-9]*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def invalid_json(path: str, value: Any, detail: str) -> StatusCause:
    """A value that is an object or a list, shown as JSON."""
    shown = msgspec.json.encode(value).decode()
    return StatusCause(CauseType.INVALID, path, f"Invalid value: {shown}: {detail}")


def wrong_type(path: str, value: Any, wanted: str) -> StatusCause:
    """A value of another type than the field has, in the words of a schema."""
    shown = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    detail = f'{path} in body must be of type {wanted}: "{shown.get(type(value), "null")}"'
    return StatusCause(CauseType.TYPE_INVALID, path, f'Invalid value: "{shown.get(type(value), "null")}": {detail}')


def not_found_value(path: str, value: str) -> StatusCause:
    return StatusCause(CauseType.NOT_FOUND, path, f'Not found: "{value}"')


def too_many(path: str, count: int, most: int) -> StatusCause:
    return StatusCause(CauseType.TOO_MANY, path, f"Too many: {count}: must have at most {most} items")


def check_label(value: str, here: str, field: str, causes: list[StatusCause]) -> None:
    problems = names.label(value)
    if problems:
        causes.extend(invalid_value(here + field, value, problem) for problem in problems)


def check_subdomain(value: str, here: str, field: str, causes: list[StatusCause]) -> None:
    problems = names.subdomain(value)
    if problems:
        causes.extend(invalid_value(here + field, value, problem) for problem in problems)


def check_qualified(value: str, path: str, causes: list[StatusCause]) -> None:
    """A name with or without a domain: `example.com/name`."""
    causes.extend(invalid_value(path, value, problem) for problem in names.qualified_name(value))


def check_config_key(value: str, path: str, causes: list[StatusCause]) -> None:
    """A key of a ConfigMap or Secret."""
    if len(value) > 253:
        causes.append(invalid_value(path, value, "must be no more than 253 characters"))
    if not _CONFIG_KEY.fullmatch(value):
        detail = (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
        causes.append(invalid_value(path, value, detail))
    elif value == ".":
        causes.append(invalid_value(path, value, "must not be '.'"))
    elif value == "..":
        causes.append(invalid_value(path, value, "must not be '..'"))
    elif value.startswith(".."):
        causes.append(invalid_value(path, value, "must not start with '..'"))


def port_name_problems(name: str) -> list[str]:
    if len(name) <= 15 and _PORT_NAME.fullmatch(name):
        return []
    problems = []
    if len(name) > 15:
        problems.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]*", name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def check_port(port: int, path: str, causes: list[StatusCause]) -> None:
    if not 0 < port < 65536:
        causes.append(invalid_value(path, port, _PORT_RANGE))


def check_port_or_name(port: object, path: str, causes: list[StatusCause]) -> None:
    if isinstance(port, str):
        causes.extend(invalid_value(path, port, problem) for problem in port_name_problems(port))
    else:
        check_port(port if isinstance(port, int) else 0, path, causes)


def check_not_negative(target: Object, field: str, path: str, causes: list[StatusCause]) -> None:
    value = target.get(field)
    if value is not None and value < 0:
        causes.append(invalid_value(f"{path}.{field}", value, NOT_NEGATIVE))


def check_one_of(target: Object, field: str, known: Sequence[str], path: str, causes: list[StatusCause]) -> None:
    value = target.get(field)
    if value not in known:
        causes.append(not_supported(f"{path}.{field}" if path else field, value or "", known))


def check_immutable(
    new: Object, old: Object, field: str, path: str, causes: list[StatusCause], detail: str = IMMUTABLE
) -> None:
    value = new.get(field)
    if value != old.get(field):
        causes.append(invalid_json(f"{path}.{field}" if path else field, value, detail))


def check_labels(labels: Mapping[str, str], path: str, causes: list[StatusCause]) -> None:
    for key, value in labels.items():
        causes.extend(invalid_value(path, key, problem) for problem in names.qualified_name(key))
        causes.extend(invalid_value(path, value, problem) for problem in names.label_value(value))


def check_selector(selector: Object, path: str, causes: list[StatusCause]) -> None:
    """A label selector: matchLabels and matchExpressions."""
    causes.extend(problems_of_selector(selector, path))


def is_empty_selector(selector: Object) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a valid label selector matches some labels."""
    return from_object(selector).matches(labels)


def check_percent_or_count(value: object, path: str, causes: list[StatusCause]) -> None:
    """A number of pods, or a share of them such as `25%`."""
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]+%", value):
            detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
            detail += "regex used for validation is '[0-9]+%')"
            causes.append(invalid_value(path, value, detail))
    elif isinstance(value, int) and value < 0:
        causes.append(invalid_value(path, value, NOT_NEGATIVE))


def check_percent_at_most_all(value: object, path: str, causes: list[StatusCause]) -> None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]+%", value) and int(value[:-1]) > 100:
        causes.append(invalid_value(path, value, "must not be greater than 100%"))
