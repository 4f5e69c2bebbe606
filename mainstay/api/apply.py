"""Server-side apply: a manager says what it wants of an object, and gets that much of it and no more.

What is applied is merged into what is there. What the same manager applied before and now leaves out goes away, unless
another manager owns it too. What would change a value that another manager owns is a conflict, which the manager can
force. In the end the manager owns exactly what it said.

    live:    {a: 1, b: 1}  m1 owns a, b          live:    {a: 2, b: 1}  m1 owns b; m2 owns a
    m2 applies {a: 2}                            m1 applies {}
      refused: conflict with "m1": .a              {a: 2}, m2 owns a
      forced:  {a: 2, b: 1}

Lists merge as field_shapes.py says: by keys, as sets, or as a whole. In a merged list, what is applied comes in the
order of the patch, and what only the object has keeps its place among that.

Not done here: defaults, admission, and whether the result is valid. That is as for any other write.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api import managed_fields
from mainstay.api.causes import FIELD_MANAGER_CONFLICT
from mainstay.api.conform import conform
from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.field_sets import (
    FieldSet,
    compare_fields,
    difference,
    fields_in,
    find_field,
    has_self,
    intersection,
    name_element,
    ordered,
    paths,
    union,
)
from mainstay.api.field_shapes import ANY, KEYED, MAP, SET, STRUCT, FieldShape, find_shape
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.api.managed_fields import APPLY, BEFORE_FIRST_APPLY, UPDATE, Owned, Owner, Owners
from mainstay.api.object_meta import conform_metadata

_OBJECTS: Final = (STRUCT, MAP, ANY)


@dataclass(frozen=True, slots=True)
class Application:
    """What a manager wants of one object: make it with what came in the request, then ask for `applied`."""

    kind: Kind
    namespace: str
    name: str
    patch: Object
    manager: str
    now: str
    force: bool = False
    subresource: str = ""

    def applied(self, live: Object | None) -> Object:
        """The object that should be, with `managedFields`, given the one that is there.

        StatusError 409 if others own what would be changed, and the manager does not force it; 400 or 500 if the patch
        is not for such an object.
        """
        self._require_same_kind()
        patch = self._effective_patch()
        self._require_fitting(patch)
        shape = find_shape(self.kind.message)
        before = _without_owners(live) if live is not None else {}
        owners = self._owners(live)
        owner = Owner(self.manager, APPLY, self.kind.group_version, self.subresource)
        last = owners.pop(owner.identity, None)
        said = fields_in(patch, shape)
        claimed = managed_fields.stripped(said, without_status=self._is_without_status)

        new: Object = merged(before, patch, shape)
        if last is not None and last.fields:
            kept = said  # With the name, which is not owned: it keeps the metadata from going with its last label.
            for other in owners.values():
                kept = union(kept, other.fields)
            new = _pruned(new, last.fields, kept, shape)
        changed, gone = compare_fields(before, new, shape)
        changed = managed_fields.stripped(changed, without_status=self._is_without_status)
        gone = managed_fields.stripped(gone, without_status=self._is_without_status)
        if not self.force:
            _require_no_conflicts(owners, changed)

        after = managed_fields.give_up(owners, owner, changed, gone)
        is_as_before = last is not None and not changed and not gone and last.fields == claimed
        time = last.time if last is not None and is_as_before else self.now
        after[owner.identity] = Owned(owner, time, ordered(claimed))
        if self.kind.message:
            conform(new, self.kind.message)
        else:
            conform_metadata(new)
        managed_fields.put(new, managed_fields.written_owners(after))
        return new

    @property
    def _is_without_status(self) -> bool:
        return self.kind.has_status and self.subresource != "status"

    def _require_same_kind(self) -> None:
        version, kind = self.patch.get("apiVersion") or "", self.patch.get("kind") or ""
        if (version, kind) != (self.kind.group_version, self.kind.kind):
            group, _, bare = str(version).rpartition("/")
            raise bad_request(f"invalid object type: {group}/{bare}, Kind={kind}")
        metadata = self.patch.get("metadata")
        metadata = {} if metadata is None else metadata
        if not isinstance(metadata, dict):
            raise bad_request("metadata must be an object")
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        name = metadata.get("name") or self.name
        if name != self.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({self.name})")

    def _effective_patch(self) -> Object:
        """The patch without what this way to the object does not lead to."""
        patch = dict(self.patch)
        metadata = {name: each for name, each in (patch.get("metadata") or {}).items() if name != "managedFields"}
        patch["metadata"] = {**metadata, "name": self.name}
        if self._is_without_status:
            patch.pop("status", None)
        if self.subresource == "status":
            is_pod = (self.kind.group, self.kind.kind) == ("", "Pod")
            names = ("name", "uid", "resourceVersion", *(("labels", "annotations") if is_pod else ()))
            patch = {name: patch[name] for name in ("apiVersion", "kind", "metadata", "status") if name in patch}
            patch["metadata"] = {name: patch["metadata"][name] for name in names if name in patch["metadata"]}
        return patch

    def _require_fitting(self, patch: Object) -> None:
        checked = copied(patch)
        unknown = conform(checked, self.kind.message) if self.kind.message else conform_metadata(checked)
        problems = find_list_problems(patch, find_shape(self.kind.message), "")
        problems += [f".{path}: field not declared in schema" for path in unknown]
        if problems:
            what = f"{self.namespace}/{self.name}; {self.kind.group_version}, Kind={self.kind.kind}"
            text = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {each}" for each in problems)
            raise StatusError(500, "", f"failed to create typed patch object ({what}): {text}")

    def _owners(self, live: Object | None) -> Owners:
        if live is None:
            return {}
        owners = managed_fields.stored_owners(live)
        if not owners:
            # Who wrote it is unknown: what is there belongs to that unknown writer.
            owner = Owner(BEFORE_FIRST_APPLY, UPDATE, self.kind.group_version, "")
            fields = managed_fields.owned_from_the_start(
                _without_owners(live), self.kind.message, without_status=self._is_without_status
            )
            owners = {owner.identity: Owned(owner, self.now, fields)} if fields else {}
        return owners


def _without_owners(obj: Object) -> Object:
    return {**obj, "metadata": {name: each for name, each in obj["metadata"].items() if name != "managedFields"}}


# Conflicts


def _require_no_conflicts(owners: Owners, changed: FieldSet) -> None:
    found: list[tuple[str, list[str]]] = []
    for identity in sorted(owners):
        conflicting = paths(intersection(owners[identity].fields, changed))
        if conflicting:
            found.append((_shown(owners[identity].owner), conflicting))
    if not found:
        return
    causes = [
        {"reason": FIELD_MANAGER_CONFLICT, "message": f"conflict with {who}", "field": path}
        for who, conflicting in found
        for path in conflicting
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [line for who, all_ in found for line in (f"conflicts with {who}:", *(f"- {path}" for path in all_))]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    raise StatusError(409, StatusReason.CONFLICT, text, {"causes": causes})


def _shown(owner: Owner) -> str:
    text = f'"{owner.manager}"'
    if owner.subresource:
        text += f' with subresource "{owner.subresource}"'
    return f"{text} using {owner.api_version}" if owner.operation == UPDATE else text


# Merging


def merged(live: Any, patch: Any, shape: FieldShape) -> Any:
    """What is there with what is applied in it. Shares nothing with the patch; unchanged parts with what is there."""
    if shape.how in _OBJECTS and isinstance(live, dict) and isinstance(patch, dict):
        result = dict(live)
        for name, value in patch.items():
            result[name] = merged(live.get(name), value, find_field(shape, name)[1])
        return result
    if shape.how in (KEYED, SET) and isinstance(live, list) and isinstance(patch, list):
        return _merged_list(live, patch, shape)
    return copied(patch)


def _merged_list(live: Sequence[Any], patch: Sequence[Any], shape: FieldShape) -> list[Any]:
    before = [(name_element(element, shape), element) for element in live]
    wanted = [(name_element(element, shape), element) for element in patch]
    there = {step: element for step, element in reversed(before) if step is not None}
    steps = {step for step, _ in wanted}
    shared = [step for step, _ in wanted if step in there]
    result: list[Any] = []
    at = 0
    for step, element in wanted:
        # What only the object has keeps its place: before the next element that is in both.
        while at < len(before) and not (shared and before[at][0] == shared[0]):
            if before[at][0] not in steps:
                result.append(before[at][1])
            at += 1
        if step in there:
            shared.pop(0)
            result.append(merged(there[step], element, shape.items))
        else:
            result.append(copied(element))
    return result + [element for step, element in before[at:] if step not in steps]


def find_list_problems(value: Any, shape: FieldShape, path: str) -> list[str]:
    """Why the elements of lists in a patch cannot be told apart."""
    found: list[str] = []
    if shape.how in _OBJECTS and isinstance(value, dict):
        for name, each in value.items():
            found += find_list_problems(each, find_field(shape, name)[1], f"{path}.{name}")
    elif shape.how in (KEYED, SET) and isinstance(value, list):
        seen: set[str] = set()
        for index, element in enumerate(value):
            step = name_element(element, shape)
            if step is None:
                text = f'associative list with keys has an element that omits key field "{shape.keys[0]}"'
                found.append(f"{path}: element {index}: {text} (and doesn't have default value)")
                continue
            shown = paths({step: {}})[0]
            if step in seen:
                found.append(f"{path}: duplicate entries for key {shown}")
            seen.add(step)
            if shape.how == KEYED:
                found += find_list_problems(element, shape.items, path + shown)
    return found


# Pruning


def _pruned(new: Object, last: FieldSet, kept: FieldSet, shape: FieldShape) -> Object:
    """Without what the manager applied before, `last`, and no manager owns now: `kept` is what some manager owns."""
    last = _with_structs(last, shape)
    all_there = _with_structs(fields_in(new, shape), shape)
    rest = _with_structs(fields_in(without(new, last, shape) or {}, shape), shape)
    # Put back what some manager owns, and with it what is around it.
    owned = without(new, difference(all_there, union(rest, _with_structs(kept, shape))), shape)
    # Put back what went away only because it was inside of what was taken out: no manager removed it.
    lost = difference(all_there, _with_structs(fields_in(owned or {}, shape), shape))
    return without(new, intersection(lost, last), shape, leaves_null=False) or {}


def _with_structs(fields: FieldSet, shape: FieldShape) -> FieldSet:
    """The set with all objects with known fields that its fields are in: so that removing leaves no shells."""
    result: FieldSet = {}
    for step, below in fields.items():
        if step == "." or not below:
            result[step] = below
            continue
        of_field = shape.items if shape.how == KEYED else find_field(shape, step[2:])[1]
        tree = _with_structs(below, of_field)
        result[step] = {".": {}, **tree} if shape.how in (STRUCT, ANY) and "." not in tree else tree
    return result


def without(value: Any, fields: FieldSet, shape: FieldShape, *, leaves_null: bool = True) -> Any:
    """A value without some of its fields. What becomes empty by that becomes null, or goes as well."""
    if shape.how in _OBJECTS and isinstance(value, dict):
        result: Object = {}
        for name, each in value.items():
            step, of_field, _ = find_field(shape, name)
            if step not in fields:
                result[name] = each
            elif not has_self(fields[step]):
                rest = without(each, fields[step], of_field, leaves_null=leaves_null)
                if rest is not None or leaves_null:
                    result[name] = rest
        return result or None
    if shape.how in (KEYED, SET) and isinstance(value, list):
        elements: list[Any] = []
        for element in value:
            name = name_element(element, shape)
            if name not in fields:
                elements.append(element)
            elif not has_self(fields[name]):
                elements.append(without(element, fields[name], shape.items, leaves_null=leaves_null))
        return elements or None
    return value
