"""What a journal has of the kinds that placements are decided from, to be read forward once.

`load_history` asks for all changes at once and sorts them by kind. `ViewCursor` applies them up to the revisions of a
view, kind by kind, as caches do: each kind is completely applied up to its own revision.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mainstay.api.kind_names import NODES, PLACEMENT_POLICIES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import is_over
from mainstay.journal.coverage import Gap
from mainstay.journal.interface import Journal
from mainstay.journal.keys import build_prefix, parse_object_key
from mainstay.journal.record import ChangeRecord
from mainstay.scheduler.cache.columns import NodeColumns

KINDS: Final = (NODES.text, PODS.text, RESERVATIONS.text, ZONE_QUOTAS.text, PLACEMENT_POLICIES.text)

decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class PlacementHistory:
    journal: Journal
    begins: int
    """The revision of the oldest state; every change after it is there, but for `gaps`."""
    reached: int
    gaps: tuple[Gap, ...]
    changes: Mapping[str, list[ChangeRecord]]
    """By kind, in the order of their revisions."""

    def find_gap(self, revisions: Iterable[int]) -> str:
        """What is missing of a view of these revisions, in words; empty: nothing."""
        asked = list(revisions)
        least, most = min(asked), max(asked)
        if least < self.begins:
            return f"revision {least} is before the oldest revision of the journal, {self.begins}"
        if most > self.reached:
            return f"revision {most} is after the last revision of the journal, {self.reached}"
        return "; ".join(str(gap) for gap in self.gaps if gap.after < most)


async def load_history(journal: Journal) -> PlacementHistory:
    """Raises `JournalUnreachable`."""
    recorded = (await journal.extent()).recorded
    begins, reached = (recorded[0][0], recorded[-1][1]) if recorded else (0, 0)
    found = await journal.changes(after=begins, until=reached)
    prefixes = {build_prefix(kind): kind for kind in KINDS}
    changes: dict[str, list[ChangeRecord]] = {kind: [] for kind in KINDS}
    for each in found.records:
        group, plural, _ = each.key.split("/", 2)
        kind = prefixes.get(f"{group}/{plural}/")
        if kind is not None:
            changes[kind].append(each)
    return PlacementHistory(journal, begins, reached, found.gaps, changes)


Apply = Callable[[str, ObjectKey, int, bytes | None], None]
"""An object of a kind is like this from a revision on; None: it is gone."""


class _Identity(msgspec.Struct, gc=False):
    uid: str


class _Place(msgspec.Struct, gc=False):
    node: str = msgspec.field(default="", name="nodeName")


class _Phase(msgspec.Struct, gc=False):
    phase: str = ""


class RecordedPodState(msgspec.Struct, gc=False):
    """As much of a pod as says who it is, where it is, and whether it is over: quick to read."""

    metadata: _Identity
    spec: _Place | None = None
    status: _Phase | None = None

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def is_bound(self) -> bool:
        return self.spec is not None and bool(self.spec.node)

    @property
    def is_over(self) -> bool:
        return self.status is not None and is_over({"status": {"phase": self.status.phase}})


decode_pod_state: Final = msgspec.json.Decoder(RecordedPodState).decode


@dataclass(slots=True)
class ViewCursor:
    """How far each kind is applied."""

    history: PlacementHistory
    apply: Apply
    at: dict[str, int] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)

    async def start(self, view: Mapping[str, int]) -> None:
        """Apply the state of a view, to something empty. Nodes come first: what is on them refers to them."""
        state = await self.history.journal.state({kind: view[kind] for kind in KINDS if kind in view})
        for kind in KINDS:
            if kind not in view:
                continue
            for key, stored in state.kinds[kind].items():
                self.apply(kind, key, stored.revision, stored.value)
            changes, self.at[kind] = self.history.changes[kind], view[kind]
            self._next[kind] = _first_after(changes, view[kind])

    def is_behind(self, view: Mapping[str, int]) -> bool:
        """Whether a view is older than what is applied, or has a kind that is not."""
        return any(self.at.get(kind, 1 << 62) > view[kind] for kind in KINDS if kind in view)

    def advance(self, view: Mapping[str, int]) -> None:
        """Apply what has changed up to the revisions of a view."""
        for kind in KINDS:
            revision = view.get(kind)
            if revision is None or revision == self.at[kind]:
                continue
            changes, number = self.history.changes[kind], self._next[kind]
            while number < len(changes) and changes[number].revision <= revision:
                change = changes[number]
                self.apply(kind, parse_object_key(change.key), change.revision, change.value)
                number += 1
            self._next[kind], self.at[kind] = number, revision


def _first_after(changes: list[ChangeRecord], revision: int) -> int:
    return bisect_right(changes, revision, key=lambda each: each.revision)


def change_columns(columns: NodeColumns, kind: str, key: ObjectKey, value: bytes | None) -> None:
    """Pass on a change of anything but pods."""
    if kind == PLACEMENT_POLICIES.text:
        return
    obj = None if value is None else decode_object(value)
    old = {"metadata": {"namespace": key.namespace, "name": key.name}} if obj is None else None
    if kind == NODES.text:
        columns.node_changed(obj, key.name)
    elif kind == RESERVATIONS.text:
        columns.reservation_changed(old, obj)
    elif kind == ZONE_QUOTAS.text:
        columns.zone_quota_changed(old, obj)
