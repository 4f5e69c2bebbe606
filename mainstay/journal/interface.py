"""What can be asked of a journal, wherever it is: in this machine's directory, behind a server, in a bundle, in memory.

All that explains goes through this, so that the same words come out of a living cluster, of a copy of its journal, and
of a simulated run. `LocalJournal` asks a directory (local_journal.py), `MemoryJournal` has all of it in memory
(memory_journal.py), `RemoteJournal` asks a server (client/remote_journal.py).

An answer with gaps is given all the same, as far as it goes: look at `is_complete` before you take it for the truth.
Any method may raise `JournalUnreachable`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from mainstay.journal.answers import Changes, Decisions, Extent, StateAnswer, WritesAnswer
from mainstay.journal.record import DecisionRecord


class Journal(Protocol):
    async def extent(self) -> Extent:
        """How far it goes. A living journal first catches up with its store."""

    async def state(self, vector: Mapping[str, int]) -> StateAnswer:
        """The objects of each kind, by its text, as of a revision."""

    async def changes(
        self,
        *,
        kind: str = "",
        namespace: str | None = None,
        name: str = "",
        decision: str = "",
        after: int = 0,
        until: int | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> Changes:
        """What was written: to a kind, an object, by a decision, after a revision up to another, between two times."""

    async def decision(self, decision: str) -> DecisionRecord | None:
        """The record of a decision. None: it was not recorded, was lost, or is forgotten."""

    async def decisions(
        self,
        *,
        kind: str = "",
        namespace: str | None = None,
        name: str = "",
        uid: str = "",
        component: str = "",
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 1_000,
    ) -> Decisions:
        """Decisions about an object or a kind, of a component, between two times. Of more than `limit`, the latest."""

    async def writes(
        self,
        *,
        kind: str = "",
        namespace: str | None = None,
        name: str = "",
        after: int = 0,
        until: int | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 1_000,
    ) -> WritesAnswer:
        """Who asked for the writes to an object or a kind. Of more than `limit`, the latest."""

    async def memory(self, record: DecisionRecord) -> bytes | None:
        """The memory that a decision depended on. None: it was too large for the record, and no checkpoint has it."""
