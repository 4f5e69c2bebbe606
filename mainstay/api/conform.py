"""Make an object that came from outside one of its kind: only the fields it may have, of their types, written one way.

What a client sends is walked together with the tables of schema.py, once, and put right in place. Fields that are not
in the tables are taken out and reported; what is null, or the zero value of a field for which that is the same as
absence, is taken out as Go would not see it either; times, quantities and base64 are written as the server writes them.
A value of a wrong type is `StatusError` 400 in the words of Go's decoder, for the caller to put the circumstances
before.

For speed, each message has a walker that is made when it is first met and kept. A path is a chain of pairs, so that
going down costs one tuple; it becomes text only when there is something to say. Of the specs of pods, those in which
nothing had to be put right are remembered by their bytes, and passed at once when they come again.

Not done here: filling in defaults, and whether values make sense (kinds/).
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mainstay.api import quantity, schema, times
from mainstay.api.errors import StatusError, bad_request
from mainstay.api.json_body import INT64_MAX, INT64_MIN
from mainstay.api.kind import Object
from mainstay.api.memo import Memo, encoded
from mainstay.api.schema import MessageField

UNKNOWN_MAX: Final = 100  # As many are reported: a longer list does not help.

# A chain of steps, the last one first: a field's name, the index in a list, or the key of a map in a tuple of its own.
Path = tuple[Any, Any] | None
Unknown = list[str]
Check = Callable[[Any, Path, Unknown], Any]


def conform(value: Object, message: str, at: str = "") -> list[str]:
    """Put right an object in place. Returns the paths of fields that it may not have, which are now gone.

    `at` is the field that the object is, if it is a part of a larger one.
    """
    unknown: Unknown = []
    try:
        _walker(message).walk(value, (None, at) if at else None, unknown)
    except _NotAnObject as error:
        raise _mismatch(error.value, error.path, _struct_around(message, error.path), _go_type(error.message)) from None
    return unknown


@dataclass(eq=False)
class _NotAnObject(Exception):
    """Something else stands where an object should. What is around it, which Go names, only `conform` can find out."""

    value: Any
    path: Path
    message: str


class _Walker:
    """Knows what each field of one message has to be."""

    __slots__ = ("_checks", "_is_made", "_kept", "_message", "_plain", "_struct")

    def __init__(self, message: str) -> None:
        self._message = message
        self._struct = message.rpartition(".")[2]
        self._is_made = False
        self._plain: dict[str, type] = {}
        """Fields for which the type is all there is to check."""
        self._checks: dict[str, Check] = {}
        self._kept: frozenset[str] = frozenset()
        """Fields that are kept even if they are empty."""

    def walk(self, value: Any, path: Path, unknown: Unknown) -> Any:
        if type(value) is not dict:
            raise _NotAnObject(value, path, self._message)
        if not self._is_made:
            self._make()
        plain, checks = self._plain, self._checks
        gone: list[str] | None = None
        for name, inner in value.items():
            if inner and type(inner) is plain.get(name):
                continue
            check = checks.get(name)
            if check is None:
                if len(unknown) < UNKNOWN_MAX:
                    unknown.append(path_text((path, name)))
            elif inner is not None:
                checked = check(inner, (path, name), unknown)
                if checked or name in self._kept:
                    if checked is not inner:
                        value[name] = checked
                    continue
            if gone is None:
                gone = []
            gone.append(name)
        if gone is not None:
            for name in gone:
                del value[name]
        return value

    def _make(self) -> None:
        fields = schema.find_fields(self._message)
        for name, field in fields.items():
            if not field.repeated and not field.is_map and field.type in _PLAIN:
                self._plain[name] = _PLAIN[field.type]
            self._checks[name] = _build_check(field, self._struct)
        # A struct that is empty is still there in Go; what may be absent and is not a struct is not.
        kept = {name for name, field in fields.items() if field.keeps_zero or _is_struct(field)}
        self._kept = frozenset(kept | _EMPTY_LISTS.get(self._message, frozenset()))
        self._is_made = True


_EMPTY_LISTS: Final[Mapping[str, frozenset[str]]] = {
    "k8s.io.api.autoscaling.v2.HPAScalingRules": frozenset({"policies"})
}
"""By message, the lists for which empty differs from absent: no policies means defaults, an empty list is refused."""
_PLAIN: Final[Mapping[str, type]] = {"string": str, "bool": bool}
_POD_SPEC: Final = "k8s.io.api.core.v1.PodSpec"


@cache
def _walker(message: str) -> _Walker:
    return _Walker(message)


def _is_struct(field: MessageField) -> bool:
    is_one = not field.repeated and not field.is_map and field.type not in schema.SCALARS
    # A port of 0 is none; the kinds fill in what a port is when there is none.
    return is_one and field.type != schema.INT_OR_STRING


def _build_check(field: MessageField, struct: str) -> Check:
    one = _check_of_one(field.type, struct)
    if field.repeated:
        return _list_check(one, field, struct)
    if field.is_map:
        return _map_check(one, field, struct)
    return one


def _list_check(one: Check, field: MessageField, struct: str) -> Check:
    plain = _PLAIN.get(field.type)
    zero = _zero(field.type)

    def check_list(value: Any, path: Path, unknown: Unknown) -> Any:
        if type(value) is not list:
            raise _mismatch(value, path, struct, "[]" + _go_type(field.type))
        for index, each in enumerate(value):
            if type(each) is not plain:
                if each is None:
                    value[index] = zero()
                else:
                    checked = one(each, (path, index), unknown)
                    if checked is not each:
                        value[index] = checked
        return value

    return check_list


def _map_check(one: Check, field: MessageField, struct: str) -> Check:
    plain = _PLAIN.get(field.type)
    zero = _zero(field.type)

    def check_map(value: Any, path: Path, unknown: Unknown) -> Any:
        if type(value) is not dict:
            is_resources = field.type == schema.QUANTITY
            raise _mismatch(
                value, path, struct, "v1.ResourceList" if is_resources else f"map[string]{_go_type(field.type)}"
            )
        for key, each in value.items():
            if type(each) is not plain:
                checked = zero() if each is None else one(each, (path, (key,)), unknown)
                if checked is not each:
                    value[key] = checked
        return value

    return check_map


def _zero(type_: str) -> Callable[[], Any]:
    """What Go makes of a null where something must be."""
    zeros: dict[str, Any] = {"string": "", "bytes": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
    zeros |= {schema.QUANTITY: "0", schema.INT_OR_STRING: 0}
    if type_ in zeros:
        return lambda: zeros[type_]
    if type_ in schema.STRING_LISTS:
        return list
    return (lambda: None) if type_ in schema.SPECIAL else dict


def _check_of_one(type_: str, struct: str) -> Check:
    if type_ in _SPECIAL:
        return _SPECIAL[type_]
    if type_ == _POD_SPEC:
        return _remembering(_walker(type_).walk)
    if type_ not in schema.SCALARS:
        return _walker(type_).walk
    if type_ == "int32":
        return _whole_number(struct, type_, -(1 << 31), (1 << 31) - 1)
    if type_ == "int64":
        return _whole_number(struct, type_, INT64_MIN, INT64_MAX)

    def check_type(value: Any, path: Path, unknown: Unknown) -> Any:
        if type(value) not in types:
            raise _mismatch(value, path, struct, _go_type(type_))
        return _base64(value) if type_ == "bytes" and value else value

    types: tuple[type, ...] = {"string": (str,), "bytes": (str,), "bool": (bool,), "double": (int, float)}[type_]
    return check_type


def _remembering(walk: Check) -> Check:
    """The same check, which knows again what was right as it came."""
    right: Memo[bool] = Memo()

    def check(value: Any, path: Path, unknown: Unknown) -> Any:
        key = encoded(value)
        if right.get(key):
            return value
        walk(value, path, unknown)
        if encoded(value) == key:  # What was unknown is gone from it: then nothing was.
            right.put(key, True)
        return value

    return check


def _whole_number(struct: str, type_: str, least: int, most: int) -> Check:
    def check_number(value: Any, path: Path, unknown: Unknown) -> Any:
        if type(value) is int and least <= value <= most:
            return value
        raise _mismatch(value, path, struct, type_)

    return check_number


# What is not an object of fields in JSON ------------------------------------------------------------------------------


def _time(value: Any, path: Path, unknown: Unknown) -> str:
    if type(value) is not str:
        raise _mismatch_in_go_value(value, "string")
    return _time_text(value)


def _micro_time(value: Any, path: Path, unknown: Unknown) -> str:
    if type(value) is not str:
        raise _mismatch_in_go_value(value, "string")
    return _micro_time_text(value)


def _time_text(value: str) -> str:
    try:
        return times.canonical_time(value)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _micro_time_text(value: str) -> str:
    try:
        return times.canonical_micro_time(value)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _quantity(value: Any, path: Path, unknown: Unknown) -> str:
    try:
        return quantity.canonical(value)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _int_or_string(value: Any, path: Path, unknown: Unknown) -> int | str:
    if type(value) is str:
        return value
    if type(value) is int and -(1 << 31) <= value < 1 << 31:
        return value
    raise _mismatch_in_go_value(value, "int32")


def _anything(value: Any, path: Path, unknown: Unknown) -> Any:
    return value


def _schema_or_array(value: Any, path: Path, unknown: Unknown) -> Any:
    if type(value) is list:
        walk = _walker(schema.SCHEMA).walk
        return [walk({} if each is None else each, (path, index), unknown) for index, each in enumerate(value)]
    return _walker(schema.SCHEMA).walk(value, path, unknown)


def _schema_or_bool(value: Any, path: Path, unknown: Unknown) -> Any:
    if type(value) is bool:
        return value
    if type(value) is not dict:
        raise bad_request("boolean or JSON schema expected")
    return _walker(schema.SCHEMA).walk(value, path, unknown)


def _schema_or_strings(value: Any, path: Path, unknown: Unknown) -> Any:
    if type(value) is list:
        return _strings(value, path, unknown)
    return _walker(schema.SCHEMA).walk(value, path, unknown)


def _strings(value: Any, path: Path, unknown: Unknown) -> list[str]:
    if type(value) is not list:
        raise _mismatch_in_go_value(value, "[]string")
    for each in value:
        if each is not None and type(each) is not str:
            raise _mismatch_in_go_value(each, "string")
    return [each or "" for each in value]


_SPECIAL: Final[Mapping[str, Check]] = {
    schema.TIME: _time,
    schema.MICRO_TIME: _micro_time,
    schema.QUANTITY: _quantity,
    schema.INT_OR_STRING: _int_or_string,
    schema.RAW_EXTENSION: _anything,
    schema.FIELDS_V1: _anything,
    schema.JSON: _anything,
    schema.SCHEMA_OR_ARRAY: _schema_or_array,
    schema.SCHEMA_OR_BOOL: _schema_or_bool,
    schema.SCHEMA_OR_STRINGS: _schema_or_strings,
    **dict.fromkeys(schema.STRING_LISTS, _strings),
}

_BASE64_PREFIX: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*")


def _base64(value: str) -> str:
    """The same bytes, as Go writes them."""
    if "\n" in value or "\r" in value:
        value = value.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(binascii.a2b_base64(value, strict_mode=True)).decode()
    except ValueError:
        # The group of four that is not right; where in it does not matter.
        good = _BASE64_PREFIX.match(value)
        raise bad_request(f"illegal base64 data at input byte {good.end() if good else 0}") from None


# Words ----------------------------------------------------------------------------------------------------------------

_JSON_NAMES: Final[Mapping[type, str]] = {str: "string", bool: "bool", dict: "object", list: "array"}


def path_text(path: Path) -> str:
    """As strict decoding names a field: `spec.containers[0].foo`."""
    text = ""
    for step in _steps(path):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if isinstance(step, str) else step[0]
            text = f"{text}.{name}" if text else name
    return text


def _steps(path: Path) -> list[Any]:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    return steps[::-1]


def _mismatch(value: Any, path: Path, struct: str, go_type: str) -> StatusError:
    # Go names the innermost struct, and then the fields from the outermost, without indices and keys.
    fields = ".".join(step for step in _steps(path) if isinstance(step, str))
    if not fields:
        return _mismatch_in_go_value(value, go_type)
    return bad_request(
        f"json: cannot unmarshal {_json_name(value, go_type)} into Go struct field {struct}.{fields} of type {go_type}"
    )


def _struct_around(message: str, path: Path) -> str:
    """The name of the message that has the field at the end of the path."""
    around = message
    for step in _steps(path):
        if isinstance(step, str):
            around = message
            field = schema.find_fields(message).get(step)
            message = field.type if field is not None else message
            if message in (schema.SCHEMA_OR_ARRAY, schema.SCHEMA_OR_BOOL, schema.SCHEMA_OR_STRINGS):
                message = schema.SCHEMA
    return around.rpartition(".")[2]


def _mismatch_in_go_value(value: Any, go_type: str) -> StatusError:
    return bad_request(f"json: cannot unmarshal {_json_name(value, go_type)} into Go value of type {go_type}")


def _json_name(value: Any, go_type: str) -> str:
    name = _JSON_NAMES.get(type(value))
    if name is not None:
        return name
    return f"number {value}" if go_type in ("int32", "int64") and value is not None else "number"


def _go_type(type_: str) -> str:
    if type_ in schema.SCALARS:
        return {"double": "float64", "bytes": "[]uint8"}.get(type_, type_)
    package, _, name = type_.rpartition(".")
    return f"{package.rpartition('.')[2]}.{name}"
