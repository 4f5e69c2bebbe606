"""The difference between the status that is stored and the one that should be, as a strategic merge patch.

Lists of container statuses are replaced as a whole. Of the conditions only those are named that differ, so that others
who write theirs at the same moment (readiness gates) are not overwritten; and none is ever taken away. Nothing to say
is None, not an empty patch: who writes without a change is woken by the change that this makes.
"""

from collections.abc import Mapping
from typing import Any

from mainstay.api.kind import Object

_BY_KEY = {"podIPs": "ip", "hostIPs": "ip"}


def status_patch(stored: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> Object | None:
    """What to send as `status`. None: it is as it should be."""
    before = stored or {}
    patch: Object = {}
    for name in sorted({*before, *wanted}):
        old, new = before.get(name), wanted.get(name)
        if _same(old, new):
            continue
        if name == "conditions":
            if changed := _conditions(old or [], new or []):
                patch[name] = changed
                patch["$setElementOrder/conditions"] = [{"type": each["type"]} for each in new or []]
        elif name in _BY_KEY and old and new:
            patch[name] = [*new, {"$patch": "replace"}]
        else:
            patch[name] = new
    return patch or None


def _conditions(old: list[Object], new: list[Object]) -> list[Object]:
    known = {each["type"]: each for each in old}
    changed: list[Object] = []
    for condition in new:
        before = known.get(condition["type"], {})
        if not _same(before, condition):
            # What is not said any more, such as why it did not hold, has to be taken back by name.
            changed.append({**dict.fromkeys(before, None), **condition})
    return changed


def _same(one: Any, other: Any) -> bool:
    """Equal as far as the API can tell: a field that is empty is a field that is not there."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_same(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one == other or (not one and not other)
    return bool(one == other) or (_is_empty(one) and _is_empty(other))


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == {} or value == []
