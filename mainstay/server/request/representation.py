"""In which form an answer is wanted: objects, tables for people, or metadata alone; as JSON or YAML.

Clients list what they can read, best first; the first that we can write is taken. Protobuf is never written: every
client that asks for it also reads JSON.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

import msgspec

from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Kind
from mainstay.server.storage.stored import in_pieces, read, rendered, rendered_list, versioned
from mainstay.store.interface import Entry

META: Final = "meta.k8s.io/v1"
ACCEPTED: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

_encode = msgspec.json.Encoder().encode


class ObjectShape(Enum):
    OBJECT = auto()
    TABLE = auto()
    PARTIAL = auto()
    """Metadata alone."""


@dataclass(frozen=True, slots=True)
class ResponseForm:
    shape: ObjectShape
    is_yaml: bool = False

    @property
    def content_type(self) -> str:
        return "application/yaml" if self.is_yaml else "application/json"


PLAIN: Final = ResponseForm(ObjectShape.OBJECT)
METADATA: Final = ResponseForm(ObjectShape.PARTIAL)


@lru_cache(maxsize=256)  # There are few, and a client sends the same with each request.
def negotiate_form(accept: str | None) -> ResponseForm:
    """The form to answer in. Raises `StatusError` (406) if none of those asked for can be had."""
    if not accept or accept in ("application/json", "*/*"):
        return PLAIN
    for wish in accept.split(","):
        media, *rest = (part.strip() for part in wish.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        form = _form(media.lower(), parameters)
        if form is not None:
            return form
    raise StatusError(406, StatusReason.NOT_ACCEPTABLE, f"only the following media types are accepted: {ACCEPTED}", {})


def _form(media: str, parameters: dict[str, str]) -> ResponseForm | None:
    if media not in ("application/json", "application/yaml", "*/*", "application/*"):
        return None
    is_yaml = media == "application/yaml"
    wanted = parameters.get("as")
    if wanted is None:
        return ResponseForm(ObjectShape.OBJECT, is_yaml)
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    if wanted == "Table":
        return ResponseForm(ObjectShape.TABLE, is_yaml)
    if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return ResponseForm(ObjectShape.PARTIAL, is_yaml)
    return None


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_Metadata).decode


def partial(value: bytes, revision: int) -> bytes:
    """The metadata of an object, as an object of its own."""
    metadata = bytes(_decode_metadata(versioned(value, revision)).metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}' % metadata


def one(form: ResponseForm, kind: Kind, value: bytes, revision: int, now: datetime, include: str = "Metadata") -> bytes:
    """One object."""
    match form.shape:
        case ObjectShape.OBJECT:
            return rendered(kind, value, revision)
        case ObjectShape.PARTIAL:
            return partial(value, revision)
        case ObjectShape.TABLE:
            entry = Entry("", value, revision, revision, 1)
            return b"".join(table(kind, [entry], {"resourceVersion": str(revision)}, now, include))


def many(
    form: ResponseForm, kind: Kind, entries: Sequence[Entry], metadata: dict[str, Any], now: datetime, include: str
) -> Iterator[bytes]:
    """A list of objects, in pieces."""
    match form.shape:
        case ObjectShape.OBJECT:
            return rendered_list(kind, entries, metadata)
        case ObjectShape.PARTIAL:
            head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":%b,"items":['
            return in_pieces(head % _encode(metadata), entries, lambda entry: partial(entry.value, entry.revision))
        case ObjectShape.TABLE:
            return table(kind, entries, metadata, now, include)


def table(
    kind: Kind,
    entries: Sequence[Entry],
    metadata: dict[str, Any],
    now: datetime,
    include: str,
    *,
    with_columns: bool = True,
) -> Iterator[bytes]:
    """A table with one row for each object, which holds as much of it as `include` says: Metadata, Object or None."""
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in kind.columns
    ]
    about = {
        "kind": "Table",
        "apiVersion": META,
        "metadata": metadata,
        "columnDefinitions": columns if with_columns else None,
    }
    head = b'%b,"rows":[' % _encode(about)[:-1]
    return in_pieces(head, entries, lambda entry: _row(kind, entry, now, include))


def _row(kind: Kind, entry: Entry, now: datetime, include: str) -> bytes:
    found = read(kind, entry)
    row: dict[str, Any] = {"cells": kind.cells(found, now) if kind.cells is not None else []}
    conditions = kind.row_conditions(found) if kind.row_conditions is not None else ()
    if conditions:
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = msgspec.Raw(rendered(kind, entry.value, entry.revision))
    elif include != "None":
        row["object"] = msgspec.Raw(partial(entry.value, entry.revision))
    return _encode(row)
