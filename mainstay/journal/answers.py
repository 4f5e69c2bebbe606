"""The answers that a journal gives. Each says what it should rest on and does not."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mainstay.api.object_key import ObjectKey
from mainstay.journal.coverage import Gap
from mainstay.journal.files import Interval
from mainstay.journal.record import ChangeRecord, DecisionRecord, LostRecord, SampledRecord, ViewPart, WriteRecord
from mainstay.journal.scan import Damage

_decode = msgspec.json.Decoder().decode


class StoredVersion(NamedTuple):
    """An object as the store had it, and the revision that wrote it."""

    revision: int
    value: bytes

    def decoded(self) -> dict[str, Any]:
        """The object, with its resource version, and without `kind` and `apiVersion`, which are not stored."""
        obj: dict[str, Any] = _decode(self.value)
        obj.setdefault("metadata", {})["resourceVersion"] = str(self.revision)
        return obj


Objects = dict[ObjectKey, StoredVersion]
"""In the order of their keys."""


@dataclass(frozen=True, slots=True)
class Answered:
    gaps: tuple[Gap, ...]
    damages: tuple[Damage, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing that this should rest on."""
        return not self.gaps


@dataclass(frozen=True, slots=True)
class StateAnswer(Answered):
    """The objects of some kinds, each kind as of a revision."""

    kinds: dict[str, Objects]
    based_on: int
    """The revision of the snapshot it was built from; 0 if there was none."""


@dataclass(frozen=True, slots=True)
class ViewAnswer(Answered):
    """What a decision saw. Selectors for fields are not applied: what a field is, only a kind knows."""

    parts: dict[ViewPart, Objects]


@dataclass(frozen=True, slots=True)
class Changes(Answered):
    """In the order of their revisions."""

    records: tuple[ChangeRecord, ...]


@dataclass(frozen=True, slots=True)
class Decisions(Answered):
    """In the order of their times. `gaps` says nothing here: decisions have no revisions."""

    records: tuple[DecisionRecord, ...]
    lost: tuple[LostRecord, ...] = ()
    """Decisions of that time that were not kept, or not whole; which ones is unknown."""
    left_out: tuple[SampledRecord, ...] = ()
    """How many decisions of that time rules have left out on purpose. No loss: they did nothing that the rules ask to
    be kept."""

    @property
    def is_complete(self) -> bool:
        return not self.lost and not self.damages


@dataclass(frozen=True, slots=True)
class WritesAnswer(Answered):
    """Who asked for revisions, in their order. A revision that is not here was made by the server itself, by another
    server, or its record was lost."""

    records: tuple[WriteRecord, ...]


@dataclass(frozen=True, slots=True)
class Extent(Answered):
    """How much there is to be asked about."""

    recorded: tuple[Interval, ...]
    """The revisions whose changes are here."""
    first_at: int = 0
    last_at: int = 0
    """The times of the first and the last change, in microseconds (`record.moment`)."""

    @property
    def reached(self) -> int:
        """The latest revision that is here; 0: there is none."""
        return self.recorded[-1][1] if self.recorded else 0
