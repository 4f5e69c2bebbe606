"""Adds up what shared keys are the sum of, for one in so many commits, and compares.

The ledger of a node, and the use of a quota, are never added up: each write adds its own part, in its own transaction
(shared_writes.py). So they are right at every revision, as long as each write adds what it takes. Here that is checked,
as of the revision of a commit of this process, after it was answered. The more there is to add up, the more seldom it
is done, so that it costs each commit the same.

A sum that a commit has made wrong is a bug: what is decided from it gives away room twice, or never. One that was wrong
already may come from an older build, or from other writers of the store: it is reported, and a recount puts it right.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from mainstay.env import tasks
from mainstay.env.invariants import Sample, broken
from mainstay.server.storage.shared_writes import SharedWrite
from mainstay.store.errors import StoreError
from mainstay.store.interface import Store

CHECKED_ONE_IN: Final = 1000  # Commits; and at most one in ten times the cost of the last check.

_logger = logging.getLogger(__name__)


class AddedUp(Struct, frozen=True):
    """What a shared key says, and what it should say."""

    said: object
    sum: object
    cost: int
    """How much was looked at, in entries that are only skimmed."""


AddUp = Callable[[Store, str, int], Awaitable[AddedUp]]
"""Add up what a key counts, as of a revision. Raises what stores raise."""


class Sum(Struct, frozen=True):
    rule: str
    """The invariant, for the story."""
    add_up: AddUp


class SumChecks:
    """`sums` has the sum of each shared key, by the prefix of the keys. Others are not looked at."""

    def __init__(self, store: Store, sums: Mapping[str, Sum]) -> None:
        self._store = store
        self._sums = sums
        self._samples = Sample(CHECKED_ONE_IN)
        self._checking: asyncio.Task[None] | None = None

    def committed(self, shared: Sequence[SharedWrite], revision: int) -> None:
        """This process has changed these keys. One at a time is checked, in the background."""
        if self._samples.take() and (self._checking is None or self._checking.done()):
            self._checking = tasks.spawn(self._check([each.key for each in shared], revision), name="check sums")

    async def stop(self) -> None:
        if self._checking is not None:
            await tasks.stop(self._checking)

    async def _check(self, keys: Sequence[str], revision: int) -> None:
        cost = 0
        try:
            for key in keys:
                for prefix, each in self._sums.items():
                    if key.startswith(prefix):
                        cost += await self._check_key(each, key, revision)
        except StoreError as error:  # Compacted meanwhile, or out of reach: there will be others.
            _logger.info("cannot add up what is at %s: %s", ", ".join(keys), error)
        self._samples = Sample(max(CHECKED_ONE_IN, 10 * cost))

    async def _check_key(self, each: Sum, key: str, revision: int) -> int:
        now = await each.add_up(self._store, key, revision)
        if now.said != now.sum:
            before = await each.add_up(self._store, key, revision - 1)
            if before.said == before.sum:
                raise broken(each.rule, f"key {key}", revision=revision, said=now.said, sum=now.sum, before=before.said)
            _logger.error("%s is not the sum of what it counts: %s instead of %s; recount it", key, now.said, now.sum)
        return now.cost
