"""Who writes what: the store notes with each transaction the request, or the task of the server, that makes it.

A request writes within its context, and so does whatever it starts: a task inherits the context in which it is made.
What is written outside of any request is the work of a task that began with the server, which has a name.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from mainstay.server.quota.tally import tally_in
from mainstay.server.quota.zone_quota import use_in
from mainstay.store.index import StoreIndex, Transaction
from mainstay.store.interface import KeyChange
from mainstay.store.local import LocalStore
from mainstay.store.log import Log, MemoryLog

NO_REQUEST: Final = 0
OWN_WORK: Final = {
    "quota-status-writer": ("mainstay.dev/zonequotas/", "core/resourcequotas/"),
    "flow-control-defaults": ("flowcontrol.apiserver.k8s.io/",),
    "crd-definitions": ("apiextensions.k8s.io/", "fuzz.dev/"),
    "role-aggregation": ("rbac.authorization.k8s.io/clusterroles/",),
    "reservation-expiry": ("mainstay.dev/reservations/", "~ledger/"),
    "operations-sweeper": ("~operations/",),
}
"""What each task of the server may write of its own accord."""

_request: ContextVar[int] = ContextVar("tests.fuzz.request", default=NO_REQUEST)


@dataclass(frozen=True)
class WrittenTransaction:
    request: int
    """The number of the request. `NO_REQUEST`: the server itself."""
    task: str
    changes: tuple[KeyChange, ...]

    @property
    def is_own_work(self) -> bool:
        """Whether the server does this by itself, in a task that may write these keys."""
        allowed = OWN_WORK.get(self.task, ())
        return self.request == NO_REQUEST and all(change.key.startswith(allowed) for change in self.changes)

    @property
    def begins_count(self) -> bool:
        """Whether it only says that a new quota is being counted, which limits nothing (server/quota/)."""
        return all(_begins_count(change) for change in self.changes)

    def __str__(self) -> str:
        return f"{', '.join(change.key for change in self.changes)} (task {self.task})"


def _begins_count(change: KeyChange) -> bool:
    if change.key.startswith("~quota/"):
        return tally_in(change.entry).quotas == tally_in(change.previous).quotas
    return change.key.startswith("~zone-quota/") and use_in(change.entry).quotas == use_in(change.previous).quotas


class ObservedStore(LocalStore):
    """A store in memory that notes who makes each transaction."""

    def __init__(self, log: Log, index: StoreIndex) -> None:
        super().__init__(log, index)
        self._written: list[WrittenTransaction] = []

    def take_written(self) -> list[WrittenTransaction]:
        """What was written since the last call."""
        written, self._written = self._written, []
        return written

    def _stage(self, transaction: Transaction) -> None:
        task = asyncio.current_task()
        name = "" if task is None else task.get_name()
        self._written.append(WrittenTransaction(_request.get(), name, transaction.changes))
        super()._stage(transaction)


async def open_observed() -> ObservedStore:
    return await ObservedStore.open(MemoryLog())


@contextmanager
def writing_as(request: int) -> Iterator[None]:
    """What is written in this block, and by what it starts, is written by this request."""
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


def write_on_as(request: int) -> None:
    """The same for the rest of the context."""
    _request.set(request)
