"""Who owns which fields of an object: `metadata.managedFields`, kept as Kubernetes keeps it.

An entry says that a manager, by one kind of operation, through one version and one subresource, is the last who set
these fields. `Update` is every write that says what the object shall be; its fields are found by comparing the object
before and after. `Apply` is a write that says what its manager wants (apply.py). A manager that changes a field takes
it from all others; one that applies a value that is there already shares it.

Only what a request said is looked at, defaults included: what the server itself puts in afterwards has no owner.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from mainstay.api.field_sets import FieldSet, begun, compare_fields, covers, difference, is_field_set, ordered, union
from mainstay.api.field_shapes import find_shape
from mainstay.api.kind import Object

UPDATE: Final = "Update"
APPLY: Final = "Apply"

UPDATERS_MAX: Final = 10  # As many are told apart; what the others did, the longest ago, is ancient changes.
_ANCIENT: Final = "ancient-changes"
BEFORE_FIRST_APPLY: Final = "before-first-apply"

# What names an object and what the server keeps about it belongs to no manager.
_NEVER_OWNED: Final = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation")
_NEVER_OWNED_STEPS: Final = frozenset(f"f:{name}" for name in (*_NEVER_OWNED, "managedFields", "resourceVersion")) | {
    "."
}


class Owner(Struct, frozen=True):
    """Who an entry is about. Someone who applies is the same in all versions."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return (self.manager, self.operation, "" if self.operation == APPLY else self.api_version, self.subresource)


class Owned(Struct, frozen=True):
    """An entry."""

    owner: Owner
    time: str
    fields: FieldSet


Owners = dict[tuple[str, str, str, str], Owned]
"""Entries by `Owner.identity`."""


def stored_owners(obj: Object) -> Owners:
    """The entries of an object that is there. They were checked when they came."""
    return _by_identity(_read(entry) for entry in obj["metadata"].get("managedFields") or ())


def sent_owners(entries: Any) -> Owners | None:
    """The entries that a client sends. None if they are not what they should be."""
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        return None
    return _by_identity(_read(entry) for entry in entries)


def _by_identity(found: Iterable[Owned]) -> Owners:
    owners: Owners = {}
    for owned in found:
        known = owners.get(owned.owner.identity)
        if known is not None:
            owned = replace(owned, fields=union(known.fields, owned.fields))
        owners[owned.owner.identity] = owned
    return owners


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("operation") not in (UPDATE, APPLY):
        return False
    texts = [entry.get(name, "") for name in ("manager", "apiVersion", "subresource", "time")]
    is_known = bool(texts[1]) and entry.get("fieldsType", "FieldsV1") == "FieldsV1"
    return is_known and all(isinstance(text, str) for text in texts) and is_field_set(entry.get("fieldsV1", {}))


def _read(entry: Object) -> Owned:
    return Owned(_owner(entry), entry.get("time", ""), entry.get("fieldsV1", {}))


def _owner(entry: Object) -> Owner:
    return Owner(entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource", ""))


def written_owners(owners: Owners) -> list[Object]:
    """As entries in an object's metadata: those who apply first, then the oldest first. Who owns nothing has none."""
    kept = [_entry(owned) for owned in owners.values() if owned.fields]
    kept.sort(key=_order)
    return kept


def _order(entry: Object) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time", ""),
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def _rest(owner: Owner) -> tuple[str, str, str]:
    return (owner.manager, owner.api_version, owner.subresource)


def _entry(owned: Owned) -> Object:
    owner = owned.owner
    entry: Object = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owned.fields
    if owner.subresource:
        entry["subresource"] = owner.subresource
    return entry


def updated(
    old: Object | None,
    new: Object,
    *,
    manager: str,
    api_version: str,
    now: str,
    message: str,
    subresource: str = "",
    without_status: bool = False,
) -> list[Object]:
    """The entries of an object that is written: what its `metadata.managedFields` should be.

    `new` is as the request wants it, with defaults; entries that it has itself are taken in place of those of `old`, as
    long as they make sense. An empty list, or one with an empty entry, makes the object forget. `without_status` is for
    a write through which the status cannot be written.
    """
    owner = Owner(manager, UPDATE, api_version, subresource)
    if old is None:
        sent = new["metadata"].get("managedFields")
        if not sent:
            fields = owned_from_the_start(new, message, without_status=without_status)
            return [_entry(Owned(owner, now, fields))] if fields else []
    before: Object = {} if old is None else old
    changed, gone = compare_fields(before, new, find_shape(message))
    _strip(changed, without_status=without_status)
    _strip(gone, without_status=without_status)
    if old is not None and not gone and not are_sent(new, old):
        again = _changed_again(old["metadata"].get("managedFields") or (), owner, changed, now)
        if again is not None:
            return again
    owners = _owners_to_go_by(old, new, subresource)
    if old is not None and not owners:
        return []  # Forgotten on purpose, or made before there was a record: only applying begins a new one.
    after = give_up(owners, owner, changed, gone)
    if changed:
        own = after.get(owner.identity)
        had = difference(own.fields, gone) if own is not None else {}
        # Mostly a manager writes again what it wrote before.
        fields = had if covers(had, changed) else ordered(union(had, changed))
        after[owner.identity] = Owned(owner, now, fields)
    return written_owners(_without_ancients(after))


def _changed_again(entries: Sequence[Object], owner: Owner, changed: FieldSet, now: str) -> list[Object] | None:
    """The entries after an owner has changed fields that it had already, and no other owner: as most writes do.

    None if it is not so. It is what `updated` would find out in the general way, for a fraction of the work.
    """
    own: Object | None = None
    after: list[Object] = []
    for entry in entries:
        fields = entry.get("fieldsV1")
        if not fields:
            return None
        if _owner(entry) == owner:
            if own is not None or not covers(fields, changed):
                return None
            own = _entry(Owned(owner, now if changed else entry.get("time", ""), fields))
            after.append(own)
        elif difference(fields, changed) is fields:
            after.append(entry)
        else:
            return None
    if own is None or len(after) > UPDATERS_MAX:
        return None
    return sorted(after, key=_order) if len(after) > 1 else after


def owned_from_the_start(obj: Object, message: str, *, without_status: bool) -> FieldSet:
    """The fields of an object that is being made."""
    fields = begun(obj, find_shape(message))
    _strip(fields, without_status=without_status)
    return fields


def _strip(fields: FieldSet, *, without_status: bool) -> None:
    """Take out what cannot be owned. For a set whose top was just made, and is not shared."""
    fields.pop("f:apiVersion", None)
    fields.pop("f:kind", None)
    if without_status:
        fields.pop("f:status", None)
    if "f:metadata" in fields:
        metadata = {step: below for step, below in fields["f:metadata"].items() if step not in _NEVER_OWNED_STEPS}
        if metadata:
            fields["f:metadata"] = metadata
        else:
            del fields["f:metadata"]


def stripped(fields: FieldSet, *, without_status: bool) -> FieldSet:
    """A set without what cannot be owned."""
    result = dict(fields)
    _strip(result, without_status=without_status)
    return result


def give_up(owners: Owners, new_owner: Owner, changed: FieldSet, gone: FieldSet) -> Owners:
    """What all but one still own after fields have been changed and removed. What was not touched is as it was."""
    after: Owners = {}
    lost = union(changed, gone)
    for identity, owned in owners.items():
        fields = difference(owned.fields, gone if identity == new_owner.identity else lost)
        if fields:
            after[identity] = owned if fields is owned.fields else replace(owned, fields=fields)
    return after


def _owners_to_go_by(old: Object | None, new: Object, subresource: str) -> Owners:
    before = old["metadata"].get("managedFields") if old is not None else None
    sent = new["metadata"].get("managedFields")
    if not subresource and sent is not None and sent != before:
        if is_forgetting(sent):
            return {}
        owners = sent_owners(sent)
        if owners:
            return owners
    return stored_owners(old) if old is not None else {}


def is_forgetting(sent: Any) -> bool:
    """Whether a client says that all entries shall go."""
    return isinstance(sent, list) and sent in ([], [{}])


def _without_ancients(owners: Owners) -> Owners:
    """At most so many who update: the entries that are the oldest become one for each version."""
    updaters = [owned for owned in owners.values() if owned.owner.operation == UPDATE]
    if len(updaters) <= UPDATERS_MAX:
        return owners
    updaters.sort(key=lambda each: (each.time, *_rest(each.owner)))
    kept = dict(owners)
    for owned in updaters:
        if sum(each.owner.operation == UPDATE for each in kept.values()) <= UPDATERS_MAX:
            break
        if owned.owner.manager == _ANCIENT:
            continue
        del kept[owned.owner.identity]
        ancient = Owner(_ANCIENT, UPDATE, owned.owner.api_version, "")
        known = kept.get(ancient.identity)
        fields = ordered(union(known.fields, owned.fields)) if known is not None else owned.fields
        kept[ancient.identity] = Owned(ancient, owned.time, fields)
    return kept


def put(obj: Object, entries: list[Object]) -> None:
    """Write entries into an object. None at all are no field."""
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def are_sent(new: Object, old: Object) -> bool:
    """Whether a client says itself who owns an object."""
    sent = new["metadata"].get("managedFields")
    return sent is not None and sent != old["metadata"].get("managedFields")


def is_same_object(new: Object, old: Object, *, with_owners: bool) -> bool:
    """Whether a write would change nothing. When something was owned does not count; by whom, only `with_owners`.

    What a kind is called and the resource version do not count either: they are not part of what is stored.
    """
    # What is most likely to differ comes first.
    if _without(new, _NOT_STORED) != _without(old, _NOT_STORED):
        return False
    after, before = new["metadata"], old["metadata"]
    if _without(after, _NOT_COMPARED) != _without(before, _NOT_COMPARED):
        return False
    owners, owners_before = after.get("managedFields"), before.get("managedFields")
    return not with_owners or owners == owners_before or _without_times(owners) == _without_times(owners_before)


_NOT_STORED: Final = ("metadata", "kind", "apiVersion")  # The first is compared by itself.
_NOT_COMPARED: Final = ("managedFields", "resourceVersion")


def _without(obj: Object, names: Sequence[str]) -> Object:
    return {name: value for name, value in obj.items() if name not in names}


def _without_times(entries: Any) -> Sequence[Object]:
    bare = [{name: value for name, value in entry.items() if name != "time"} for entry in entries or ()]
    # Times also decided about the order.
    return sorted(bare, key=lambda each: [str(each.get(name)) for name in _NAMING])


_NAMING: Final = ("manager", "operation", "apiVersion", "subresource")
