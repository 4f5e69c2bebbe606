"""Keeps the rules of sampling up to date from the server's own feed: those of the SamplingPolicy, or the built-in."""

import asyncio
import logging
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.kinds.sampling import NAME, incident_until
from mainstay.api.times import parse_time
from mainstay.env import tasks
from mainstay.journal.record import micros
from mainstay.journal.sampling import DEFAULT_RULES, BadRules, Rules, Sampler, rules_of
from mainstay.server.watch.feed import Feed
from mainstay.store.errors import Unavailable
from mainstay.store.interface import Change, Entry, Store

PREFIX: Final = "mainstay.dev/samplingpolicies/"
RETRY_AFTER: Final = timedelta(seconds=1)

_log = logging.getLogger(__name__)


class SamplingRules:
    """Implements `Listener` (server/watch/feed.py). It learns from each change while that is rendered: nothing is left
    to tell.
    """

    def __init__(self, store: Store, feed: Feed, sampler: Sampler) -> None:
        self._store = store
        self._feed = feed
        self._sampler = sampler
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._feed.window(PREFIX).join(self, self._take, self)
        await self._read()

    async def stop(self) -> None:
        self._feed.window(PREFIX).leave(self, self)
        if self._reading is not None:
            await tasks.stop(self._reading)

    async def _read(self) -> None:
        self._learn(await self._store.get(PREFIX + NAME))

    def _take(self, change: Change) -> bytes:
        if change.key == PREFIX + NAME:
            self._learn(change.entry)
        return b""

    def _learn(self, entry: Entry | None) -> None:
        rules = DEFAULT_RULES if entry is None else _rules_in(entry)
        if rules is not None and rules != self._sampler.rules:
            self._sampler.rules = rules
            _log.info("decisions are kept by %d rules%s", len(rules.rules), " (dry run)" if rules.dry_run else "")

    def lost(self) -> None:
        self._reading = tasks.spawn(self._read_again(), name="sampling rules anew")

    async def _read_again(self) -> None:
        while True:
            try:
                await self._read()
            except Unavailable:
                await tasks.sleep(RETRY_AFTER)
            else:
                return

    def tell(self, data: bytes) -> None:
        """Nothing is ever rendered for us."""

    def end(self, reason: bytes) -> None:
        """Never asked for: the kind is always served."""


def _rules_in(entry: Entry) -> Rules | None:
    """None: they make no sense, and those before stay in force. Admission lets no such rules in."""
    spec = msgspec.json.decode(entry.value).get("spec") or {}
    try:
        until = incident_until(spec)
        return rules_of(spec, micros(parse_time(until)) if until else 0)
    except (BadRules, ValueError) as error:
        _log.error("the SamplingPolicy %s is not followed, because it makes no sense: %s", NAME, error)
        return None
