"""Write protobuf from JSON, by the tables of schema.py: what a client of Kubernetes would send. Only for tests."""

import base64
import json
import struct
from datetime import UTC, datetime
from typing import Any

from mainstay.api import protobuf, schema, times
from mainstay.api.schema import MessageField


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = _delimited(1, api_version.encode()) + _delimited(2, kind.encode())
    return protobuf.PREFIX + _delimited(1, type_meta) + _delimited(2, raw) + _delimited(3, b"") + _delimited(4, b"")


def encode(message: str, value: dict[str, Any]) -> bytes:
    out = b""
    for field in schema.find_wire_fields(message).values():
        if field.is_inlined:
            names = schema.find_fields(field.type)
            inner = {name: each for name, each in value.items() if name in names}
            out += _delimited(field.number, encode(field.type, inner))
        elif field.name in value:
            out += _field(field, value[field.name])
    return out


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(field: MessageField, value: Any) -> bytes:
    if field.is_map:
        entries = (_delimited(1, key.encode()) + _one(2, field.type, each) for key, each in value.items())
        return b"".join(_delimited(field.number, entry) for entry in entries)
    if field.repeated:
        return b"".join(_one(field.number, field.type, each) for each in value)
    return _one(field.number, field.type, value)


def _one(number: int, type_: str, value: Any) -> bytes:
    if type_ in ("int32", "int64", "bool"):
        return varint(number << 3) + varint(int(value))
    if type_ == "double":
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return _delimited(number, _bytes(type_, value))


def _bytes(type_: str, value: Any) -> bytes:
    if type_ == "string":
        return str(value).encode()
    if type_ == "bytes":
        return base64.b64decode(value)
    if type_ in (schema.TIME, schema.MICRO_TIME):
        since = times.parse_time(value) - datetime(1970, 1, 1, tzinfo=UTC)
        seconds = since.days * 86400 + since.seconds
        return varint(1 << 3) + varint(seconds) + varint(2 << 3) + varint(since.microseconds * 1000)
    if type_ == schema.QUANTITY:
        return _delimited(1, value.encode())
    if type_ == schema.INT_OR_STRING:
        is_text = isinstance(value, str)
        number = varint(1 << 3) + varint(int(is_text)) + varint(2 << 3) + varint(0 if is_text else value)
        return number + _delimited(3, value.encode() if is_text else b"")
    if type_ in (schema.RAW_EXTENSION, schema.FIELDS_V1, schema.JSON):
        return _delimited(1, json.dumps(value).encode())
    if type_ in schema.STRING_LISTS:
        return b"".join(_delimited(1, each.encode()) for each in value)
    if type_ == schema.SCHEMA_OR_ARRAY and isinstance(value, list):
        return b"".join(_delimited(2, encode(schema.SCHEMA, each)) for each in value)
    if type_ == schema.SCHEMA_OR_STRINGS and isinstance(value, list):
        return b"".join(_delimited(2, each.encode()) for each in value)
    if type_ == schema.SCHEMA_OR_BOOL:
        if isinstance(value, bool):
            return varint(1 << 3) + varint(int(value))
        return varint(1 << 3) + varint(1) + _delimited(2, encode(schema.SCHEMA, value))
    if type_ in (schema.SCHEMA_OR_ARRAY, schema.SCHEMA_OR_STRINGS):
        return _delimited(1, encode(schema.SCHEMA, value))
    return encode(type_, value)


def _delimited(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value
