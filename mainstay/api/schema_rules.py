"""What makes a schema structural, and what is wrong with one that is not.

A structural schema says at every level what is there: a type, outside of anything that only restricts values (`allOf`,
`anyOf`, `oneOf`, `not`). Only then can unknown fields be dropped and defaults be filled in without trying. Kubernetes
refuses definitions with other schemas, and so do we, in its words.

What a structural schema does with objects is in structural.py.
"""

from collections.abc import Iterator
from typing import Any, Final

from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import Object
from mainstay.api.patterns import compile_pattern

DEPTH_MAX: Final = 60  # Of a schema. Each level of it is two of the definition that it stands in.

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"

_BOOL: Final = ("boolean", (bool,))
_COUNT: Final = ("integer", (int,))
_NUMBER: Final = ("number", (int, float))
_TEXT: Final = ("string", (str,))
_LIST: Final = ("array", (list,))
_OBJECT: Final = ("object", (dict,))
# What each keyword that we look into must be, before anything else is asked about it.
_KEYWORDS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    **dict.fromkeys(("type", "format", "pattern", "title", "description", LIST_TYPE, MAP_TYPE), _TEXT),
    **dict.fromkeys(("nullable", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems"), _BOOL),
    **dict.fromkeys((PRESERVES, EMBEDDED, INT_OR_STRING), _BOOL),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", LIST_MAP_KEYS), _LIST),
    **dict.fromkeys(("properties", "not"), _OBJECT),
    "additionalProperties": ("object or boolean", (dict, bool)),
    "items": ("object", (dict, list)),
}
_STRUCTURE: Final = {  # What may not stand in a part that only restricts values, and the word for what it must be.
    "type": "empty",
    "title": "empty",
    "description": "empty",
    LIST_MAP_KEYS: "empty",
    "x-kubernetes-validations": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "externalDocs": "undefined",
    LIST_TYPE: "undefined",
    MAP_TYPE: "undefined",
    "nullable": "false",
    PRESERVES: "false",
    EMBEDDED: "false",
    INT_OR_STRING: "false",
}
_UNSUPPORTED: Final = ("$ref", "definitions", "dependencies", "patternProperties", "id", "$schema", "additionalItems")
_INT_OR_STRING_TYPES: Final = [{"type": "integer"}, {"type": "string"}]
_EMBEDDED_TYPE: Final = f"must be object if {EMBEDDED} is true"


def violations(schema: Object, path: str) -> list[StatusCause]:
    """Why a schema is not structural, in the order of the messages; empty if it is."""
    malformed = list(_malformed(schema, path, 0))
    if malformed:
        return malformed
    found = [*_level(schema, path, "root"), *_unspecified(schema, path)]
    return sorted(found, key=lambda cause: (cause.field, cause.message))


def _malformed(schema: Object, path: str, depth: int) -> Iterator[StatusCause]:
    """What is not even a schema. Everything else can rely on the rest."""
    if depth > DEPTH_MAX:
        yield invalid_value(path, "", f"must not be nested more than {DEPTH_MAX} levels deep")
        return
    for keyword, (expected, types) in _KEYWORDS.items():
        value = schema.get(keyword)
        if value is not None and type(value) not in types:
            yield invalid_value(f"{path}.{keyword}", "", f"must be of type {expected}")
            return
    for name in ("required", LIST_MAP_KEYS):
        if not all(isinstance(each, str) for each in schema.get(name) or ()):
            yield invalid_value(f"{path}.{name}", "", "must be of type string")
            return
    for below, where in _children(schema, path):
        if not isinstance(below, dict):
            yield invalid_value(where, "", "must be of type object")
        else:
            yield from _malformed(below, where, depth + 1)


def _children(schema: Object, path: str) -> Iterator[tuple[Any, str]]:
    for name, below in (schema.get("properties") or {}).items():
        yield below, f"{path}.properties[{name}]"
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword], f"{path}.{keyword}"
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(schema.get(keyword) or ()):
            yield below, f"{path}.{keyword}[{index}]"


def _level(schema: Object, path: str, level: str) -> Iterator[StatusCause]:
    """One level of the structure: the root, a field of an object, or what a list is of."""
    type_name = schema.get("type") or ""
    is_root, is_embedded = level == "root", bool(schema.get(EMBEDDED))
    yield from _type(schema, type_name, path, level)
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield forbidden_value(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_value(f"{path}.uniqueItems", detail)
    items = schema.get("items")
    if isinstance(items, list):
        yield forbidden_value(f"{path}.items", "items must be a schema object and not an array")
    elif items is None and type_name == "array":
        yield required(f"{path}.items", "must be specified")
    yield from _additional(schema, path, is_root=is_root, is_embedded=is_embedded)
    for extension in (PRESERVES, EMBEDDED):
        if schema.get(INT_OR_STRING) and schema.get(extension):
            yield invalid_value(f"{path}.{extension}", True, f"must be false if {INT_OR_STRING} is true")
    if is_embedded and not schema.get(PRESERVES) and not schema.get("properties"):
        detail = f"must not be empty if {EMBEDDED} is true without {PRESERVES}"
        yield required(f"{path}.properties", detail)
    yield from _list_type(schema, path)
    yield from _meta(schema, path, is_root=is_root, is_embedded=is_embedded)
    yield from _values(schema, path, is_int_or_string=bool(schema.get(INT_OR_STRING)))
    for name, below in (schema.get("properties") or {}).items():
        yield from _level(below, f"{path}.properties[{name}]", "field")
    if isinstance(items, dict):
        yield from _level(items, f"{path}.items", "item")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _level(schema["additionalProperties"], f"{path}.additionalProperties", "field")


def _type(schema: Object, type_name: str, path: str, level: str) -> Iterator[StatusCause]:
    if schema.get(EMBEDDED) and type_name != "object":
        yield (
            invalid_value(f"{path}.type", type_name, _EMBEDDED_TYPE)
            if type_name
            else required(f"{path}.type", _EMBEDDED_TYPE)
        )
    elif not type_name and not schema.get(INT_OR_STRING) and not schema.get(PRESERVES):
        where = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
        yield required(f"{path}.type", f"must not be empty {where[level]}")
    elif type_name and type_name not in TYPES:
        yield not_supported(f"{path}.type", type_name, TYPES)
    if level == "root" and type_name not in ("", "object"):
        yield invalid_value(f"{path}.type", type_name, "must be object at the root")


def _additional(schema: Object, path: str, *, is_root: bool, is_embedded: bool) -> Iterator[StatusCause]:
    additional = schema.get("additionalProperties")
    if additional is None:
        return
    where = f"{path}.additionalProperties"
    if is_root:
        yield forbidden_value(where, "must not be used at the root")
    if is_embedded:
        yield forbidden_value(where, f"must not be used if {EMBEDDED} is set")
    if additional is False:
        yield forbidden_value(where, "additionalProperties cannot be set to false")
    if schema.get("properties"):
        yield forbidden_value(where, "additionalProperties and properties are mutual exclusive")


def _list_type(schema: Object, path: str) -> Iterator[StatusCause]:
    list_type, keys = schema.get(LIST_TYPE), schema.get(LIST_MAP_KEYS) or ()
    if list_type is not None:
        if schema.get("type") != "array":
            yield invalid_value(f"{path}.type", schema.get("type") or "", f"must be array if {LIST_TYPE} is specified")
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(f"{path}.{LIST_TYPE}", list_type, ("atomic", "map", "set"))
    if keys and list_type != "map":
        yield invalid_value(f"{path}.{LIST_TYPE}", list_type or "", f"must be map if {LIST_MAP_KEYS} is non-empty")
    if list_type != "map":
        return
    if not keys:
        yield required(f"{path}.{LIST_MAP_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
    fields = (items or {}).get("properties") or {}
    for index, key in enumerate(keys):
        if key not in fields:
            yield invalid_value(f"{path}.{LIST_MAP_KEYS}[{index}]", key, "entries must all be names of item properties")
        elif key not in ((items or {}).get("required") or ()) and "default" not in fields[key]:
            detail = f"this property is in {LIST_MAP_KEYS}, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", detail)


def _meta(schema: Object, path: str, *, is_root: bool, is_embedded: bool) -> Iterator[StatusCause]:
    """Fields that every object has can only be restricted a little."""
    properties = schema.get("properties") or {}
    if is_root or is_embedded:
        for name, expected in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in properties and properties[name].get("type") != expected:
                given = properties[name].get("type") or ""
                yield invalid_value(f"{path}.properties[{name}].type", given, f"must be {expected}")
    if is_root and "metadata" in properties:
        metadata = properties["metadata"]
        names = metadata.get("properties") or {}
        if not set(names) <= {"name", "generateName"} or set(metadata) - {"type", "properties", "description"}:
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden_value(f"{path}.properties[metadata]", detail)


def _values(schema: Object, path: str, *, is_int_or_string: bool) -> Iterator[StatusCause]:
    """What restricts values: the same at a level of the structure and below `allOf` and the others."""
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", pattern, detail)
    # That a value is a number or a text may be said once more where only values are restricted.
    may_say_types = is_int_or_string and schema.get("anyOf") == _INT_OR_STRING_TYPES
    for index, below in enumerate(schema.get("anyOf") or ()):
        if not may_say_types:
            yield from _nested(below, f"{path}.anyOf[{index}]")
    for index, below in enumerate(schema.get("allOf") or ()):
        is_type = is_int_or_string and index == 0 and below.get("anyOf") == _INT_OR_STRING_TYPES
        yield from _nested(below, f"{path}.allOf[{index}]", is_int_or_string=is_type)
    for index, below in enumerate(schema.get("oneOf") or ()):
        yield from _nested(below, f"{path}.oneOf[{index}]")
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not")


def _nested(schema: Object, path: str, *, is_int_or_string: bool = False) -> Iterator[StatusCause]:
    for keyword, word in _STRUCTURE.items():
        if schema.get(keyword) not in (None, "", False, []):
            yield forbidden_value(f"{path}.{keyword}", f"must be {word} to be structural")
    yield from _values(schema, path, is_int_or_string=is_int_or_string)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, below in (schema.get("properties") or {}).items():
        if name == "metadata":
            yield forbidden_value(f"{path}.properties[metadata]", "must not be specified in a nested context")
        yield from _nested(below, f"{path}.properties[{name}]")


def _unspecified(structure: Object, path: str) -> Iterator[StatusCause]:
    """Fields that only a restriction of values knows of: the structure must have them, too."""
    yield from _unspecified_below(structure, path, structure, path)
    for name, field in (structure.get("properties") or {}).items():
        yield from _unspecified(field, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(structure.get(keyword), dict):
            yield from _unspecified(structure[keyword], f"{path}.{keyword}")


def _unspecified_below(structure: Object, path: str, schema: Object, where: str) -> Iterator[StatusCause]:
    """The same for what restricts values at one level: `schema` at `where` speaks of the `structure` at `path`."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(schema.get(keyword) or ()):
            yield from _compared(structure, path, below, f"{where}.{keyword}[{index}]")
    if schema.get("not") is not None:
        yield from _compared(structure, path, schema["not"], f"{where}.not")


def _compared(structure: Object, path: str, schema: Object, where: str) -> Iterator[StatusCause]:
    yield from _unspecified_below(structure, path, schema, where)
    known = structure.get("properties") or {}
    for name, below in (schema.get("properties") or {}).items():
        here, there = f"{path}.properties[{name}]", f"{where}.properties[{name}]"
        if name in known:
            yield from _compared(known[name], here, below, there)
        elif not isinstance(structure.get("additionalProperties"), dict):
            yield required(here, f"because it is defined in {there}")
    if isinstance(schema.get("items"), dict):
        if isinstance(structure.get("items"), dict):
            yield from _compared(structure["items"], f"{path}.items", schema["items"], f"{where}.items")
        else:
            yield required(f"{path}.items", f"because it is defined in {where}.items")
