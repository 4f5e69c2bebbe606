"""What a cache can be asked for besides names: by node, by owner, by a label.

An index is a declaration: where in an object to look, and which texts to make of what is there. An object is found
under each of them; one that gives none is not in the index. The cache reads only the fields that its indexes name, so
an index on one field stays cheap however large the objects are.

    cache = Cache(PODS, [NODE, OWNER, label("app")])
    cache.by("node", "node-c12")        → the keys of the pods there, sorted
    cache.by("label:app", "risk-api")

A tenant is a namespace. Zone and region are those of a node, as its labels tell them; the pods in them are found
through their nodes (join.py). What only one component asks for is declared there, as rollouts by policy version are in
controllers/policy_rollout/versions.py."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.well_known_labels import REGION_LABEL, ZONE_LABEL
from mainstay.client.partial import Path


@dataclass(frozen=True, slots=True)
class Index:
    name: str
    path: Path
    """Where to look. Empty is the whole object, which then has to be read completely at each change."""
    values: Callable[[Any], Iterable[str]]
    """What to find an object under, given what is at the path. A plain function; not called where nothing is."""


def field(*path: str, name: str = "") -> Index:
    """By the value of a field: `field("spec", "schedulerName")`. Texts, numbers, booleans; a list by each of them."""
    return Index(name or ".".join(path), path, _texts)


def label(key: str, *, name: str = "") -> Index:
    """By the value of one label."""

    def values(labels: Any) -> Iterable[str]:
        value = labels.get(key) if isinstance(labels, dict) else None
        return (value,) if isinstance(value, str) else ()

    return Index(name or f"label:{key}", ("metadata", "labels"), values)


def _texts(value: Any) -> Iterable[str]:
    match value:
        case str():
            return (value,) if value else ()
        case bool():
            return ("true" if value else "false",)
        case int() | float():
            return (str(value),)
        case list():
            return [text for each in value if not isinstance(each, list) for text in _texts(each)]
    return ()


def _owner_uids(references: Any) -> Iterable[str]:
    if not isinstance(references, list):
        return ()
    return [uid for each in references if isinstance(each, dict) and isinstance(uid := each.get("uid"), str)]


NAMESPACE: Final = field("metadata", "namespace", name="namespace")
"""By tenant."""
NODE: Final = field("spec", "nodeName", name="node")
ZONE: Final = label(ZONE_LABEL, name="zone")
REGION: Final = label(REGION_LABEL, name="region")
PRIORITY_CLASS: Final = field("spec", "priorityClassName", name="priority-class")
OWNER: Final = Index("owner", ("metadata", "ownerReferences"), _owner_uids)
"""By the uid of each owner."""
