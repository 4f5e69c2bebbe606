"""A journal that is asked page by page (wire.py), whatever carries the pages: a client, or another server."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from mainstay.journal import wire
from mainstay.journal.answers import Changes, Decisions, Extent, StateAnswer, WritesAnswer
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.record import DecisionRecord
from mainstay.journal.wire import BadPage, Pairs

T = TypeVar("T")


class PagedJournal:
    """Implements `Journal` (interface.py). `fetch` brings the content and the type of a page, or raises
    `JournalUnreachable`; `name` is how the other side is shown."""

    def __init__(self, name: str, fetch: Callable[[str, Pairs], Awaitable[tuple[bytes, str]]]) -> None:
        self._name = name
        self._fetch = fetch

    async def extent(self) -> Extent:
        return await self._ask("extent", [], wire.extent_in)

    async def state(self, vector: Mapping[str, int]) -> StateAnswer:
        return await self._ask("state", wire.vector_query(vector), wire.state_in)

    async def changes(self, **wanted: Any) -> Changes:
        return await self._ask("changes", wire.build_query(wanted), wire.changes_in)

    async def decision(self, decision: str) -> DecisionRecord | None:
        return await self._ask("decision", [("id", decision)], wire.decision_in)

    async def decisions(self, **wanted: Any) -> Decisions:
        return await self._ask("decisions", wire.build_query(wanted), wire.decisions_in)

    async def writes(self, **wanted: Any) -> WritesAnswer:
        return await self._ask("writes", wire.build_query(wanted), wire.writes_in)

    async def memory(self, record: DecisionRecord) -> bytes | None:
        memory = record.memory
        if len(memory.inline) == memory.size:
            return memory.inline
        return await self._ask("memory", [("digest", memory.digest.hex())], wire.memory_in)

    async def _ask(self, page: str, query: Pairs, read: Callable[[bytes], T]) -> T:
        content, content_type = await self._fetch(page, query)
        try:
            return read(wire.plain(content, content_type))
        except (BadPage, msgspec.MsgspecError) as error:
            text = f"cannot parse the answer of {self._name}: {error}; check whether it runs a newer version"
            raise JournalUnreachable(text) from None
