"""What the server itself says in an object's metadata, and what it will not let others say. Plain functions."""

from collections.abc import Sequence
from typing import Final

from mainstay.api import names
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, required
from mainstay.api.kind import Kind, Object

ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

# Set by the server; what a client sends in their place does not count.
_SERVER_SET: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")


def begin(kind: Kind, new: Object, *, uid: str, now: str) -> None:
    """The metadata of an object that is being made."""
    metadata = new["metadata"]
    for name in _SERVER_SET:
        metadata.pop(name, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if kind.has_generation:
        metadata["generation"] = 1


def carry_over(kind: Kind, new: Object, old: Object) -> None:
    """What an update may not change about the metadata."""
    metadata, before = new["metadata"], old["metadata"]
    for name in (*_SERVER_SET, "uid", "creationTimestamp", "generation", "generateName"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    if "name" in before:
        metadata["name"] = before["name"]
    if kind.namespaced:
        metadata["namespace"] = before["namespace"]


def count_generation(kind: Kind, new: Object, old: Object) -> None:
    """Count a change of what is wanted: of everything but the metadata, and the status if it has a door of its own."""
    if kind.has_generation and _wanted(kind, new) != _wanted(kind, old):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1


def _wanted(kind: Kind, obj: Object) -> Object:
    others = ("metadata", "kind", "apiVersion") if kind.is_custom and not kind.has_status else _NOT_WANTED
    return {name: value for name, value in obj.items() if name not in others}


_NOT_WANTED: Final = ("metadata", "status", "kind", "apiVersion")


def problems(kind: Kind, new: Object, old: Object | None) -> Sequence[StatusCause]:
    """What is wrong with the metadata."""
    metadata = new["metadata"]
    found: list[StatusCause] = []
    name = metadata.get("name", "")
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    elif old is None:
        found += [invalid_value("metadata.name", name, text) for text in names.name_problems(kind.name_rule, name)]
    for key, value in (metadata.get("labels") or {}).items():
        for text in names.qualified_name(key):
            found.append(invalid_value("metadata.labels", key, text))
        for text in names.label_value(value):
            found.append(invalid_value("metadata.labels", value, text))
    annotations_bytes = 0
    for key, value in (metadata.get("annotations") or {}).items():
        annotations_bytes += len(key) + len(value)
        for text in names.annotation_key(key):
            found.append(invalid_value("metadata.annotations", key, text))
    if annotations_bytes > ANNOTATIONS_BYTES_MAX:
        found.append(forbidden_value("metadata.annotations", f"may not be more than {ANNOTATIONS_BYTES_MAX} bytes"))
    for index, owner in enumerate(metadata.get("ownerReferences") or []):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                found.append(required(f"metadata.ownerReferences[{index}].{field}", f"{field} must not be empty"))
    if old is not None and "deletionTimestamp" in old["metadata"]:
        before = old["metadata"].get("finalizers") or []
        added = [each for each in metadata.get("finalizers") or [] if each not in before]
        if added:
            shown = ", ".join(f'"{each}"' for each in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
            found.append(forbidden_value("metadata.finalizers", text + shown + "}"))
    return found
