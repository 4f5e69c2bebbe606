"""Commit points: what has to become true together with a write of an object, in the same transaction.

Most kinds have none, and a write of theirs is the object alone. Some have: a Service takes its addresses, a Lease
begins a term, a pod is charged to its node. Each is a `CommitPoint`, looked up by kind when an object is written.
It is told what is there and what is to be, may read more, and says which checks and writes go along; or it refuses.

    write of an object ─► the points of its kind ─► Beside(checks, writes, shared) ─► one commit

A point is asked again for every attempt at the same write, so it must change nothing by itself. What a dry run would
do is asked for too, and thrown away.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from mainstay.api.kind import Kind, Object
from mainstay.server.storage.shared_writes import SharedWrite
from mainstay.server.storage.write_context import NO_CONTEXT, WriteContext
from mainstay.store.interface import Check, Write


class Intended(Struct, frozen=True):
    """A write of an object, as it is about to be committed."""

    kind: Kind
    key: str
    new: Object | None
    """None: it is removed. A pod of which only the status is written has its spec as bytes (stored.py)."""
    old: Object | None
    """None: it is made."""
    subresource: str = ""
    context: WriteContext = NO_CONTEXT


class TransactionParts(Struct, frozen=True):
    """What goes with a write into its transaction."""

    checks: Sequence[Check] = ()
    writes: Sequence[Write] = ()
    shared: Sequence[SharedWrite] = ()
    object: Object | None = None
    """To be stored in place of the given one."""


NOTHING: Final = TransactionParts()


class CommitPoint(Protocol):
    def applies_to(self, intended: Intended) -> bool:
        """Whether this write is one for this point. Asked with every write of the kind: look, do not work."""

    async def parts_for(self, intended: Intended) -> TransactionParts:
        """What goes along. Leaves the objects alone. Raises `StatusError` to refuse the write."""


class CommitPoints:
    """All of them, by group and kind."""

    def __init__(
        self, points: Mapping[tuple[str, str], Sequence[CommitPoint]], everywhere: Sequence[CommitPoint] = ()
    ) -> None:
        """`everywhere`: for all kinds, after their own."""
        self._points = {kind: (*own, *everywhere) for kind, own in points.items()}
        self._everywhere = tuple(everywhere)

    async def parts_for(
        self,
        kind: Kind,
        key: str,
        new: Object | None,
        old: Object | None,
        subresource: str = "",
        context: WriteContext = NO_CONTEXT,
    ) -> TransactionParts:
        """What goes with a write of an object; `NOTHING` for most."""
        points = self._points.get((kind.group, kind.kind), self._everywhere)
        if not points:
            return NOTHING
        intended = Intended(kind, key, new, old, subresource, context)
        found: list[TransactionParts] = []
        for point in points:
            if point.applies_to(intended) and (parts := await point.parts_for(intended)) is not NOTHING:
                found.append(parts)
        return joined(found) if found else NOTHING


def joined(parts: Sequence[TransactionParts]) -> TransactionParts:
    """Several that go with one write. Only one of them may put another object in place of the given one."""
    if len(parts) == 1:
        return parts[0]
    objects = [each.object for each in parts if each.object is not None]
    if len(objects) > 1:
        raise AssertionError("two commit points want to change the same object")
    return TransactionParts(
        tuple(check for each in parts for check in each.checks),
        tuple(write for each in parts for write in each.writes),
        tuple(write for each in parts for write in each.shared),
        objects[0] if objects else None,
    )
