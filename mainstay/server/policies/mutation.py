"""What one mutating policy makes of one object, with one object of parameters: plain functions of values.

Mutations of a policy are carried out in order, each on what the one before has made of the object. An apply
configuration is merged as server-side apply does it (api/apply.py), except that it may not touch what is owned as a
whole: it would remove what it does not mention. A JSON patch is carried out as that of a client (api/json_patch.py);
one whose `test` fails changes nothing.

What identifies an object and what the server keeps in its metadata no policy may change. Who owns a field is not
changed either: the manager of the request owns what it has sent, and what a policy adds has no owner.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.apply import find_list_problems, merged
from mainstay.api.conform import conform
from mainstay.api.errors import StatusError
from mainstay.api.field_sets import find_field
from mainstay.api.field_shapes import ANY, KEYED, LEAF, MAP, STRUCT, FieldShape, find_shape
from mainstay.api.json_patch import PatchRejected, PatchTestFailed, json_patch
from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds.admission import PATCH_TYPES
from mainstay.api.object_meta import conform_metadata
from mainstay.cel.program import Budget
from mainstay.server.policies.expressions import (
    DEFAULT_REASON,
    ExpressionFailed,
    PolicyExpressions,
    PolicyViolation,
    mutation_language,
)

PROTECTED: Final = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"),
)
"""Fields of the metadata that no mutation may change."""

Conform = Callable[[Kind, Object], list[str]]
"""Puts an object right in place by what its kind has. Returns the paths of fields that it has not, which are gone."""


def conform_builtin(kind: Kind, obj: Object) -> list[str]:
    return conform(obj, kind.message) if kind.message else conform_metadata(obj)


def mutate(spec: Mapping[str, Any], kind: Kind, conformed: Conform, values: Mapping[str, Any]) -> Object:
    """The object as the policy makes it: `values["object"]` itself if it changes nothing. Raises `ExpressionFailed`."""
    budget = Budget()
    obj: Object = values["object"]
    if not PolicyExpressions(mutation_language(), spec, values, budget).is_met():
        return obj
    for index, mutation in enumerate(spec.get("mutations") or ()):
        source = mutation[PATCH_TYPES[mutation["patchType"]]]["expression"]
        expressions = PolicyExpressions(mutation_language(), spec, {**values, "object": obj}, budget)
        patch = expressions.evaluate(source, index)
        try:
            obj = _carry_out(mutation["patchType"], patch, kind, conformed, obj)
        except (_BadMutation, StatusError) as error:
            text = f"expression '{source.strip()}' resulted in error: {error}"
            raise ExpressionFailed(PolicyViolation(text, DEFAULT_REASON, source.strip(), index)) from None
    return obj


class _BadMutation(Exception):
    """What an expression evaluates to cannot be done to the object."""


def _carry_out(patch_type: str, patch: Any, kind: Kind, conformed: Conform, obj: Object) -> Object:
    _require_json(patch)
    if patch_type == "JSONPatch":
        if not isinstance(patch, list):
            raise _BadMutation("a JSONPatch expression must evaluate to a list of JSONPatch")
        try:
            changed = json_patch(obj, patch)
        except PatchTestFailed:
            return obj
        except PatchRejected as error:
            raise _BadMutation(error.problem) from None
    else:
        if not isinstance(patch, dict):
            raise _BadMutation("an ApplyConfiguration expression must evaluate to an Object")
        _require_fitting(patch, kind, conformed)
        changed = copied(merged(obj, patch, find_shape(kind.message)))
    if changed == obj:
        return obj
    _require_same(changed, obj)
    unknown = conformed(kind, changed)
    if unknown:
        raise _BadMutation(f"unknown field {unknown[0]}")
    changed.setdefault("metadata", {})
    return changed


def _require_fitting(patch: Object, kind: Kind, conformed: Conform) -> None:
    shape = find_shape(kind.message)
    atomic = _find_atomic(patch, shape, "")
    if atomic:
        raise _BadMutation(
            f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        )
    problems = find_list_problems(patch, shape, "")
    problems += [f".{path}: field not declared in schema" for path in conformed(kind, copied(patch))]
    if problems:
        raise _BadMutation(f"invalid ApplyConfiguration: {'; '.join(problems)}")


def _find_atomic(value: Any, shape: FieldShape, path: str) -> list[str]:
    """The fields of a patch that are owned as a whole."""
    found: list[str] = []
    if isinstance(value, dict):
        if shape.how not in (STRUCT, MAP, ANY):
            return [path]
        for name, each in value.items():
            found += _find_atomic(each, find_field(shape, name)[1], f"{path}.{name}")
    elif isinstance(value, list):
        if shape.how in (LEAF, ANY):
            return [path]
        if shape.how == KEYED:
            for index, element in enumerate(value):
                found += _find_atomic(element, shape.items, f"{path}[{index}]")
    return found


def _require_same(changed: Object, obj: Object) -> None:
    for name in ("apiVersion", "kind"):
        if changed.get(name) != obj.get(name):
            raise _BadMutation(f"{name} may not be changed: it is {obj.get(name)}")
    new = changed.get("metadata")
    if not isinstance(new, dict):
        raise _BadMutation("metadata may not be removed")
    for name in PROTECTED:
        if new.get(name) != obj["metadata"].get(name):
            raise _BadMutation(f"metadata.{name} may not be changed")


def _require_json(value: Any) -> None:
    match value:
        case dict():
            for each in value.values():
                _require_json(each)
        case list():
            for each in value:
                _require_json(each)
        case datetime() | timedelta() | bytes():
            raise _BadMutation(f"a {type(value).__name__} has no form in JSON: use string(…)")
        case _:
            pass
