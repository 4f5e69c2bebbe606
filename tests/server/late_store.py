"""A store in memory whose commits can be held up: what another writer does between a server's read and its commit."""

from collections.abc import Awaitable, Callable, Sequence

from mainstay.store.index import StoreIndex
from mainstay.store.interface import Check, Committed, TransactionRefused, Write
from mainstay.store.local import LocalStore
from mainstay.store.log import Log, MemoryLog

Meanwhile = Callable[[], Awaitable[object]]


class LateStore(LocalStore):
    def __init__(self, log: Log, index: StoreIndex) -> None:
        super().__init__(log, index)
        self._meanwhile: dict[str, Meanwhile] = {}

    def before_commit(self, key: str, happens: Meanwhile) -> None:
        """Let something happen once: when the next commit that writes this key was decided, and before it is made."""
        self._meanwhile[key] = happens

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
        for key in [write.key for write in writes if write.key in self._meanwhile]:
            await self._meanwhile.pop(key)()
        return await super().commit(checks, writes)


async def open_late() -> LateStore:
    return await LateStore.open(MemoryLog())
