"""How values are written in a cell, where more than one kind writes them so.

The forms are those that `kubectl get` has always shown, which scripts have come to read: `a=b,c in (d,e)`, `x,y,z + 2
more...`, `<none>`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mainstay.api.quantity import canonical
from mainstay.api.tables.fields import is_whole, mapping, moment, objects, text, texts
from mainstay.api.times import age

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"


def since(value: Any, now: datetime) -> str:
    """How long ago a timestamp was."""
    return age(now, moment(value))


def shortened(parts: Sequence[str], shown_max: int, separator: str = ",") -> str:
    """The first few of a list, and how many more there are."""
    shown = separator.join(parts[:shown_max])
    return f"{shown} + {len(parts) - shown_max} more..." if len(parts) > shown_max else shown


def labels(found: Any) -> str:
    """Labels, or a selector that has nothing else: `a=b,c=d`."""
    pairs = found if isinstance(found, dict) else {}
    return ",".join(f"{key}={plain(pairs[key])}" for key in sorted(pairs, key=str)) or NONE


def selector(found: Any, *, empty: str = NONE, broken: str = "<error>") -> str:
    """A label selector: `a=b,c in (d,e),!f`."""
    if not isinstance(found, dict):
        return empty
    requirements = [(str(key), f"{key}={plain(value)}") for key, value in mapping(found, "matchLabels").items()]
    for expression in objects(found, "matchExpressions"):
        written = _expression(expression)
        if written is None:
            return broken
        requirements.append((text(expression, "key"), written))
    return ",".join(written for _, written in sorted(requirements, key=lambda each: each[0])) or empty


def _expression(expression: dict[str, Any]) -> str | None:
    key = text(expression, "key")
    values = sorted(texts(expression, "values"))
    match expression.get("operator"):
        case "In" if values:
            return f"{key} in ({','.join(values)})"
        case "NotIn" if values:
            return f"{key} notin ({','.join(values)})"
        case "Exists" if not values:
            return key
        case "DoesNotExist" if not values:
            return f"!{key}"
    return None


def plain(value: Any) -> str:
    """A number or a text, such as `1` or `50%`. Anything else has no place in a cell."""
    if isinstance(value, str):
        return value
    return str(value) if is_whole(value) or isinstance(value, float) else ""


def quantity(value: Any) -> str:
    """An amount of something, as short as it can be written. None at all is `0`."""
    given = plain(value)
    try:
        return canonical(given) if given else "0"
    except ValueError:
        return given


def container_names(template: Any) -> str:
    return ",".join(text(each, "name") for each in objects(template, "spec.containers"))


def container_images(template: Any) -> str:
    return ",".join(text(each, "image") for each in objects(template, "spec.containers"))


def endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def ingress_points(value: Any) -> str:
    """The addresses of a load balancer, each once, in order."""
    found = (text(each, "ip") or text(each, "hostname") for each in objects(value, "status.loadBalancer.ingress"))
    return ",".join(sorted({each for each in found if each}))
