"""What a write of one sort may change, and how it is prepared and validated: a strategy for each sort.

A strategy has three parts. `part` is what of an object may change: all but its status, its status, or what a
subresource stands for. `owners` is how the owners of fields are known: from what has changed, or because an apply says
so. `requires_version` is of those that replace an object as a whole.

    PUT, PATCH, apply of an object       OBJECT         defaults, admission, validation
    …/status                             STATUS         validation
    …/status of a pod, nothing else      POD_STATUS     validation; the spec is neither read nor looked at
    …/resize of a pod                    RESIZE         validation; only amounts of resources may change
    …/ephemeralcontainers of a pod       EPHEMERAL      refused
    …/approval of a signing request      APPROVAL       validation; only its conditions may change
    …/scale, …/finalize                  Subresource    validation

A binding writes a pod in its own way (server/placement/binding.py), and so does a deletion (writes.py).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from mainstay.api import managed_fields
from mainstay.api.errors import StatusCause, invalid, invalid_value
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.pods import validate_ephemeral, validate_resize
from mainstay.server.storage import metadata
from mainstay.server.storage.stored import read, read_pod_for_status
from mainstay.store.interface import Entry

Admission = Callable[[Kind, Object, Object | None], None]
"""Looks at an object on its way in, and may change it. Raises `StatusError` to refuse it."""
ValidateChange = Callable[[Object, Object], Sequence[StatusCause]]
TrackOwners = Callable[[Object, Object | None, str], None]
"""Note in the first object which fields its manager has changed, compared with the second, by a subresource."""


class ObjectPart:
    """All of an object but its status, if that is a subresource of its own."""

    subresource = ""
    is_reviewed = True
    """Whether a change of this part is reviewed (review.py) before it is committed."""

    def read(self, kind: Kind, entry: Entry) -> Object:
        return read(kind, entry)

    def widen(self, kind: Kind, entry: Entry, obj: Object) -> Object:
        """All of an object of which `read` may have read only what this part needs."""
        return obj

    def copy_to_change(self, kind: Kind, entry: Entry, old: Object) -> Object:
        """What a change is worked out from. Replacing, patching and applying leave alone what they are given."""
        return old

    def restrict(self, kind: Kind, new: Object, old: Object) -> Object:
        """The new object with what this part may not change taken from the old one."""
        if kind.has_status:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        return new

    def fill_in(self, kind: Kind, new: Object) -> None:
        kind.defaults(new)

    def admit(self, admission: Sequence[Admission], kind: Kind, new: Object, old: Object | None) -> None:
        """Put right what can be. Raises `StatusError` (422) for what cannot."""
        for step in admission:
            step(kind, new, old)
        kind.prepare(new, old)
        require_valid(kind, new, old)

    def finish(self, kind: Kind, new: Object, old: Object) -> None:
        metadata.count_generation(kind, new, old)


class StatusPart(ObjectPart):
    subresource = "status"
    is_reviewed = False

    def restrict(self, kind: Kind, new: Object, old: Object) -> Object:
        """The labels and annotations of a pod may be written there too."""
        result = {**old, "metadata": dict(old["metadata"])}
        if "status" in new:
            result["status"] = new["status"]
        else:
            result.pop("status", None)
        if is_pod(kind):
            for name in ("labels", "annotations"):
                if name in new["metadata"]:
                    result["metadata"][name] = new["metadata"][name]
        return result

    def admit(self, admission: Sequence[Admission], kind: Kind, new: Object, old: Object | None) -> None:
        require_valid(kind, new, old)


class PodStatusPart(StatusPart):
    """For changes of a pod's status that need nothing but metadata and status. Pods are written so most of all."""

    def read(self, kind: Kind, entry: Entry) -> Object:
        return read_pod_for_status(kind, entry)

    def widen(self, kind: Kind, entry: Entry, obj: Object) -> Object:
        return {**obj, "spec": read(kind, entry)["spec"]}

    def fill_in(self, kind: Kind, new: Object) -> None:
        """Defaults are in the spec."""

    def finish(self, kind: Kind, new: Object, old: Object) -> None:
        """The generation counts changes of the spec."""


class SubresourcePart(ObjectPart):
    """What a subresource other than the status stands for: its change says itself what may change."""

    def __init__(self, subresource: str) -> None:
        self.subresource = subresource

    def copy_to_change(self, kind: Kind, entry: Entry, old: Object) -> Object:
        return read(kind, entry)  # These changes are made in place.

    def restrict(self, kind: Kind, new: Object, old: Object) -> Object:
        return new

    def fill_in(self, kind: Kind, new: Object) -> None:
        """Nothing but this part has changed."""

    def admit(self, admission: Sequence[Admission], kind: Kind, new: Object, old: Object | None) -> None:
        require_valid(kind, new, old)


class ApprovalPart(ObjectPart):
    """What approvers say of a signing request: the conditions of its status."""

    subresource = "approval"

    def restrict(self, kind: Kind, new: Object, old: Object) -> Object:
        conditions = (new.get("status") or {}).get("conditions") or []
        status = {**(old.get("status") or {}), "conditions": conditions}
        return {**old, "metadata": dict(old["metadata"]), "status": status}

    def admit(self, admission: Sequence[Admission], kind: Kind, new: Object, old: Object | None) -> None:
        require_valid(kind, new, old)


class PodSpecPart(ObjectPart):
    """A part of a pod's spec that may change while the pod runs: `validate` says which."""

    def __init__(self, subresource: str, validate: ValidateChange) -> None:
        self.subresource = subresource
        self._validate = validate

    def restrict(self, kind: Kind, new: Object, old: Object) -> Object:
        return {**old, "metadata": dict(old["metadata"]), "spec": new.get("spec") or {}}

    def admit(self, admission: Sequence[Admission], kind: Kind, new: Object, old: Object | None) -> None:
        causes = [*metadata.problems(kind, new, old), *self._validate(new, old or {})]
        if causes:
            raise invalid(kind.kind, kind.group, new["metadata"]["name"], causes)


OBJECT: Final = ObjectPart()
STATUS: Final = StatusPart()
RESIZE: Final = PodSpecPart("resize", validate_resize)
EPHEMERAL: Final = PodSpecPart("ephemeralcontainers", validate_ephemeral)
APPROVAL: Final = ApprovalPart()
POD_STATUS: Final = PodStatusPart()


def part_for(subresource: str) -> ObjectPart:
    match subresource:
        case "":
            return OBJECT
        case "status":
            return STATUS
        case "resize":
            return RESIZE
        case "ephemeralcontainers":
            return EPHEMERAL
        case "approval":
            return APPROVAL
        case other:
            return SubresourcePart(other)


class Owners(Protocol):
    """How it is known who owns the fields of an object."""

    def claim(self, new: Object, old: Object, sent: list[Any] | None) -> bool:
        """Whether a write that changes nothing but the owners is one. `sent` is what the change says of owners."""

    def record(self, track: TrackOwners, new: Object, old: Object | None, subresource: str) -> None:
        """Note who owns what, before the server adds fields of its own."""


class TrackedOwners:
    """The manager of a write owns what it changes."""

    def claim(self, new: Object, old: Object, sent: list[Any] | None) -> bool:
        return managed_fields.are_sent(new, old)

    def record(self, track: TrackOwners, new: Object, old: Object | None, subresource: str) -> None:
        track(new, old, subresource)


class AppliedOwners:
    """An apply says itself what its manager owns."""

    def claim(self, new: Object, old: Object, sent: list[Any] | None) -> bool:
        managed_fields.put(new, sent or [])
        return True

    def record(self, track: TrackOwners, new: Object, old: Object | None, subresource: str) -> None:
        """It is in the object already."""


TRACKED: Final = TrackedOwners()
APPLIED: Final = AppliedOwners()


class WriteStrategy(Struct, frozen=True):
    part: ObjectPart = OBJECT
    owners: Owners = TRACKED
    requires_version: bool = False
    """That the client names the version which it replaces, if the kind wants that."""


PATCH: Final = WriteStrategy()


def require_version(kind: Kind, name: str) -> None:
    """Raise `StatusError` if an object of this kind may only be replaced by a client that names its version."""
    if kind.put_needs_version:
        text = "must be specified for an update"
        raise invalid(kind.kind, kind.group, name, [invalid_value("metadata.resourceVersion", 0, text)])


def require_valid(kind: Kind, new: Object, old: Object | None) -> None:
    causes = [*metadata.problems(kind, new, old), *kind.validate(new, old)]
    if causes:
        raise invalid(kind.kind, kind.group, new["metadata"].get("name", ""), causes)


def is_pod(kind: Kind) -> bool:
    return kind.kind == "Pod" and kind.group == ""
