"""Which objects of a kind are meant: a namespace, labels, fields. Looks into stored bytes as little as possible."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from mainstay.api import fields, labels
from mainstay.api.kind import Kind, TextAt
from mainstay.api.object_meta import drop_malformed
from mainstay.server.request.target import Options, RequestTarget
from mainstay.server.storage.keyspace import build_key, build_prefix
from mainstay.server.storage.stored import read
from mainstay.server.watch.feed import Only
from mainstay.store.interface import Entry

_ANY: Final = msgspec.json.Decoder()


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


_labelled = msgspec.json.Decoder(_Labelled).decode


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch is about. `key` is what two of them share if they select the same."""

    kind: Kind
    prefix: str
    label_text: str
    field_text: str
    matches: Callable[[Entry], bool] | None
    """None if everything under the prefix is meant."""
    shown: Callable[[Entry], Entry | None] | None = None
    """What is shown of an object to the user who asks; None: nothing at all. Without this, all of it is."""
    reader: str = ""
    """The user who asks, if not all users are shown the same."""
    only: Only | None = None
    """A field in which all that is meant has one value."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.prefix, self.label_text, self.field_text, self.reader)

    def covers(self, entry: Entry | None) -> bool:
        """Whether an object is there and is meant."""
        return entry is not None and entry.key.startswith(self.prefix) and (self.matches is None or self.matches(entry))


def parse_selection(target: RequestTarget, options: Options, *, field_text: str | None = None) -> Selection:
    """`field_text` replaces what the options say. Raises `StatusError` for selectors that cannot be understood."""
    kind = target.kind
    label_text = options.get("labelSelector")
    field_text = options.get("fieldSelector") if field_text is None else field_text
    by_label = labels.parse(label_text) if label_text.strip() else None
    by_field = fields.parse(field_text) if field_text.strip() else None
    if by_field is not None:
        fields.check_supported(by_field, None if kind.selectable is None else list(kind.selectable))
    prefix = build_prefix(kind, target.namespace)
    if target.name:
        prefix = build_key(kind, target.namespace, target.name)
        return Selection(kind, prefix, label_text, field_text, lambda entry: entry.key == prefix)

    def matches(entry: Entry) -> bool:
        if by_label is not None and not by_label.matches(_read_labels(entry.value)):
            return False
        return by_field is None or by_field.matches(_field_getter(kind, entry))

    is_all = by_label is None and by_field is None
    only = None if by_field is None else _only(kind, by_field)
    return Selection(kind, prefix, label_text, field_text, None if is_all else matches, only=only)


def _read_labels(value: bytes) -> dict[str, str]:
    try:
        return _labelled(value).metadata.labels or {}
    except msgspec.ValidationError:
        # It was written before metadata was checked (object_meta.py): it must not be in the way of all others.
        found: dict[str, str] = drop_malformed(_ANY.decode(value).get("metadata")).get("labels") or {}
        return found


def _only(kind: Kind, selector: fields.FieldSelector) -> Only | None:
    required = next((term for term in selector.terms if term.is_equal), None)
    if required is None:
        return None
    field = required.field
    return Only(f"{kind.group_version} {field}", required.value, lambda entry: _field_getter(kind, entry)(field))


def _field_getter(kind: Kind, entry: Entry) -> Callable[[str], str]:
    place, _, name = entry.key.rpartition("/")
    namespace = place.rpartition("/")[2] if kind.namespaced else ""

    def read_value(field: str) -> str:
        if field == "metadata.name":
            return name
        if field == "metadata.namespace":
            return namespace
        getter = (kind.selectable or {})[field]
        if isinstance(getter, TextAt) and kind.from_stored is None:
            return _text_at(getter, entry.value)
        return getter(read(kind, entry))

    return read_value


def _text_at(getter: TextAt, value: bytes) -> str:
    """The same as when all of the object is read, in a fraction of the time."""
    try:
        found: Any = _build_decoder(getter.path)(value)
    except msgspec.ValidationError:
        return getter(_ANY.decode(value))  # Something on the way there is not what it should be.
    for _ in getter.path:
        found = None if found is None else found.inner
    return found if isinstance(found, str) else ""


@lru_cache(maxsize=256)
def _build_decoder(path: tuple[str, ...]) -> Callable[[bytes], Any]:
    """Reads nothing but what is on a path: a struct of one field for each step."""
    inner: Any = Any
    for step in reversed(path):
        inner = msgspec.defstruct("At", [("inner", inner | None, None)], rename={"inner": step})
    return msgspec.json.Decoder(inner).decode
