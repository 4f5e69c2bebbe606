"""The cluster as it was at one revision: what there was of each kind, read from the journal when it is asked for.

All questions about one moment get answers of that moment; `now` is a revision, too. What is not known is in `gaps`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.journal.coverage import Gap
from mainstay.journal.interface import Journal
from mainstay.journal.record import moment

_FIRST_WINDOW: Final = timedelta(seconds=1)


class NoSuchMoment(Exception):
    """The journal does not go back that far, or has nothing at all. Says what it has."""


class Moment:
    """Make one with `Moment.now`, `Moment.at_revision` or `Moment.at_time`."""

    def __init__(self, journal: Journal, revision: int, at: datetime) -> None:
        self.journal = journal
        self.revision = revision
        self.at = at
        """The time of the last change up to then."""
        self.gaps: dict[Gap, None] = {}
        self._kinds: dict[KindName, dict[ObjectKey, Object]] = {}

    @classmethod
    async def now(cls, journal: Journal) -> "Moment":
        """The latest that the journal has. Raises `NoSuchMoment`."""
        extent = await journal.extent()
        if not extent.recorded:
            raise NoSuchMoment("the journal is empty")
        return cls(journal, extent.reached, moment(extent.last_at))

    @classmethod
    async def at_revision(cls, journal: Journal, revision: int) -> "Moment":
        """Raises `NoSuchMoment`."""
        extent = await journal.extent()
        if not extent.recorded or not extent.recorded[0][0] <= revision <= extent.reached:
            begins = extent.recorded[0][0] if extent.recorded else 0
            raise NoSuchMoment(f"revision {revision} not found: the journal has {begins} to {extent.reached}")
        changes = await journal.changes(after=max(revision - 1, 0), until=revision)
        at = moment(changes.records[-1].at if changes.records else extent.last_at)
        return cls(journal, revision, at)

    @classmethod
    async def at_time(cls, journal: Journal, at: datetime) -> "Moment":
        """The last revision up to a time, by the clock of the server. Raises `NoSuchMoment`."""
        extent = await journal.extent()
        if not extent.recorded or at < moment(extent.first_at):
            begins = moment(extent.first_at).isoformat() if extent.recorded else "nowhere"
            raise NoSuchMoment(f"the journal begins at {begins}, which is after {at.isoformat()}")
        if at >= moment(extent.last_at):
            return cls(journal, extent.reached, at)
        # Only the next change is wanted, and there may be very many after it: the window grows until one is in it.
        window = _FIRST_WINDOW
        while True:
            later = await journal.changes(since=at, before=at + window)
            after = [each.revision for each in later.records if moment(each.at) > at]
            if after or at + window > moment(extent.last_at):
                return cls(journal, min(after) - 1 if after else extent.reached, at)
            window *= 8

    async def load(self, kinds: Iterable[KindName]) -> None:
        """Read several kinds at once, which is quicker than one after the other."""
        wanted = [kind for kind in kinds if kind not in self._kinds]
        if not wanted:
            return
        state = await self.journal.state({kind.text: self.revision for kind in wanted})
        self.gaps |= dict.fromkeys(state.gaps)
        for kind in wanted:
            found = state.kinds[kind.text]
            self._kinds[kind] = {key: _named(stored.decoded(), kind) for key, stored in found.items()}

    async def get(self, kind: KindName, name: str, namespace: str = "") -> Object | None:
        await self.load([kind])
        return self._kinds[kind].get(ObjectKey(namespace, name))

    async def all(self, kind: KindName) -> list[Object]:
        """In the order of their keys."""
        await self.load([kind])
        return list(self._kinds[kind].values())


def _named(obj: Object, kind: KindName) -> Object:
    """With what the store leaves out, because it is in the key."""
    return {"apiVersion": kind.group_version, "kind": kind.kind, **obj}
