"""How an object lies in the store, and how its bytes become an answer without being read.

An object is stored as JSON without `kind`, `apiVersion` and `metadata.resourceVersion`: the first two follow from
where it is, the last is the revision that the store gives it. `metadata` comes first, and in it what names the
object. So an answer is made by putting two pieces into the stored bytes, which costs the same for a small object as
for a large one.

    stored      {"metadata":{"name":"web-1","namespace":"default","uid":"…",            …}, "spec": … }
    an answer   {"kind":"Pod","apiVersion":"v1","metadata":{…,"uid":"…","resourceVersion":"5010", …}, "spec": … }
    in a list                                 {"metadata":{…,"uid":"…","resourceVersion":"5010", …}, "spec": … }
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mainstay.api.kind import Kind, Object
from mainstay.api.object_meta import drop_malformed, is_strict
from mainstay.store.interface import Entry

_NAMING: Final = ("name", "generateName", "namespace", "uid")
# Before the uid there are only names, in which no quotation mark can be: the first one found is the right one.
_UID: Final = b'"uid":"'
PIECE_BYTES: Final = 256 * 1024  # Of a list. Large enough to cost little, small enough not to hold up other requests.
_RENDERED_BYTES: Final = 3072  # What each item costs that is made in Python, in bytes that are only copied.
_UID_BYTES: Final = len(_UID) + 36 + 1

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """What a write has led to: the object as stored, and its revision. A dry run has none."""

    value: bytes
    revision: int
    was_removed: bool = False
    is_repeated: bool = False
    """It has happened before: the client has sent the same operation again."""


def stored(obj: Object) -> bytes:
    """The bytes to store of an object. It must have a name and a uid."""
    given = dict(obj["metadata"])
    given.pop("resourceVersion", None)
    naming = {name: given.pop(name) for name in _NAMING if name in given}
    rest = {name: value for name, value in obj.items() if name not in ("metadata", "kind", "apiVersion")}
    return _encode({"metadata": {**naming, **given}, **rest})


def encode_for_storage(kind: Kind, obj: Object) -> bytes:
    """The bytes to store of an object as this version of its kind shows it."""
    return stored(obj if kind.to_stored is None else kind.to_stored(obj))


def read(kind: Kind, entry: Entry) -> Object:
    """The object, to look into or to change."""
    obj: Object = _decode(entry.value)
    if not kind.message and not is_strict(obj["metadata"]):
        obj["metadata"] = drop_malformed(obj["metadata"])
    obj["metadata"]["resourceVersion"] = str(entry.revision)
    if kind.from_stored is not None:
        obj = kind.from_stored(obj)
    return {**obj, "kind": kind.kind, "apiVersion": kind.group_version}


class _Pod(msgspec.Struct, forbid_unknown_fields=True):
    metadata: Object
    spec: msgspec.Raw
    status: Object | msgspec.UnsetType = msgspec.UNSET


_decode_pod = msgspec.json.Decoder(_Pod).decode


def read_pod_for_status(kind: Kind, entry: Entry) -> Object:
    """A pod as `read` gives it, for those who only look at metadata and status. Its spec is bytes, as stored.

    Most of the small objects that reading a pod makes are in the spec, and nearly all writes are to the status.
    """
    parts = _decode_pod(entry.value)
    parts.metadata["resourceVersion"] = str(entry.revision)
    pod: Object = {"metadata": parts.metadata, "spec": parts.spec}
    if parts.status is not msgspec.UNSET:
        pod["status"] = parts.status
    return {**pod, "kind": kind.kind, "apiVersion": kind.group_version}


def uid_in(value: bytes) -> str:
    """The uid of a stored object."""
    at = value.find(_UID)
    return value[at + len(_UID) : at + _UID_BYTES - 1].decode() if at >= 0 else ""


def versioned(value: bytes, revision: int) -> bytes:
    """The stored bytes with the resource version in their place."""
    at = value.index(_UID) + _UID_BYTES
    return b"".join((value[:at], b',"resourceVersion":"%d"' % revision, value[at:]))


def rendered(kind: Kind, value: bytes, revision: int) -> bytes:
    """An object as the body of an answer."""
    if kind.from_stored is not None:
        return _encode(read(kind, Entry("", value, revision, revision, 1)))
    head = b'{"kind":"%b","apiVersion":"%b",' % (kind.kind.encode(), kind.group_version.encode())
    return head + versioned(value, revision)[1:]


def rendered_list(kind: Kind, entries: Sequence[Entry], metadata: dict[str, Any]) -> Iterator[bytes]:
    """Objects as the body of a list, in pieces. Items of custom kinds say what they are, those of built-in ones not."""
    head = b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":[' % (
        kind.kind.encode(),
        kind.group_version.encode(),
        _encode(metadata),
    )
    if kind.is_custom or kind.from_stored is not None:
        return in_pieces(head, entries, lambda entry: rendered(kind, entry.value, entry.revision))
    return _stored_in_pieces(head, entries)


def _stored_in_pieces(head: bytes, entries: Iterable[Entry]) -> Iterator[bytes]:
    """As `in_pieces`, of items as `versioned` makes them; but what is stored is copied once, into the piece."""
    piece: list[bytes | memoryview] = [head]
    between, size = b"", 0
    for entry in entries:
        value = entry.value
        at = value.index(_UID) + _UID_BYTES
        piece += (between, value[:at], b',"resourceVersion":"%d"' % entry.revision, memoryview(value)[at:])
        between = b","
        size += len(value)
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    piece.append(b"]}")
    yield b"".join(piece)


def in_pieces(head: bytes, entries: Iterable[Entry], render: Callable[[Entry], bytes]) -> Iterator[bytes]:
    """A list that begins with `head`, its items made as they are needed.

    What it takes to make one counts, too: a row of a table is short, and is read from the whole object.
    """
    piece, between, size = [head], b"", 0
    for entry in entries:
        item = render(entry)
        piece += (between, item)
        between = b","
        size += len(item) + len(entry.value) // 4 + _RENDERED_BYTES
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    piece.append(b"]}")
    yield b"".join(piece)
