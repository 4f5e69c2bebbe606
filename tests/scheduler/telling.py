"""Tell columns what changed between two views, in an order that is not theirs."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.what_if import Objects

Object = dict[str, Any]
Key = tuple[str, str]


def tell(columns: NodeColumns, before: Objects, after: Objects, random: Random) -> None:
    changes: list[Callable[[], object]] = []
    for old, new in _differences(before.nodes, after.nodes):
        name = (new or old or {})["metadata"]["name"]
        changes.append(lambda new=new, name=name: columns.node_changed(new, name))  # type: ignore[misc]
    for old, new in _differences(before.pods, after.pods):
        changes.append(lambda old=old, new=new: columns.pod_changed(old, new))  # type: ignore[misc]
    for old, new in _differences(before.reservations, after.reservations):
        changes.append(lambda old=old, new=new: columns.reservation_changed(old, new))  # type: ignore[misc]
    for old, new in _differences(before.zone_quotas, after.zone_quotas):
        changes.append(lambda old=old, new=new: columns.zone_quota_changed(old, new))  # type: ignore[misc]
    random.shuffle(changes)
    for change in changes:
        change()


def _differences(before: Sequence[Object], after: Sequence[Object]) -> list[tuple[Object | None, Object | None]]:
    old, new = _by_key(before), _by_key(after)
    return [(old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


def _by_key(objects: Sequence[Object]) -> dict[Key, Object]:
    return {(each["metadata"].get("namespace") or "", each["metadata"]["name"]): each for each in objects}
