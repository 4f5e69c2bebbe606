"""What the server itself says in an object's metadata, and what it will not let others say. Plain functions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mainstay.api import names
from mainstay.api.errors import StatusCause, StatusError, forbidden_value, invalid, invalid_value, required
from mainstay.api.kind import Kind, Object
from mainstay.api.object_meta import conform_metadata, is_strict

ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

# Set by the server; what a client sends in their place does not count.
_SERVER_SET: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")


def require_strict(kind: Kind, new: Object) -> dict[str, Any]:
    """The metadata of an object that is to be written, whichever way it came. Raises `StatusError` (422) for a wrong
    type. Nothing looks into the object before this."""
    if not is_strict(new.get("metadata")):
        try:
            conform_metadata(new)  # Nulls and unknown fields go.
        except StatusError as error:
            raise invalid(kind.kind, kind.group, "", [invalid_value("metadata", "", error.message)]) from None
        new.setdefault("metadata", {})
    given: dict[str, Any] = new["metadata"]
    return given


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
        if generate := metadata.get("generateName"):
            texts = names.name_problems(kind.name_rule, generate, is_prefix=True)
            found += [invalid_value("metadata.generateName", generate, text) for text in texts]
    found += text_problems(metadata.get("labels") or {}, metadata.get("annotations") or {})
    if owners := metadata.get("ownerReferences"):
        found += _owner_problems(owners)
    if finalizers := metadata.get("finalizers"):
        found += _finalizer_problems(kind, finalizers)
    if old is not None and "deletionTimestamp" in old["metadata"]:
        before = old["metadata"].get("finalizers") or []
        added = [each for each in metadata.get("finalizers") or [] if each not in before]
        if added:
            shown = ", ".join(f'"{each}"' for each in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
            found.append(forbidden_value("metadata.finalizers", text + shown + "}"))
    return found


def text_problems(labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[StatusCause]:
    found: list[StatusCause] = []
    for key, value in labels.items():
        for text in names.qualified_name(key):
            found.append(invalid_value("metadata.labels", key, text))
        for text in names.label_value(value):
            found.append(invalid_value("metadata.labels", value, text))
    annotations_bytes = 0
    for key, value in annotations.items():
        annotations_bytes += len(key) + len(value)
        for text in names.annotation_key(key):
            found.append(invalid_value("metadata.annotations", key, text))
    if annotations_bytes > ANNOTATIONS_BYTES_MAX:
        found.append(forbidden_value("metadata.annotations", f"may not be more than {ANNOTATIONS_BYTES_MAX} bytes"))
    return found


def _owner_problems(owners: Sequence[Object]) -> list[StatusCause]:
    """In the words of Kubernetes, which names no index."""
    found: list[StatusCause] = []
    path, controller = "metadata.ownerReferences", ""
    for owner in owners:
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        if api_version.count("/") > 1 or not api_version.rpartition("/")[2]:
            found.append(invalid_value(f"{path}.apiVersion", api_version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                found.append(invalid_value(f"{path}.{field}", "", "must not be empty"))
        if (api_version, kind) == ("v1", "Event"):
            found.append(invalid_value(path, kind, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            this = f"{kind}/{owner.get('name', '')}"
            if controller:
                text = f'Found "true" in references for {controller} and {this}'
                found.append(invalid_value(path, this, f"Only one reference can have Controller set to true. {text}"))
            controller = controller or this
    return found


_EXTENSIONS: Final = "apiextensions.k8s.io"  # Its own finalizer is not of the form that others must have.
_STANDARD_FINALIZERS: Final = ("kubernetes", ORPHAN, FOREGROUND)


def _finalizer_problems(kind: Kind, finalizers: Sequence[str]) -> list[StatusCause]:
    found: list[StatusCause] = []
    path = "metadata.finalizers"
    for each in finalizers:
        found += [invalid_value(path, each, text) for text in names.qualified_name(each)]
        if kind.message and kind.group != _EXTENSIONS and "/" not in each and each not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(invalid_value(path, each, text))
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        text = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        found.append(invalid_value(path, ", ".join(finalizers), text))
    return found
