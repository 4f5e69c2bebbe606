"""What is kept of an object in the graph: its name, its owners, and whether it is on its way out.

Of each object a server sends its metadata alone; most of that is not kept either. What siblings have in common, their
references, is kept once. So fifty thousand objects take a few tens of megabytes
(tests/controllers/garbage/test_graph.py).
"""

import sys
from typing import Any, Final, NamedTuple

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache, MalformedObject
from mainstay.client.entry import CachedObject

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_SHARED_MAX: Final = 10_000  # Of references that siblings share. Beyond that, they are forgotten.


class Reference(NamedTuple):
    """One owner, as a dependent names it."""

    group: str
    kind: str
    name: str
    uid: str
    is_blocking: bool = False
    """An owner that waits for its dependents waits for this one."""


class Vertex(CachedObject, frozen=True, gc=False):
    """An object. `raw` and `values` of an entry are empty."""

    kind: KindName = KindName("", "", "", "", False)
    owners: tuple[Reference, ...] = ()
    is_leaving: bool = False
    waits_for_dependents: bool = False
    """It is being deleted, and goes after those that depend on it."""
    lets_go: bool = False
    """It is being deleted, and those that depend on it stay."""

    def is_meant_by(self, reference: Reference, namespace: str) -> bool:
        """Whether a reference, in an object of a namespace, names this one. The uid alone is not enough: it may have
        been written beside another name, or in another namespace, by mistake."""
        return (
            reference.uid == self.uid
            and reference.name == self.key.name
            and reference.kind == self.kind.kind
            and reference.group == self.kind.group
            and self.key.namespace in ("", namespace)
        )

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"


class _Reference(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    owner_references: list[_Reference] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Object).decode
_EMPTY: Final = b""


class Nodes(Cache):
    """The objects of one kind, as the graph needs them. What is read is not kept."""

    def __init__(self, kind: KindName) -> None:
        super().__init__(kind)
        self._shared: dict[tuple[Reference, ...], tuple[Reference, ...]] = {}

    def read(self, raw: bytes) -> CachedObject:
        try:
            metadata = _decode(raw).metadata
            revision = int(metadata.resource_version)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            raise MalformedObject(f"{self.kind}: {error}") from None
        held = self.entry(ObjectKey(metadata.namespace, metadata.name))
        is_held = held is not None and held.uid == metadata.uid
        if held is not None and is_held and held.revision == revision:
            return held
        finalizers = metadata.finalizers or ()
        is_leaving = metadata.deletion_timestamp is not None
        return Vertex(
            key=held.key if held is not None else ObjectKey(sys.intern(metadata.namespace), metadata.name),
            uid=held.uid if held is not None and is_held else metadata.uid,
            revision=revision,
            raw=_EMPTY,
            kind=self.kind,
            owners=self._owners(metadata.owner_references),
            is_leaving=is_leaving,
            waits_for_dependents=is_leaving and FOREGROUND in finalizers,
            lets_go=is_leaving and ORPHAN in finalizers,
        )

    def read_item(self, raw: bytes) -> CachedObject:
        return self.read(raw)

    def _owners(self, references: list[_Reference] | None) -> tuple[Reference, ...]:
        if not references:
            return ()
        owners = tuple(
            [
                Reference(
                    sys.intern(each.api_version.rpartition("/")[0]),
                    sys.intern(each.kind),
                    each.name,
                    each.uid,
                    bool(each.block_owner_deletion),
                )
                for each in references
            ]
        )
        if len(self._shared) > _SHARED_MAX:
            self._shared.clear()
        return self._shared.setdefault(owners, owners)


def parse_references(obj: Object) -> tuple[Reference, ...]:
    """The owners that an object names."""
    found: list[Any] = obj["metadata"].get("ownerReferences") or []
    return tuple(
        [
            Reference(
                str(each.get("apiVersion", "")).rpartition("/")[0],
                each.get("kind", ""),
                each.get("name", ""),
                each.get("uid", ""),
                bool(each.get("blockOwnerDeletion")),
            )
            for each in found
        ]
    )
