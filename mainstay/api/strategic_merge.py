"""Strategic merge patch: a merge patch that knows the lists of built-in kinds, and can change single elements of them.

A patch looks like the object. Fields merge, null removes. A list that has a key (merge_keys.py) is merged element by
element; other lists are replaced. Besides, a patch can say what to do:

- `$patch: delete` in an element removes that element; in an object, all its fields.
- `$patch: replace` in an object makes it what the patch says; in any element, the whole list.
- `$retainKeys: [a, b]` in an object removes its other fields.
- `$deleteFromPrimitiveList/finalizers: [x]` removes values from a list of plain values.
- `$setElementOrder/containers: [{name: a}, {name: b}]` says in which order these are. Others stay where they were
  among them.

Which elements a list has is thus up to the patch; where they stand, in this order: `$setElementOrder`, the order in
the patch, the order in the object.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.json_values import DEEP, DEPTH_MAX, too_deep
from mainstay.api.kind import Object
from mainstay.api.merge_keys import MergeRule, merge_rule
from mainstay.api.schema import find_fields

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"

Identity = tuple[bool, Any]  # What an element is told apart by. The first part keeps `true` and `1` apart.


def strategic_merge(original: Object, patch: Object, message: str) -> Object:
    """The patched object, of which `message` describes the fields.

    The arguments stay as they are. The result shares with the original what the patch does not speak of, and nothing
    with the patch. StatusError 400 if the patch makes no sense.
    """
    if not isinstance(patch, dict):
        raise bad_request("invalid JSON document")
    return _merged(original, patch, message, "", 0)


def _merged(original: Object, patch: Object, message: str, values: str, depth: int) -> Object:
    """Merge an object: either fields of a message, or a map whose values are of the message `values`."""
    if depth >= DEPTH_MAX:
        raise too_deep()
    match patch.get(_PATCH):
        case "replace":
            replaced: Object = _without_directives(patch, depth)
            return replaced
        case "delete":
            return {}
        case None | "merge":
            pass
        case unknown:
            raise bad_request(f"unknown patch type: {unknown} in map: {_as_go(patch)}")
    result = _retained(original, patch)
    directives: list[tuple[str, str, Any]] = []
    for name, value in patch.items():
        if name[:1] == "$" and _is_directive(name):
            directive, _, field = name.partition("/")
            directives.append((directive, field, value))
        elif value is None:
            result.pop(name, None)
        elif type(value) not in DEEP:
            result[name] = value
        elif type(result.get(name)) is not type(value):
            result[name] = _without_directives(value, depth + 1)
        elif type(value) is dict:
            rule = merge_rule(message, name)
            if rule is not None and rule.strategy == "replace":
                result[name] = _without_directives(value, depth + 1)
            else:
                result[name] = _merged(result[name], value, *_below(message, values, name), depth + 1)
        elif type(value) is list and (rule := merge_rule(message, name)) is not None:
            result[name] = _merged_list(result[name], value, rule, _below(message, values, name)[0], depth + 1)
        else:
            result[name] = _without_directives(value, depth + 1)
    for directive, field, value in directives:
        if directive == _ORDER:
            rule = merge_rule(message, field) or MergeRule()
            _put_in_order(result, original.get(field), patch.get(field), field, value, rule)
    for directive, field, value in directives:
        if directive == _DELETE_FROM:
            _delete_values(result, field, value)
    return result


def _below(message: str, values: str, name: str) -> tuple[str, str]:
    """The message of a field's object (or of its list's elements), and that of the values if it is a map."""
    if values:
        return values, ""
    field = find_fields(message).get(name)
    if field is None:
        return "", ""
    return ("", field.type) if field.is_map else (field.type, "")


def _is_directive(name: str) -> bool:
    return name in (_PATCH, _RETAIN) or name.partition("/")[0] in (_ORDER, _DELETE_FROM)


def _retained(original: Object, patch: Object) -> Object:
    """What remains of an object by `$retainKeys`. All that the patch sets must be there too."""
    if _RETAIN not in patch:
        return dict(original)
    keys = patch[_RETAIN]
    if not isinstance(keys, list):
        raise bad_request("invalid patch format of retainKeys")
    for name, value in patch.items():
        if value is not None and name not in keys and not _is_directive(name):
            raise bad_request("invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in keys}


def _without_directives(value: Any, depth: int) -> Any:
    """A copy of a part of a patch, for where there is nothing to merge it with."""
    if depth >= DEPTH_MAX and isinstance(value, dict | list):
        raise too_deep()
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return {}
        return {
            name: _without_directives(each, depth + 1) if type(each) in DEEP else each
            for name, each in value.items()
            if each is not None and not (name[:1] == "$" and _is_directive(name))
        }
    if isinstance(value, list):
        # An element with a directive stands for something to do, not for an element.
        kept = (each for each in value if not (isinstance(each, dict) and each.get(_PATCH) in ("delete", "replace")))
        return [_without_directives(each, depth + 1) if type(each) in DEEP else each for each in kept]
    return value


# Lists


def _merged_list(original: Sequence[Any], patch: Sequence[Any], rule: MergeRule, message: str, depth: int) -> list[Any]:
    if depth >= DEPTH_MAX:
        raise too_deep()
    if not original and not patch:
        return []
    if _has_objects(original, patch):
        if not rule.key:
            raise bad_request("cannot merge lists without merge key for type struct")
        return _merged_objects(original, patch, rule.key, message, depth)
    ours, theirs = _identities(original, ""), _identities(patch, "")
    union = dict(zip((*ours, *theirs), (*original, *patch), strict=True))
    return _interleaved(list(union), list(union.values()), theirs, ours)


def _merged_objects(
    original: Sequence[Object], patch: Sequence[Object], key: str, message: str, depth: int
) -> list[Any]:
    changes: list[Object] = []
    deleted: set[Identity] = set()
    is_replaced = False
    for element in patch:
        match element.get(_PATCH):
            case "delete":
                deleted.add(_identity(element, key))
            case "replace":
                is_replaced = True
            case None | "merge":
                changes.append(element)
            case unknown:
                raise bad_request(f"unknown patch type: {unknown} in map: {_as_go(element)}")
    if is_replaced:
        return [_without_directives(each, depth + 1) for each in changes]

    before, wanted = _identities(original, key), _identities(changes, key)
    remaining = list(zip(before, original, strict=True))
    if deleted:
        remaining = [(name, each) for name, each in remaining if name not in deleted]
        before = [name for name, _ in remaining]
    names, merged = list(before), [each for _, each in remaining]
    position = _positions(names)
    for name, change in zip(wanted, changes, strict=True):
        index = position.setdefault(name, len(merged))
        if index < len(merged):
            merged[index] = _merged(merged[index], change, message, "", depth + 1)
        else:
            names.append(name)
            merged.append(_without_directives(change, depth + 1))
    return _interleaved(names, merged, wanted, before)


def _interleaved(
    names: Sequence[Identity], merged: Sequence[Any], order: Sequence[Identity], original: Sequence[Identity]
) -> list[Any]:
    """Put what is in `order` into that order, and leave the others among them where they were in `original`.

    `names` are those of the elements in `merged`. With original a, b, c and order c, x: both c and x come as ordered,
    a and b before c as before. So: a, b, c, x.
    """
    wanted = _positions(order)
    known = list(zip(names, merged, strict=True))
    ordered = [(wanted[name], name, each) for name, each in known if name in wanted]
    ordered.sort(key=itemgetter(0))
    if len(ordered) == len(known):
        return [each for _, _, each in ordered]
    before = _positions(original)
    others = [(before.get(name, len(before)), each) for name, each in known if name not in wanted]
    others.sort(key=itemgetter(0))

    result: list[Any] = []
    taken = 0
    for place, other in others:
        while taken < len(ordered) and before.get(ordered[taken][1], -1) < place:
            result.append(ordered[taken][2])
            taken += 1
        result.append(other)
    return [*result, *(each for _, _, each in ordered[taken:])]


def _positions(names: Sequence[Identity]) -> dict[Identity, int]:
    """Where each is, of those called the same the first."""
    return {name: index for index, name in reversed(list(enumerate(names)))}


def _identities(elements: Sequence[Any], key: str) -> list[Identity]:
    """What tells the elements of a list apart: the field `key` of objects, or plain values themselves."""
    return [_identity(element, key) for element in elements]


def _identity(element: Any, key: str) -> Identity:
    value = element
    if key:
        if not isinstance(element, dict) or key not in element:
            raise bad_request(f"map: {_as_go(element)} does not contain declared merge key: {key}")
        value = element[key]
    if isinstance(value, dict | list):
        raise _no_lists_of_lists()
    return isinstance(value, bool), value


def _has_objects(*lists: Sequence[Any]) -> bool:
    """Whether the elements are objects. All must be, or none; and none may be a list."""
    elements = [each for one in lists for each in one]
    if any(isinstance(each, list) for each in elements):
        raise _no_lists_of_lists()
    objects = sum(isinstance(each, dict) for each in elements)
    if objects not in (0, len(elements)):
        raise bad_request("list element types are not identical")
    return objects > 0


def _no_lists_of_lists() -> StatusError:
    return StatusError(422, StatusReason.INVALID, "lists of lists are not supported", {})


def _put_in_order(result: Object, original: Any, patch: Any, field: str, order: Any, rule: MergeRule) -> None:
    merged = result.get(field)
    if not field or not isinstance(order, list):
        raise bad_request("invalid patch format of setElementOrder list")
    if not isinstance(merged, list):
        return
    mentioned = [each for each in patch or () if not (isinstance(each, dict) and _PATCH in each)]
    wanted = _identities(order, rule.key)
    if order and mentioned:
        # What the patch sets must be in the order as well, and in that order.
        steps = iter(wanted)
        if not all(name in steps for name in _identities(mentioned, rule.key)):
            raise bad_request(
                f"The order in patch list:\n{_as_go(patch)}\n doesn't match {_ORDER} list:\n{_as_go(order)}\n"
            )
    before = _identities(original, rule.key) if isinstance(original, list) else []
    result[field] = _interleaved(_identities(merged, rule.key), merged, wanted, before)


def _delete_values(result: Object, field: str, values: Any) -> None:
    if not field or not isinstance(values, list):
        raise bad_request("invalid patch format of primitive list")
    remaining = result.get(field)
    if isinstance(remaining, list):
        unwanted = frozenset(_identities(values, ""))
        result[field] = [each for each in remaining if isinstance(each, dict) or _identity(each, "") not in unwanted]


def _as_go(value: Any, levels: int = 5) -> str:
    """A value in a message, as Go prints it: `map[image:x name:c]`. Not all of one that is deep."""
    if levels == 0 and isinstance(value, dict | list):
        return "..."
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_as_go(value[name], levels - 1)}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_as_go(each, levels - 1) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
