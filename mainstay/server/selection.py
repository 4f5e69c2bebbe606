"""Which objects of a kind are meant: a namespace, labels, fields. Looks into stored bytes as little as possible."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from mainstay.api import fields, labels
from mainstay.api.kind import Kind
from mainstay.server.keyspace import key_of, prefix_of
from mainstay.server.requests import Options, Target
from mainstay.server.stored import read
from mainstay.store.interface import Entry


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
    """What is shown of an object to whoever asks; None: nothing at all. Without this, all of it is."""
    reader: str = ""
    """Who asks, if not everybody is shown the same."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.prefix, self.label_text, self.field_text, self.reader)

    def covers(self, entry: Entry | None) -> bool:
        """Whether an object is there and is meant."""
        return entry is not None and entry.key.startswith(self.prefix) and (self.matches is None or self.matches(entry))


def selection_of(target: Target, options: Options, *, field_text: str | None = None) -> Selection:
    """`field_text` is in place of what the options say. Raises `ApiError` for selectors that cannot be understood."""
    kind = target.kind
    label_text = options.get("labelSelector")
    field_text = options.get("fieldSelector") if field_text is None else field_text
    by_label = labels.parse(label_text) if label_text.strip() else None
    by_field = fields.parse(field_text) if field_text.strip() else None
    if by_field is not None:
        fields.check_supported(by_field, None if kind.selectable is None else list(kind.selectable))
    prefix = prefix_of(kind, target.namespace)
    if target.name:
        prefix = key_of(kind, target.namespace, target.name)
        return Selection(kind, prefix, label_text, field_text, lambda entry: entry.key == prefix)

    def matches(entry: Entry) -> bool:
        if by_label is not None and not by_label.matches(_labelled(entry.value).metadata.labels or {}):
            return False
        return by_field is None or by_field.matches(_field_getter(kind, entry))

    return Selection(kind, prefix, label_text, field_text, None if by_label is None and by_field is None else matches)


def _field_getter(kind: Kind, entry: Entry) -> Callable[[str], str]:
    place, _, name = entry.key.rpartition("/")
    namespace = place.rpartition("/")[2] if kind.namespaced else ""

    def value_of(field: str) -> str:
        if field == "metadata.name":
            return name
        if field == "metadata.namespace":
            return namespace
        selectable = kind.selectable or {}
        return selectable[field](read(kind, entry))

    return value_of
