"""Bugs that a cluster could have, which the checkers of its runs must find."""

from collections.abc import Callable, Iterable, Sequence

import pytest

from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.scenarios.cache_follows import CacheFollows
from mainstay.server.storage import write_context
from mainstay.server.watch.feed import Window
from mainstay.store.interface import KeyChange

Twin = Callable[[pytest.MonkeyPatch], None]


def forgets_deletes_when_a_watch_resumes(patch: pytest.MonkeyPatch) -> None:
    honest = Window.since

    def since(self: Window, revision: int) -> list[KeyChange] | None:
        changes = honest(self, revision)
        return None if changes is None else [change for change in changes if change.entry is not None]

    patch.setattr(Window, "since", since)


def keeps_what_a_new_list_lacks(patch: pytest.MonkeyPatch) -> None:
    honest = Cache.replace

    def replace(
        self: Cache, entries: Iterable[CachedObject], revision: int, *, is_rewind: bool = False
    ) -> Sequence[Change]:
        listed = {entry.key: entry for entry in entries}
        kept = [entry for entry in self.entries() if entry.key not in listed]
        return honest(self, [*listed.values(), *kept], revision, is_rewind=is_rewind)

    patch.setattr(Cache, "replace", replace)


def does_an_operation_each_time_it_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(write_context, "read_operation", lambda request, user, clock: None)


def does_not_look_at_terms(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(write_context, "parse_term", lambda header: None)


def never_stops_writing(patch: pytest.MonkeyPatch) -> None:
    async def finish(self: CacheFollows) -> None:
        """Go on."""

    patch.setattr(CacheFollows, "finish", finish)
