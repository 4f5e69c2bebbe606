"""Read the protobuf that clients of Kubernetes send, into what the same object would be as JSON.

A body is an envelope that says what is in it (`unwrap`), and the message (`decode`). The wire format is small, and the
tables of schema.py say what each number means, so this reads it directly. Go writes every field that is not a pointer,
be it empty; such zero values are left out again unless they mean something. Fields that the tables do not know are
skipped: a newer client may send them.

Whatever is not well-formed is `StatusError` 400, in words for the caller to put the circumstances before. Nothing here
writes protobuf: responses are JSON.
"""

import base64
import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from mainstay.api import json_body, schema, times
from mainstay.api.errors import StatusError, bad_request
from mainstay.api.json_values import too_deep
from mainstay.api.kind import Object
from mainstay.api.schema import MessageField

PREFIX: Final = b"k8s\x00"
_UNKNOWN: Final = "k8s.io.apimachinery.pkg.runtime.Unknown"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NESTED_MAX: Final = 64  # Messages in messages. Each costs several calls, and the stack is bounded too.


def unwrap(data: bytes) -> tuple[str, str, bytes]:
    """The apiVersion and kind that a body claims to be, either perhaps empty, and the message in it."""
    if not data.startswith(PREFIX):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope: Object = {}
    _read(_UNKNOWN, data, len(PREFIX), len(data), 1, envelope)
    if envelope.get("contentEncoding"):
        raise bad_request(f"unsupported content encoding {envelope['contentEncoding']!r} in the protobuf envelope")
    raw = base64.b64decode(envelope.get("raw", ""))
    return envelope.get("apiVersion", ""), envelope.get("kind", ""), raw


def decode(message: str, data: bytes) -> Object:
    """The object that a message stands for, with its fields as JSON has them."""
    into: Object = {}
    try:
        _read(message, data, 0, len(data), 1, into)
    except RecursionError:
        raise too_deep() from None
    # JSON in a message has a depth of its own, which comes on top.
    json_body.check_depth(into)
    return into


@cache
def _by_number(message: str) -> Mapping[int, MessageField]:
    return {field.number: field for field in schema.find_wire_fields(message).values()}


def _read(message: str, data: bytes, at: int, end: int, depth: int, into: Object) -> None:
    """Read the fields of a message from `at` to `end`. What occurs again goes on top of what is there, as in Go."""
    if depth > _NESTED_MAX:
        raise too_deep()
    fields = _by_number(message)
    while at < end:
        key, at = _varint(data, at, end)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise bad_request(f"proto: {message.rpartition('.')[2]}: illegal tag 0 (wire type {wire_type})")
        field = fields.get(number)
        if field is None:
            at = _skipped(data, at, end, wire_type)
        elif wire_type == _BYTES:
            length, at = _varint(data, at, end)
            stop = at + length
            if stop > end:
                raise _cut_off()
            _take_bytes(field, data, at, stop, depth, into)
            at = stop
        else:
            at = _take_number(field, data, at, end, wire_type, into)


def _take_bytes(field: MessageField, data: bytes, at: int, end: int, depth: int, into: Object) -> None:
    """A field that says how long it is: text, a message, an entry of a map, or packed numbers."""
    name = field.name
    if field.is_map:
        key, value = _entry(field.type, data, at, end, depth)
        entries = into.setdefault(name, {})
        if value is not None:
            entries[key] = value
    elif field.is_inlined:
        _read(field.type, data, at, end, depth + 1, into)
    elif field.repeated:
        values = into.setdefault(name, [])
        if field.type in _NUMBERS:
            while at < end:
                value, at = _number(field, data, at, end, _NUMBERS[field.type])
                values.append(value)
        else:
            values.append(_value(field.type, data, at, end, depth, None))
    elif field.type in _NUMBERS:
        raise _wrong_wire_type(field, _BYTES)
    else:
        value = _value(field.type, data, at, end, depth, into.get(name))
        _put(field, value, into)


def _take_number(field: MessageField, data: bytes, at: int, end: int, wire_type: int, into: Object) -> int:
    if field.is_map or field.is_inlined or field.type not in _NUMBERS:
        raise _wrong_wire_type(field, wire_type)
    value, at = _number(field, data, at, end, wire_type)
    if field.repeated:
        into.setdefault(field.name, []).append(value)
    else:
        _put(field, value, into)
    return at


def _put(field: MessageField, value: Any, into: Object) -> None:
    if value is None or (not field.keeps_zero and not value):
        into.pop(field.name, None)
    else:
        into[field.name] = value


def _value(type_: str, data: bytes, at: int, end: int, depth: int, before: Any) -> Any:
    """Text, or a message. None says that it is absent."""
    if type_ == "string":
        return _text(data, at, end)
    if type_ == "bytes":
        return base64.b64encode(data[at:end]).decode()
    special = _SPECIAL.get(type_)
    if special is not None:
        return special(type_, data, at, end, depth)
    into = before if isinstance(before, dict) else {}
    _read(type_, data, at, end, depth + 1, into)
    return into


def _entry(type_: str, data: bytes, at: int, end: int, depth: int) -> tuple[str, Any]:
    """An entry of a map is a message of its own: field 1 is the key, field 2 the value."""
    key, value, has_value = "", None, False
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire_type = tag >> 3, tag & 7
        if number not in (1, 2):
            at = _skipped(data, at, end, wire_type)
            continue
        if wire_type != _BYTES:
            raise bad_request(f"proto: wrong wireType = {wire_type} for an entry of a map")
        length, at = _varint(data, at, end)
        stop = at + length
        if stop > end:
            raise _cut_off()
        if number == 1:
            key = _text(data, at, stop)
        else:
            value, has_value = _value(type_, data, at, stop, depth, None), True
        at = stop
    if not has_value:
        value = _value(type_, b"", 0, 0, depth, None)
    return key, value


# Numbers ------------------------------------------------------------------------------------------------------------

_NUMBERS: Final = {"int32": _VARINT, "int64": _VARINT, "bool": _VARINT, "double": _FIXED64}


def _number(field: MessageField, data: bytes, at: int, end: int, wire_type: int) -> tuple[Any, int]:
    if wire_type != _NUMBERS[field.type]:
        raise _wrong_wire_type(field, wire_type)
    if field.type == "double":
        if at + 8 > end:
            raise _cut_off()
        (number,) = struct.unpack_from("<d", data, at)
        if not math.isfinite(number):
            raise bad_request(f"json: unsupported value: {number} for field {field.name}")
        return number, at + 8
    value, at = _varint(data, at, end)
    if field.type == "bool":
        return value != 0, at
    bits = 32 if field.type == "int32" else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value, at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise bad_request("proto: integer overflow")
            return value, at
        shift += 7
        if shift >= 70:
            raise bad_request("proto: integer overflow")
    raise _cut_off()


def _skipped(data: bytes, at: int, end: int, wire_type: int) -> int:
    """Where the field after this one begins."""
    if wire_type == _VARINT:
        return _varint(data, at, end)[1]
    if wire_type == _BYTES:
        length, at = _varint(data, at, end)
        at += length
    elif wire_type == _FIXED64:
        at += 8
    elif wire_type == _FIXED32:
        at += 4
    else:
        raise bad_request(f"proto: illegal wireType {wire_type}")
    if at > end:
        raise _cut_off()
    return at


def _text(data: bytes, at: int, end: int) -> str:
    try:
        return data[at:end].decode()
    except UnicodeDecodeError:
        raise bad_request("proto: string field contains invalid UTF-8") from None


# Messages that are no objects in JSON ---------------------------------------------------------------------------------


def _time(type_: str, data: bytes, at: int, end: int, depth: int) -> str | None:
    fields: Object = {}
    _read(type_, data, at, end, depth, fields)
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if seconds == 0 and nanos == 0:
        return None  # So Go writes "no time". The first second of 1970 cannot be said.
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise bad_request(f"a time is out of range: {seconds} seconds since 1970") from None
    return times.format_time(moment) if type_ == schema.TIME else times.format_micro_time(moment)


def _quantity(type_: str, data: bytes, at: int, end: int, depth: int) -> str:
    fields: Object = {}
    _read(type_, data, at, end, depth, fields)
    text: str = fields.get("string", "")
    return text or "0"


def _int_or_string(type_: str, data: bytes, at: int, end: int, depth: int) -> int | str:
    fields: Object = {}
    _read(type_, data, at, end, depth, fields)
    value: int | str = fields.get("strVal", "") if fields.get("type") else fields.get("intVal", 0)
    return value


def _json(type_: str, data: bytes, at: int, end: int, depth: int) -> Any:
    """Bytes that hold JSON, as field 1."""
    raw = b""
    while at < end:
        tag, at = _varint(data, at, end)
        if tag == 1 << 3 | _BYTES:
            length, at = _varint(data, at, end)
            if at + length > end:
                raise _cut_off()
            raw = data[at : at + length]
            at += length
        else:
            at = _skipped(data, at, end, tag & 7)
    return json_body.parse(raw).value if raw else None


def _schema_or(type_: str, data: bytes, at: int, end: int, depth: int) -> Any:
    """A schema, or what may stand in its place."""
    fields: Object = {}
    # Presence matters more than content here: an empty schema is not the absence of one.
    _read(type_, data, at, end, depth, fields)
    has_schema = "schema" in fields or _has_field(_find_number(type_, "schema"), data, at, end)
    instead = fields.get("jSONSchemas" if type_ == schema.SCHEMA_OR_ARRAY else "property")
    if instead:
        return instead
    if has_schema:
        return fields.get("schema", {})
    return fields.get("allows", False) if type_ == schema.SCHEMA_OR_BOOL else None


def _find_number(type_: str, name: str) -> int:
    return schema.find_wire_fields(type_)[name].number


def _has_field(number: int, data: bytes, at: int, end: int) -> bool:
    while at < end:
        tag, at = _varint(data, at, end)
        if tag >> 3 == number:
            return True
        at = _skipped(data, at, end, tag & 7)
    return False


def _strings(type_: str, data: bytes, at: int, end: int, depth: int) -> list[str]:
    fields: Object = {}
    _read(type_, data, at, end, depth, fields)
    items: list[str] = fields.get("items", [])
    return items


_SPECIAL: Final[Mapping[str, Callable[[str, bytes, int, int, int], Any]]] = {
    schema.TIME: _time,
    schema.MICRO_TIME: _time,
    schema.QUANTITY: _quantity,
    schema.INT_OR_STRING: _int_or_string,
    schema.RAW_EXTENSION: _json,
    schema.FIELDS_V1: _json,
    schema.JSON: _json,
    schema.SCHEMA_OR_ARRAY: _schema_or,
    schema.SCHEMA_OR_BOOL: _schema_or,
    schema.SCHEMA_OR_STRINGS: _schema_or,
    **dict.fromkeys(schema.STRING_LISTS, _strings),
}


def _cut_off() -> StatusError:
    return bad_request("unexpected EOF")


def _wrong_wire_type(field: MessageField, wire_type: int) -> StatusError:
    return bad_request(f"proto: wrong wireType = {wire_type} for field {field.name}")
