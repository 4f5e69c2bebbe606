"""Structural schemas at work: is an object as its schema says, which fields are unknown, which have a default.

A schema is compiled once (`compile_schema`) into a tree of `Schema`, one for each level, and applied to many objects:

    dropped = schema.prune(obj)         # unknown fields go; tells which
    schema.default(obj)                 # what was left out is filled in; nulls that may not be are removed
    causes = schema.validate(obj, old)  # what is wrong, in the words of Kubernetes

Something that was wrong before an update and that the update does not touch is not held against it: a schema may become
stricter than the objects that there are. How deep this goes is bounded by the schema, not by the object: below what a
schema knows, it does not look.

Not evaluated: `x-kubernetes-validations` (rules in CEL): they are taken, without effect. Which schemas are structural
is in schema_rules.py.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mainstay.api import schema_rules as rules
from mainstay.api.errors import CauseType, StatusCause, StatusError, invalid_value, not_supported, required
from mainstay.api.formats import find_format_check
from mainstay.api.json_values import copied, same
from mainstay.api.kind import Object
from mainstay.api.object_meta import conform_metadata
from mainstay.api.patterns import compile_pattern

META: Final = frozenset({"apiVersion", "kind", "metadata"})
NOWHERE: Final = "<nil>"  # The field of a cause that Kubernetes gives no field.

_MISSING: Final[Any] = object()  # In place of a value that is not there, where null is a value.
_PYTHON_TYPES: Final[dict[str, frozenset[type]]] = {
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "integer,string": frozenset({int, str}),
}
_JSON_TYPES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_INTEGERS: Final = {"int32": 2**31, "int64": 2**63}

_Trail = tuple[Any, str | int] | None
"""The way to a value, from its end: the text is only needed if something is wrong."""
_Check = Callable[[Any, _Trail, list[StatusCause]], None]


class NotStructural(ValueError):
    """Why a schema cannot be used."""

    def __init__(self, causes: Sequence[StatusCause]) -> None:
        super().__init__("; ".join(f"{cause.field}: {cause.message}" for cause in causes))
        self.causes = tuple(causes)


def compile_schema(schema: Object, path: str = "") -> "Schema":
    """Make a schema ready for use. Raises `NotStructural`; `path` is where it stands, for the causes."""
    causes = rules.violations(schema, path)
    if causes:
        raise NotStructural(causes)
    return Schema(schema)


class Schema:
    """One level of a structural schema, with those below it."""

    __slots__ = (
        "additional",
        "checks",
        "default_value",
        "defaults",
        "is_embedded",
        "is_integer",
        "is_plain",
        "items",
        "keys",
        "list_type",
        "nullable",
        "preserves",
        "properties",
        "required",
        "type_name",
        "types",
    )

    def __init__(self, schema: Object) -> None:
        """The schema is structural, or part of one: see `compile_schema`."""
        is_number_or_text = bool(schema.get(rules.INT_OR_STRING))
        self.type_name = "integer,string" if is_number_or_text else schema.get("type") or ""
        self.types = _PYTHON_TYPES.get(self.type_name, frozenset())
        self.is_integer = "integer" in self.type_name
        self.nullable = bool(schema.get("nullable"))
        self.preserves = bool(schema.get(rules.PRESERVES))
        self.is_embedded = bool(schema.get(rules.EMBEDDED))
        self.properties = {name: Schema(below) for name, below in (schema.get("properties") or {}).items()}
        additional = schema.get("additionalProperties")
        self.additional = Schema({} if additional is True else additional) if additional else None
        self.items = Schema(schema["items"]) if isinstance(schema.get("items"), dict) else None
        self.default_value = schema["default"] if schema.get("default") is not None else _MISSING
        self.defaults = [(name, each) for name, each in self.properties.items() if each.default_value is not _MISSING]
        self.required = tuple(schema.get("required") or ())
        self.list_type = schema.get(rules.LIST_TYPE)
        self.keys = tuple(schema.get(rules.LIST_MAP_KEYS) or ())
        self.checks: list[_Check] = _checks(schema)
        self.is_plain = bool(self.types) and self.types.isdisjoint((dict, list)) and not self.checks
        """Whether nothing but the type matters."""

    def validate(self, obj: Object, old: Object | None = None, path: str = "") -> list[StatusCause]:
        """What is wrong with an object, given the one it would replace."""
        start: _Trail = (None, path) if path else None
        causes: list[StatusCause] = []
        self._check(obj, _MISSING, start, causes)
        if causes and old is not None:
            causes = []
            self._check(obj, old, start, causes)
        return causes

    def _check(self, value: Any, old: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if old is not _MISSING and same(value, old):
            return
        if value is None:
            if self.types and not self.nullable:
                causes.append(_wrong_type(trail, self.type_name, None))
            return
        kind = type(value)
        if self.types and kind not in self.types and not (kind is float and self.is_integer and value.is_integer()):
            causes.append(_wrong_type(trail, self.type_name, value))
        for check in self.checks:
            check(value, trail, causes)
        if kind is dict:
            self._check_object(value, old, trail, causes)
        elif kind is list:
            self._check_list(value, old, trail, causes)

    def _check_object(self, value: Object, old: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        for name in self.required:
            if name not in value:
                causes.append(required(_path((trail, name))))
        if self.is_embedded:
            causes += [
                required(_path((trail, name)), "must not be empty")
                for name in ("apiVersion", "kind")
                if not value.get(name)
            ]
            try:
                conform_metadata({"metadata": copied(value.get("metadata"))})
            except StatusError as error:
                causes.append(StatusCause(CauseType.INVALID, _path((trail, "metadata")), error.message))
        before = old if type(old) is dict else {}
        properties, additional = self.properties, self.additional
        for name, each in value.items():
            below = properties.get(name, additional)
            if below is None or (below.is_plain and type(each) in below.types):
                continue
            below._check(each, before.get(name, _MISSING), (trail, name), causes)

    def _check_list(self, value: list[Any], old: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        items = self.items
        if self.list_type == "set":
            _check_unique(value, value, trail, causes)
        elif self.list_type == "map":
            keys = [self._key(each) for each in value]
            _check_unique(keys, keys, trail, causes)
        if items is None or (items.is_plain and all(type(each) in items.types for each in value)):
            return
        # Only items with keys can be told to be the same as before.
        before = {}
        if self.list_type == "map" and type(old) is list:
            before = {msgspec.json.encode(self._key(each)): each for each in old}
        for index, each in enumerate(value):
            known = before.get(msgspec.json.encode(self._key(each)), _MISSING) if before else _MISSING
            items._check(each, known, (trail, index), causes)

    def _key(self, item: Any) -> Object:
        return {key: item[key] for key in self.keys if key in item} if isinstance(item, dict) else {}

    def prune(self, obj: Object) -> list[str]:
        """Remove every field that the schema does not know, and tell their paths. Metadata is left alone."""
        dropped: list[_Trail] = []
        self._prune(obj, None, dropped, is_object=True)
        return [_path(each) for each in dropped]

    def _prune(self, value: Any, trail: _Trail, dropped: list[_Trail], *, is_object: bool = False) -> None:
        if type(value) is dict:
            is_object = is_object or self.is_embedded
            unknown = []
            for name, each in value.items():
                if is_object and name in META:
                    continue
                below = self.properties.get(name, self.additional)
                if below is not None:
                    if type(each) is dict or type(each) is list:
                        below._prune(each, (trail, name), dropped)
                elif not self.preserves:
                    unknown.append(name)
            for name in unknown:
                del value[name]
                dropped.append((trail, name))
        elif type(value) is list and self.items is not None:
            for index, each in enumerate(value):
                if type(each) is dict or type(each) is list:
                    self.items._prune(each, (trail, index), dropped)

    def default(self, obj: Object) -> None:
        """Fill in what was left out. A null that may not be is taken for something left out."""
        self._default(obj)

    def _default(self, value: Any) -> None:
        if type(value) is dict:
            for name, below in self.defaults:
                if name not in value or (value[name] is None and not below.nullable):
                    value[name] = copied(below.default_value)
            removed = []
            for name, each in value.items():
                if each is not None and type(each) is not dict and type(each) is not list:
                    continue
                known = self.properties.get(name, self.additional)
                if known is None:
                    continue
                if each is None and not known.nullable:
                    if known.default_value is _MISSING:
                        removed.append(name)
                        continue
                    each = value[name] = copied(known.default_value)
                known._default(each)
            for name in removed:
                del value[name]
        elif type(value) is list and self.items is not None:
            items = self.items
            for index, each in enumerate(value):
                if each is None and not items.nullable and items.default_value is not _MISSING:
                    value[index] = copied(items.default_value)
                if each is None or type(each) is dict or type(each) is list:
                    items._default(value[index])


def _path(trail: _Trail) -> str:
    parts: list[str] = []
    while trail is not None:
        trail, part = trail
        parts.append(f"[{part}]" if isinstance(part, int) else f".{part}")
    return "".join(reversed(parts)).removeprefix(".")


def _body(trail: _Trail) -> str:
    """How the messages begin."""
    return f"{_path(trail)} in body"


def _invalid(trail: _Trail, value: object, detail: str) -> StatusCause:
    where = _path(trail) or NOWHERE
    if isinstance(value, dict | list):
        return StatusCause(CauseType.INVALID, where, f"Invalid value: {msgspec.json.encode(value).decode()}: {detail}")
    return invalid_value(where, value, detail)


def _wrong_type(trail: _Trail, expected: str, value: object) -> StatusCause:
    found = _JSON_TYPES.get(type(value), "")
    detail = f'Invalid value: "{found}": {_body(trail)} must be of type {expected}: "{found}"'
    return StatusCause(CauseType.TYPE_INVALID, _path(trail) or NOWHERE, detail)


def _check_unique(values: Sequence[Any], shown: Sequence[Any], trail: _Trail, causes: list[StatusCause]) -> None:
    """Each value that was there before is told once, at its first repetition."""
    seen: dict[bytes, int] = {}
    for index, value in enumerate(values):
        encoded = msgspec.json.encode(value, order="sorted")
        seen[encoded] = seen.get(encoded, 0) + 1
        if seen[encoded] == 2:
            text = msgspec.json.encode(shown[index]).decode()
            causes.append(StatusCause(CauseType.DUPLICATE, _path((trail, index)), f"Duplicate value: {text}"))


def _checks(schema: Object) -> list[_Check]:
    """What a schema asks besides types and fields."""
    found = [
        *_checks_of_values(schema),
        *_checks_of_size(schema),
    ]
    if schema.get("enum"):
        found.append(_enumeration(schema["enum"]))
    if schema.get("allOf"):
        found.append(_check_all_of([Schema(each) for each in schema["allOf"]]))
    if schema.get("anyOf"):
        found.append(_check_any_of([Schema(each) for each in schema["anyOf"]]))
    if schema.get("oneOf"):
        found.append(_check_one_of([Schema(each) for each in schema["oneOf"]]))
    if schema.get("not") is not None:
        found.append(_not(Schema(schema["not"])))
    return found


def _checks_of_values(schema: Object) -> list[_Check]:
    """Of texts and numbers."""
    found: list[_Check] = []
    if schema.get("minLength"):
        found.append(_at_least(str, schema["minLength"], "chars long"))
    if schema.get("maxLength") is not None:
        found.append(_not_too_long(schema["maxLength"]))
    if schema.get("pattern"):
        found.append(_pattern(schema["pattern"]))
    type_name, format_name = schema.get("type") or "", schema.get("format") or ""
    if format_name and type_name in ("", "string") and not schema.get(rules.INT_OR_STRING):
        fits = find_format_check(format_name)
        if fits is not None:
            found.append(_format(format_name, fits))
    elif type_name == "integer" and format_name in _INTEGERS:
        found.append(_integer(format_name))
    if schema.get("minimum") is not None:
        found.append(_minimum(schema["minimum"], bool(schema.get("exclusiveMinimum"))))
    if schema.get("maximum") is not None:
        found.append(_maximum(schema["maximum"], bool(schema.get("exclusiveMaximum"))))
    if schema.get("multipleOf"):
        found.append(_multiple(schema["multipleOf"]))
    return found


def _checks_of_size(schema: Object) -> list[_Check]:
    """Of lists and objects."""
    found: list[_Check] = []
    if schema.get("minItems"):
        found.append(_at_least(list, schema["minItems"], "items"))
    if schema.get("maxItems") is not None:
        found.append(_at_most(list, schema["maxItems"]))
    if schema.get("minProperties"):
        found.append(_at_least(dict, schema["minProperties"], "properties"))
    if schema.get("maxProperties") is not None:
        found.append(_at_most(dict, schema["maxProperties"]))
    if schema.get("uniqueItems"):
        found.append(_without_duplicates)
    return found


def _at_least(kind: type[str | list[Any] | Object], least: int, what: str) -> _Check:
    word = "be" if kind is str else "have"

    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if isinstance(value, kind) and len(value) < least:
            shown = value if kind is str else len(value)
            causes.append(_invalid(trail, shown, f"{_body(trail)} should {word} at least {least} {what}"))

    return check


def _at_most(kind: type[list[Any] | Object], most: int) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if isinstance(value, kind) and len(value) > most:
            text = f"Too many: {len(value)}: must have at most {most} items"
            causes.append(StatusCause(CauseType.TOO_MANY, _path(trail) or NOWHERE, text))

    return check


def _not_too_long(most: int) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if type(value) is str and len(value) > most:
            # Characters are counted. That the message says bytes is how Kubernetes has it.
            causes.append(StatusCause(CauseType.TOO_LONG, _path(trail), f"Too long: may not be more than {most} bytes"))

    return check


def _pattern(text: str) -> _Check:
    pattern = compile_pattern(text)

    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if type(value) is str and not pattern.matches(value):
            causes.append(_invalid(trail, value, f"{_body(trail)} should match '{text}'"))

    return check


def _format(name: str, fits: Callable[[str], bool]) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if type(value) is str and not fits(value):
            detail = f'Invalid value: "{value}": {_body(trail)} must be of type {name}: "{value}"'
            causes.append(StatusCause(CauseType.TYPE_INVALID, _path(trail), detail))

    return check


def _integer(name: str) -> _Check:
    bound = _INTEGERS[name]

    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if _is_number(value) and not -bound <= value < bound:
            detail = f"Checked value must be of type integer with format {name} in {_path(trail)}"
            causes.append(invalid_value(NOWHERE, "", detail))

    return check


def _minimum(least: float, is_exclusive: bool) -> _Check:
    words = "should be greater than" if is_exclusive else "should be greater than or equal to"

    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if _is_number(value) and (value < least or (is_exclusive and value == least)):
            causes.append(_invalid(trail, _number(value), f"{_body(trail)} {words} {_number(least)}"))

    return check


def _maximum(most: float, is_exclusive: bool) -> _Check:
    words = "should be less than" if is_exclusive else "should be less than or equal to"

    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if _is_number(value) and (value > most or (is_exclusive and value == most)):
            causes.append(_invalid(trail, _number(value), f"{_body(trail)} {words} {_number(most)}"))

    return check


def _multiple(factor: float) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if not _is_number(value):
            return
        if isinstance(value, int) and isinstance(factor, int):
            is_multiple = value % factor == 0
        else:
            is_multiple = math.isfinite(value) and (value / factor).is_integer()
        if not is_multiple:
            causes.append(_invalid(trail, _number(value), f"{_body(trail)} should be a multiple of {_number(factor)}"))

    return check


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _number(value: float) -> float:
    """Whole numbers are shown as such."""
    return int(value) if abs(value) < 2**53 and value == int(value) else value


def _without_duplicates(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
    if type(value) is list and len({msgspec.json.encode(each, order="sorted") for each in value}) < len(value):
        causes.append(_invalid(trail, "", f"{_body(trail)} shouldn't contain duplicates"))


def _enumeration(allowed: list[Any]) -> _Check:
    shown = [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in allowed]
    texts = frozenset(each for each in allowed if isinstance(each, str))

    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if (type(value) is str and value in texts) or any(same(value, each) for each in allowed):
            return
        causes.append(not_supported(_path(trail) or NOWHERE, value, shown))

    return check


def _tried(schema: Schema, value: Any, trail: _Trail) -> list[StatusCause]:
    causes: list[StatusCause] = []
    schema._check(value, _MISSING, trail, causes)
    return causes


def _check_all_of(schemas: list[Schema]) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        failures = [failed for schema in schemas if (failed := _tried(schema, value, trail))]
        for failed in failures:
            causes.extend(failed)
        if failures:
            more = ". None validated" if len(failures) == len(schemas) else ""
            causes.append(_composed(trail, f"must validate all the schemas (allOf){more}"))

    return check


def _check_any_of(schemas: list[Schema]) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        best: list[StatusCause] | None = None
        for schema in schemas:
            failed = _tried(schema, value, trail)
            if not failed:
                return
            if best is None or len(failed) < len(best):
                best = failed
        causes.append(_composed(trail, "must validate at least one schema (anyOf)"))
        causes.extend(best or ())

    return check


def _check_one_of(schemas: list[Schema]) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        tries: list[list[StatusCause]] = [_tried(schema, value, trail) for schema in schemas]
        valid = sum(not failed for failed in tries)
        if valid == 1:
            return
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        causes.append(_composed(trail, f"must validate one and only one schema (oneOf). {found}"))
        if not valid:
            tries.sort(key=len)
            causes.extend(tries[0])

    return check


def _not(schema: Schema) -> _Check:
    def check(value: Any, trail: _Trail, causes: list[StatusCause]) -> None:
        if not _tried(schema, value, trail):
            causes.append(_composed(trail, "must not validate the schema (not)"))

    return check


def _composed(trail: _Trail, detail: str) -> StatusCause:
    return invalid_value(NOWHERE, "", f'"{_path(trail)}" {detail}')
