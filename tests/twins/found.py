"""Bugs that Mainstay has had, that runs of scenarios have found, and that no other twin plants again (docs/BUGS.md)."""

from collections.abc import Iterable, Sequence

import pytest

from mainstay.client.cache import Cache
from mainstay.client.entry import Change, Entry
from mainstay.client.reflector import Instructions, Reflector, Watch
from mainstay.controllers import deployment
from mainstay.controllers.deployment import Rollout
from mainstay.scheduler.reporting import Reason, Report, Reporter
from mainstay.server.openings import Openings
from mainstay.server.watching import _Session as Session


def goes_on_from_revisions_that_never_were(patch: pytest.MonkeyPatch) -> None:
    async def is_unheard_of(self: Session, revision: int) -> bool:
        return False

    async def covers(self: Openings, name: str, revision: int) -> bool:
        return True

    patch.setattr(Session, "_is_unheard_of", is_unheard_of)
    patch.setattr(Openings, "covers", covers)  # It would be noticed by the opening as well.


def takes_the_same_revision_for_the_same_object(patch: pytest.MonkeyPatch) -> None:
    honest = Cache.replace

    def replace(self: Cache, entries: Iterable[Entry], revision: int, *, is_rewind: bool = False) -> Sequence[Change]:
        held = {entry.key: entry for entry in self.entries()}
        known = [
            held[entry.key] if (old := held.get(entry.key)) is not None and _is_same(old, entry) else entry
            for entry in entries
        ]
        return honest(self, known, revision, is_rewind=is_rewind)

    patch.setattr(Cache, "replace", replace)


def _is_same(old: Entry, new: Entry) -> bool:
    return (old.uid, old.revision) == (new.uid, new.revision)


def does_not_say_of_which_store_its_revision_is(patch: pytest.MonkeyPatch) -> None:
    honest = Reflector._resume

    def resume(self: Reflector) -> Instructions:
        honest(self)
        return (Watch(self.revision),)

    patch.setattr(Reflector, "_resume", resume)


def lets_two_writers_at_one_pod(patch: pytest.MonkeyPatch) -> None:
    def next_(self: Reporter) -> Report | None:
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    async def write(self: Reporter, report: Report) -> None:
        await (self._retrying(report) if report.reason is Reason.BINDING_UNANSWERED else self._one(report))

    patch.setattr(Reporter, "_next", next_)
    patch.setattr(Reporter, "_write", write)


def goes_by_what_a_set_has_said_of_its_past(patch: pytest.MonkeyPatch) -> None:
    def unsaid(rollout: Rollout) -> list[str]:
        return []

    patch.setattr(deployment, "_unsaid", unsaid)
