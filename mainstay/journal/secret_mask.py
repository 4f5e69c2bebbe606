"""Secrets without their values: what may be written down of a Secret.

A journal is copied into bundles, mailed, and read by people who may not read Secrets. So a Secret goes in as

    {"metadata": {…, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "(secret, 431 bytes)"}},
     "type": "Opaque", "data": {"password": "(secret, 12 bytes)"}}

Kept are the names in `data` and the length of each value, for that is what most questions are about: is the key there,
was it empty, did it change in size? Not kept is any hash of a value, not even a salted one that is thrown away with the
process: short values can be found from their hash by trying. So two values of one length look the same here;
that the object was *written* can, by its revision.

Tools keep copies of the whole object, and thereby of the values, in annotations: kubectl in one of that name, others in
ones of their own, some of them compressed. Therefore an annotation of a Secret keeps its text only if it is short and
has no part of any value in it. Everything outside of the metadata that is not known to be harmless is left out.

Not covered: a value that its owner put into a name or a label, or into an object of another kind. Decision records have
no bodies of objects at all (record.py); what a component puts into its memory, reasons and messages is its own
responsibility.
"""

import base64
import binascii
from typing import Any, Final

import msgspec

from mainstay.api.json_values import UNREADABLE

SECRETS: Final = "core/secrets/"
ANNOTATION_LENGTH_MAX: Final = 200  # Of one that is kept as it is. A copy of an object is longer.

_PART_MIN: Final = 4  # Shorter parts of a value are found in any text.
_VALUES: Final = ("data", "stringData")
_HARMLESS: Final = ("kind", "apiVersion", "type", "immutable")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def masked(key: str, value: bytes) -> bytes:
    """The bytes that may be written down for an object at this key of the store."""
    if not key.startswith(SECRETS):
        return value
    try:
        obj = _decode(value)
    except UNREADABLE:
        obj = None
    return _encode(_masked(obj if isinstance(obj, dict) else {}))


def _masked(obj: dict[str, Any]) -> dict[str, Any]:
    given = obj.get("metadata")
    metadata = dict(given) if isinstance(given, dict) else {}
    annotations = metadata.get("annotations")
    if annotations is not None:
        parts = _parts(obj)
        metadata["annotations"] = {
            name: text if _is_harmless(text, parts) else _mark(text) for name, text in _items(annotations)
        }
    result: dict[str, Any] = {"metadata": metadata}
    result.update((name, obj[name]) for name in _HARMLESS if name in obj)
    for name in _VALUES:
        if name in obj:
            result[name] = {key: _mark(text, in_base64=name == "data") for key, text in _items(obj[name])}
    return result


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _mark(text: Any, *, in_base64: bool = False) -> str:
    if not isinstance(text, str):
        return "(secret)"
    size = len(text.rstrip("=")) * 3 // 4 if in_base64 else len(text.encode())
    return f"(secret, {size} bytes)"


def _is_harmless(text: Any, parts: list[str]) -> bool:
    return isinstance(text, str) and len(text) <= ANNOTATION_LENGTH_MAX and not any(part in text for part in parts)


def _parts(obj: dict[str, Any]) -> list[str]:
    """Every value as text and in base64, if it is long enough to be distinguished from other text."""
    parts: list[str] = []
    for _, text in _items(obj.get("data")):
        if isinstance(text, str):
            parts += (text.rstrip("="), _plain(text))
    for _, text in _items(obj.get("stringData")):
        if isinstance(text, str):
            parts += (text, base64.b64encode(text.encode()).decode().rstrip("="))
    return [part for part in parts if len(part) >= _PART_MIN]


def _plain(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
