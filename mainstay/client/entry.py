"""An object as a cache keeps it, and what a change did to it."""

from enum import StrEnum
from typing import Any

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class CachedObject(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision. Holds no cycles, so the garbage collector need not follow fifty thousand of them."""

    key: ObjectKey
    uid: str
    revision: int
    raw: bytes
    """The object as JSON, as the server sent it."""
    values: tuple[tuple[str, ...], ...] = ()
    """What it is found under in each index of its cache."""

    def object(self) -> Object:
        """The object, decoded at each call: the caller may change it."""
        return _decode(self.raw)


class ChangeType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(msgspec.Struct, frozen=True, gc=False):
    """What happened to one object of a cache. The cache has already applied it, and everything before it."""

    kind: KindName
    key: ObjectKey
    type: ChangeType
    old: CachedObject | None
    """What the cache had before."""
    new: CachedObject | None
    revision: int
    """What the cache has reached with it."""
    is_inferred: bool = False
    """The delete was not observed: the object was missing, or another one had its name, after a relist. So
    `old` need not be its last state."""
