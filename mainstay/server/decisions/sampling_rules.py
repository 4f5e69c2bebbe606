"""Keeps the rules of sampling up to date from the server's own feed: those of the SamplingPolicy, or the built-in."""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from mainstay.api.kinds.sampling import NAME, incident_until
from mainstay.api.times import parse_time
from mainstay.journal.record import micros
from mainstay.journal.sampling import DEFAULT_RULES, BadRules, EffectiveRules, Sampler, parse_rules
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry, KeyChange, Store

PREFIX: Final = "mainstay.dev/samplingpolicies/"

_log = logging.getLogger(__name__)


class SamplingRules:
    def __init__(self, store: Store, feed: Feed, sampler: Sampler) -> None:
        self._sampler = sampler
        self._follower = PrefixFollower(store, feed, PREFIX, self._take, self._reset)

    async def start(self) -> None:
        self._reset(await self._follower.start())

    async def stop(self) -> None:
        await self._follower.stop()

    def _reset(self, entries: Sequence[Entry]) -> None:
        self._learn(next((entry for entry in entries if entry.key == PREFIX + NAME), None))

    def _take(self, change: KeyChange) -> None:
        if change.key == PREFIX + NAME:
            self._learn(change.entry)

    def _learn(self, entry: Entry | None) -> None:
        rules = DEFAULT_RULES if entry is None else _parse_rules(entry)
        if rules is not None and rules != self._sampler.rules:
            self._sampler.rules = rules
            _log.info("applying %d sampling rules%s", len(rules.rules), " (dry run)" if rules.dry_run else "")


def _parse_rules(entry: Entry) -> EffectiveRules | None:
    """None if they are invalid: then those before stay in force. Admission lets no such rules in."""
    spec = msgspec.json.decode(entry.value).get("spec") or {}
    try:
        until = incident_until(spec)
        return parse_rules(spec, micros(parse_time(until)) if until else 0)
    except (BadRules, ValueError) as error:
        _log.error("ignoring invalid SamplingPolicy %s: %s", NAME, error)
        return None
