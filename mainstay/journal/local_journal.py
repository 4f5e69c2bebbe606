"""A journal in directories of this machine, asked without holding up the loop."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mainstay.env import tasks
from mainstay.journal.answers import Changes, Decisions, Extent, StateAnswer, WritesAnswer
from mainstay.journal.reader import Reader
from mainstay.journal.record import DecisionRecord


class LocalJournal:
    """Implements `Journal` (interface.py). `close` it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._worker = tasks.Worker("journal reader")

    async def extent(self) -> Extent:
        return await self._worker.run(self._reader.extent)

    async def state(self, vector: Mapping[str, int]) -> StateAnswer:
        return await self._worker.run(self._reader.state, vector)

    async def changes(self, **wanted: Any) -> Changes:
        return await self._worker.run(partial(self._reader.changes, **wanted))

    async def decision(self, decision: str) -> DecisionRecord | None:
        return await self._worker.run(self._reader.decision, decision)

    async def decisions(self, **wanted: Any) -> Decisions:
        return await self._worker.run(partial(self._reader.decisions, **wanted))

    async def writes(self, **wanted: Any) -> WritesAnswer:
        return await self._worker.run(partial(self._reader.writes, **wanted))

    async def memory(self, record: DecisionRecord) -> bytes | None:
        return await self._worker.run(self._reader.memory, record)

    def close(self) -> None:
        self._worker.close()
