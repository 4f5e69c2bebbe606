"""Sets of fields of an object, in the form in which Kubernetes sends them: who owns what is said with these.

A set is a tree of JSON objects (`FieldsV1`) and is worked with as it is, so that reading and writing it costs nothing:

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}

    f:replicas       a field, or a key of a map
    k:{"name":"web"} the element of a list with this key
    v:"web"          the element of a list of plain values
    .                what the step above leads to is itself in the set. `{}` is short for `{".": {}}`, except at the
                     root, where it is the empty set.

Here are what there is of set algebra, and the ways from objects to sets: `fields_in` is what an object says, and
`compare_fields` what is new, changed and gone between two. They differ about objects within objects: saying something
about a field does not claim the object it is in, but bringing it into being does. How the values of a kind are owned is
told by field_shapes.py. Nothing here changes its arguments; results may share parts with them, and with each other: the
set of a pod's spec is remembered, for the many pods that say the same. Nothing looks at how deep an object goes:
whatever reads requests has (json_values.py).
"""

from functools import lru_cache
from typing import Any, Final

import msgspec

from mainstay.api.field_shapes import (
    ANY,
    KEY_DEFAULTS,
    KEYED,
    LEAF,
    MAP,
    SET,
    STRUCT,
    FieldShape,
    find_shape,
)
from mainstay.api.json_values import DEPTH_MAX, UNREADABLE
from mainstay.api.memo import Memo, encoded

FieldSet = dict[str, Any]
"""A tree as described above. Not to be changed once it is made."""

SELF: Final = "."

_LISTS: Final = (KEYED, SET)


# Algebra. Within it, a step's tree is spelt out: `{".": {}}` instead of `{}`.


def _spelt_out(tree: FieldSet) -> FieldSet:
    return tree or {SELF: {}}


def _shortened(tree: FieldSet) -> FieldSet:
    return {} if len(tree) == 1 and SELF in tree else tree


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """The fields in either."""
    result = dict(left)
    for step, below in right.items():
        if step == SELF or step not in result:
            result[step] = below
        else:
            result[step] = _shortened(union(_spelt_out(result[step]), _spelt_out(below)))
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The fields in the left but not in the right: `left` itself if that is all. Fields below one that goes stay."""
    if left.keys().isdisjoint(right):
        return left
    result: FieldSet = {}
    is_all = True
    for step, below in left.items():
        if step not in right:
            result[step] = below
        elif step == SELF:
            is_all = False
        else:
            tree = _spelt_out(below)
            rest = difference(tree, _spelt_out(right[step]))
            if rest is tree:
                result[step] = below
            else:
                is_all = False
                if rest:
                    result[step] = _shortened(rest)
    return left if is_all else result


def covers(left: FieldSet, right: FieldSet) -> bool:
    """Whether the left has all fields of the right."""
    for step, below in right.items():
        if step not in left or (step != SELF and not covers(_spelt_out(left[step]), _spelt_out(below))):
            return False
    return True


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The fields in both."""
    result: FieldSet = {}
    for step, below in left.items():
        if step in right:
            if step == SELF:
                result[step] = {}
                continue
            common = intersection(_spelt_out(below), _spelt_out(right[step]))
            if common:
                result[step] = _shortened(common)
    return result


def has_self(tree: FieldSet) -> bool:
    """Whether what leads to this tree is itself in the set. Not for the root."""
    return not tree or SELF in tree


def ordered(fields: FieldSet) -> FieldSet:
    """The same set in the order of the alphabet, in which it is sent."""
    return {step: ordered(fields[step]) if fields[step] else {} for step in sorted(fields)}


def is_field_set(value: Any, depth: int = 0) -> bool:
    """Whether something that a client sent is a set in this form."""
    if not isinstance(value, dict) or depth >= DEPTH_MAX:
        return False
    for step, below in value.items():
        if step == SELF:
            if below != {} or depth == 0:
                return False
        elif step[:2] not in ("f:", "k:", "v:", "i:") or not is_field_set(below, depth + 1):
            return False
    return True


def paths(fields: FieldSet, shown: str = "") -> list[str]:
    """The fields in words, such as `.spec.containers[name="web"].image`; what is less deep comes first."""
    here: list[str] = []
    deeper: list[str] = []
    for step in sorted(fields):
        if step == SELF:
            continue
        path = shown + _shown(step)
        if has_self(fields[step]):
            here.append(path)
        deeper += paths(fields[step], path)
    return here + deeper


def _shown(step: str) -> str:
    form, text = step[:2], step[2:]
    if form == "f:":
        return f".{text}"
    if form == "k:":
        try:
            key = msgspec.json.decode(text)
        except UNREADABLE:
            return f"[{text}]"
        if not isinstance(key, dict):
            return f"[{text}]"
        return "[" + ",".join(f"{name}={_json(key[name])}" for name in sorted(key)) + "]"
    return f"[={text}]" if form == "v:" else f"[{text}]"


def _json(value: Any) -> str:
    return encoded(value).decode()


# Elements of lists


def name_element(element: Any, shape: FieldShape) -> str | None:
    """How an element of a KEYED list or a SET is called. None if it cannot be told from others."""
    if shape.how == SET:
        return f"v:{_json(element)}"
    if not isinstance(element, dict):
        return None
    if len(shape.keys) == 1:
        name = shape.keys[0]
        value = element.get(name)
        if type(value) is str and len(value) <= _REMEMBERED_LENGTH_MAX:
            return _step_by(name, value)
        return None if value is None else f"k:{_json({name: value})}"
    key = {name: element.get(name, KEY_DEFAULTS.get(name)) for name in shape.keys}
    key = {name: value for name, value in key.items() if value is not None}
    return f"k:{_json(key)}" if key else None


_REMEMBERED_LENGTH_MAX: Final = 64  # What comes from outside may be of any length, and is not yet checked here.


@lru_cache(maxsize=2048)  # Names of containers, types of conditions: the same in most objects of a kind.
def _step_by(name: str, value: str) -> str:
    return f"k:{_json({name: value})}"


def name_elements(elements: list[Any], shape: FieldShape) -> dict[str, Any]:
    """The elements by how they are called. Of those called the same, the first; those without a name are left out."""
    found: dict[str, Any] = {}
    for element in elements:
        step = name_element(element, shape)
        if step is not None and step not in found:
            found[step] = element
    return found


# From objects to sets


def fields_in(value: Any, shape: FieldShape) -> FieldSet:
    """What an object speaks about: the set that applying it claims. `value` must fit the shape."""
    result: FieldSet = {}
    if shape.how in _LISTS:
        for step, element in name_elements(value, shape).items():
            below = _said(element, shape.items) if shape.how == KEYED else {}
            result[step] = {SELF: {}, **below} if below else {}
        return result
    for name, each in value.items():
        step, of_field, _ = find_field(shape, name)
        below = _said(each, of_field)
        if shape.how == MAP:
            result[step] = {SELF: {}, **below} if below else {}
        elif below is None or below:
            result[step] = below or {}
    return result


def _said(value: Any, shape: FieldShape) -> FieldSet | None:
    """What is below a value; None if it is owned as a whole, and empty if there is nothing to own."""
    how = shape.how
    if how == LEAF:
        return None
    if how in _LISTS:
        return fields_in(value, shape) if isinstance(value, list) else None
    return fields_in(value, shape) if isinstance(value, dict) and value else None


def find_field(shape: FieldShape, name: str) -> tuple[str, FieldShape, bool]:
    """How a field of an object is called, its shape, and whether it is always there."""
    return shape.fields.get(name) or (f"f:{name}", shape.items, False)


def whole(value: Any, shape: FieldShape) -> FieldSet:
    """All there is of a value that was not there before, itself included."""
    how = shape.how
    if not value or how == LEAF:
        return {}
    result: FieldSet = {SELF: {}}
    if type(value) is dict and how not in _LISTS:
        items = shape.items
        if how == MAP:
            if items.how == LEAF:
                for name in sorted(value):
                    result["f:" + name] = {}
            else:
                for name in sorted(value):
                    result["f:" + name] = whole(value[name], items)
            return result
        fields = shape.fields
        for name in sorted(value):
            known = fields.get(name)
            if known is None:
                result["f:" + name] = whole(value[name], items)
            elif known[1].how == LEAF:
                result[known[0]] = {}
            else:
                result[known[0]] = whole(value[name], known[1])
        return result
    if type(value) is not list or how not in _LISTS:
        return {}
    if len(value) == 1:
        step = name_element(value[0], shape)
        if step is not None:
            result[step] = whole(value[0], shape.items) if how == KEYED else {}
        return result
    elements = name_elements(value, shape)
    for step in sorted(elements):
        result[step] = whole(elements[step], shape.items) if how == KEYED else {}
    return result


def begun(value: dict[str, Any], shape: FieldShape) -> FieldSet:
    """All there is of an object that was always there, but empty: such as an object of its kind before it is made."""
    result: FieldSet = {}
    fields = shape.fields
    for name in sorted(value):
        known = fields.get(name)
        if known is None:
            result["f:" + name] = whole(value[name], shape.items)
            continue
        step, below, is_always_there = known
        if below.how == LEAF:
            result[step] = {}
        elif not is_always_there:
            result[step] = whole(value[name], below)
        else:
            each = value[name]
            if type(each) is dict:
                tree = _begun_spec(each, below) if below is find_shape(_POD_SPEC) else begun(each, below)
            else:
                tree = whole(each, below)
                tree.pop(SELF, None)
            if tree:
                result[step] = tree
    return result


def _begun_spec(spec: dict[str, Any], shape: FieldShape) -> FieldSet:
    """As `begun`, of the spec of a pod: found once for all that say the same."""
    key = encoded(spec)
    known = _known_specs.get(key)
    if known is None:
        known = begun(spec, shape)
        _known_specs.put(key, known)
    return known


_POD_SPEC: Final = "k8s.io.api.core.v1.PodSpec"
_known_specs: Final[Memo[FieldSet]] = Memo()


# From two objects to what is between them


def compare_fields(old: dict[str, Any], new: dict[str, Any], shape: FieldShape) -> tuple[FieldSet, FieldSet]:
    """The fields that are new or changed, and those that are gone."""
    changed: FieldSet = {}
    gone: FieldSet = {}
    _compare(old, new, shape, changed, gone)
    return changed, gone


def _compare(old: Any, new: Any, shape: FieldShape, changed: FieldSet, gone: FieldSet) -> None:
    """Compare what is in two objects, or two lists, that are both there and differ."""
    if shape.how in _LISTS:
        before, after = name_elements(old, shape), name_elements(new, shape)
        for step in {**before, **after}:
            if step not in before:
                changed[step] = whole(after[step], shape.items) if shape.how == KEYED else {}
            elif step not in after:
                gone[step] = whole(before[step], shape.items) if shape.how == KEYED else {}
            elif shape.how == KEYED and before[step] != after[step]:
                _compare_one(step, before[step], after[step], shape.items, changed, gone)
        return
    for name, value in new.items():
        if name in old and (old[name] is value or _is_same(old[name], value)):
            continue  # By far the most.
        step, below, is_always_there = find_field(shape, name)
        if name in old or is_always_there:
            _compare_one(step, old[name] if name in old else _nothing(below), value, below, changed, gone)
        else:
            changed[step] = whole(value, below)
    if new.keys() >= old.keys():
        return
    for name in [name for name in old if name not in new]:
        step, below, is_always_there = find_field(shape, name)
        if is_always_there:
            _compare_one(step, old[name], _nothing(below), below, changed, gone)
        else:
            gone[step] = whole(old[name], below)


def _nothing(shape: FieldShape) -> Any:
    return [] if shape.how in _LISTS else {}


def _is_same(old: Any, new: Any) -> bool:
    return bool(old == new) and type(old) is type(new)


def _compare_one(step: str, old: Any, new: Any, shape: FieldShape, changed: FieldSet, gone: FieldSet) -> None:
    """Compare what `step` leads to in both."""
    how = shape.how
    is_deep = (
        isinstance(old, list) and isinstance(new, list)
        if how in _LISTS
        else how != LEAF and isinstance(old, dict) and isinstance(new, dict)
    )
    if is_deep and (old or new):
        below: FieldSet = {}
        gone_below: FieldSet = {}
        _compare(old, new, shape, below, gone_below)
        if below:
            changed[step] = below
        if gone_below:
            gone[step] = gone_below
    elif how in (STRUCT, MAP, ANY) and (new is None or old is None) and isinstance(old or new, dict):
        # Null is an object that is there and empty.
        _compare_one(step, old or {}, new or {}, shape, changed, gone)
    elif not _is_same(old, new):
        if how == ANY and isinstance(old, dict):
            lost = whole(old, shape)
            lost.pop(SELF, None)
            if lost:
                gone[step] = lost
        changed[step] = whole(new, shape)
