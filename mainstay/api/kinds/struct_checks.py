"""Check a spec by a `msgspec.Struct`, with the errors of the other kinds: the field, its value, and what it must be.

msgspec stops at the first problem and describes it in types of Python, with the field at the end ("Expected `int` >= 1
- at `$.queue.attemptsMax`"). Kinds that are declared as functions use checks.py instead.
"""

import re
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kinds.checks import invalid_json, wrong_type

_Spec = TypeVar("_Spec", bound=msgspec.Struct)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_TYPE: Final = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_BOUND: Final = re.compile(r"Expected `(\w+)` (of length )?(>=|<=) (\d+)")
_PATTERN: Final = re.compile(r"Expected `str` matching regex '(.*)'")
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `([^`]+)`")
_NAMES: Final = {"int": "integer", "str": "string", "bool": "boolean", "float": "number", "array": "array"}


def convert_spec(spec: Any, wanted: type[_Spec]) -> _Spec | StatusCause:
    """The spec as a value, or what is wrong with it."""
    try:
        return msgspec.convert(spec, wanted)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        return _build_cause(text, place.removesuffix("`"), spec, wanted)


def _build_cause(text: str, place: str, spec: Any, wanted: type[msgspec.Struct]) -> StatusCause:
    # The key of a map is not named (`[...]`): the map is shown then.
    value, kind, path = spec, inspect.type_info(wanted), "spec"
    for step in _STEP.finditer(place):
        name, index = step.groups()
        if index == "...":
            break
        value = value[name] if index is None else value[int(index)]
        kind = _find_part(kind, name)
        path += step.group()
    if found := _FIELD.fullmatch(text):
        problem, name = found.groups()
        if problem == "missing required":
            return required(f"{path}.{name}")
        return forbidden_value(f"{path}.{name}", f"unknown field; known fields: {', '.join(_list_fields(kind))}")
    if text.startswith("Invalid enum value") and isinstance(kind, inspect.EnumType):
        return not_supported(path, value, _list_values(kind.cls))
    if (found := _TYPE.fullmatch(text)) and "[...]" not in place:
        names = [_NAMES.get(each, each) for each in found.group(1).split(" | ") if each != "null"]
        return wrong_type(path, value, " or ".join(names))
    detail = f"each value {_describe(text)}" if "[...]" in place else _describe(text)
    if isinstance(value, dict | list):
        return invalid_json(path, value, detail)
    return invalid_value(path, value, detail)


def _describe(text: str) -> str:
    if found := _BOUND.fullmatch(text):
        kind, is_length, sign, number = found.groups()
        if not is_length:
            return f"must be {'greater' if sign == '>=' else 'less'} than or equal to {number}"
        if (sign, number) == (">=", "1"):
            return "must not be empty"
        what = "items" if kind == "array" else "characters"
        return f"must have at {'least' if sign == '>=' else 'most'} {number} {what}"
    if found := _TYPE.fullmatch(text):
        return f"must be of type {_NAMES.get(found.group(1), found.group(1))}"
    if found := _PATTERN.fullmatch(text):
        return "must match " + found.group(1).replace("\\\\", "\\")
    return text


def _find_part(kind: inspect.Type, name: str | None) -> inspect.Type:
    """The type of a field, or of an item. `kind` is one that has it: the decoder came this far."""
    if isinstance(kind, inspect.UnionType):
        kind = next(each for each in kind.types if isinstance(each, inspect.StructType | inspect.ListType))
    if isinstance(kind, inspect.StructType):
        return _without_null(next(each.type for each in kind.fields if each.encode_name == name))
    assert isinstance(kind, inspect.ListType), kind
    return _without_null(kind.item_type)


def _without_null(kind: inspect.Type) -> inspect.Type:
    if not isinstance(kind, inspect.UnionType):
        return kind
    others = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    return others[0] if len(others) == 1 else kind


def _list_fields(kind: inspect.Type) -> list[str]:
    return [each.encode_name for each in kind.fields] if isinstance(kind, inspect.StructType) else []


def _list_values(enum: type[Enum]) -> list[str]:
    return [str(each.value) for each in enum]
