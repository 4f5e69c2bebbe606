"""What controllers ask of a pod: whether it counts, is ready, has been so for long enough, and where it is.

Plain functions over objects as the API has them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.well_known_labels import ZONE_LABEL

OVER: Final = ("Succeeded", "Failed")


def is_over(pod: Object) -> bool:
    """It has ended by itself, and will not run again."""
    return (pod.get("status") or {}).get("phase") in OVER


def is_leaving(pod: Object) -> bool:
    """It was told to end."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_active(pod: Object) -> bool:
    """It runs, or is going to."""
    return not is_over(pod) and not is_leaving(pod)


def is_terminating(pod: Object) -> bool:
    """It may still run, and will not for long."""
    return is_leaving(pod) and not is_over(pod)


def find_condition(obj: Object, name: str) -> Mapping[str, Any] | None:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == name:
            found: Mapping[str, Any] = condition
            return found
    return None


def is_ready(pod: Object) -> bool:
    condition = find_condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Object) -> datetime | None:
    """Since when it is ready; None if it is not, or if that is unknown."""
    condition = find_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    return parse_time_or_none(condition.get("lastTransitionTime"))


def available_at(pod: Object, min_ready: timedelta) -> datetime | None:
    """From when on it counts as available if it stays ready; None if it is not ready."""
    since = ready_since(pod)
    return None if since is None else since + min_ready


def is_available(pod: Object, min_ready: timedelta, now: datetime) -> bool:
    """Ready for at least so long."""
    if not min_ready:
        return is_ready(pod)
    at = available_at(pod, min_ready)
    return at is not None and at <= now


def next_available(pods: Iterable[Object], min_ready: timedelta, now: datetime) -> datetime | None:
    """When the next of those that are ready becomes available."""
    if not min_ready:
        return None
    found = [at for pod in pods if (at := available_at(pod, min_ready)) is not None and at > now]
    return min(found, default=None)


def get_node_name(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def get_zone(node: Object | None) -> str:
    """The failure domain of a node. Nodes that say none are all in the same."""
    return "" if node is None else str((node["metadata"].get("labels") or {}).get(ZONE_LABEL) or "")


def created_at(obj: Object) -> datetime:
    return parse_time_or_none(obj["metadata"].get("creationTimestamp")) or _LONG_AGO


def parse_time_or_none(text: Any) -> datetime | None:
    return times.parse_time(text) if isinstance(text, str) and text else None


_LONG_AGO: Final = times.parse_time("1970-01-01T00:00:00Z")
