"""A store in memory whose commits can be held up: what another writer does between a server's read and its commit."""

from collections.abc import Awaitable, Callable, Sequence

from mainstay.store.index import StoreIndex
from mainstay.store.interface import Check, Committed, Entry, TransactionRefused, Write
from mainstay.store.local import LocalStore
from mainstay.store.log import Log, MemoryLog

Meanwhile = Callable[[], Awaitable[object]]


class LateStore(LocalStore):
    def __init__(self, log: Log, index: StoreIndex) -> None:
        super().__init__(log, index)
        self._meanwhile: dict[str, Meanwhile] = {}
        self._after_get: dict[str, Meanwhile] = {}

    def before_commit(self, key: str, happens: Meanwhile) -> None:
        """Let something happen once: when the next commit that writes this key was decided, and before it is made."""
        self._meanwhile[key] = happens

    def after_get(self, prefix: str, happens: Meanwhile) -> None:
        """Let something happen once: when a key with this prefix was read, and before the reader has it."""
        self._after_get[prefix] = happens

    async def get(self, key: str, *, at: int | None = None) -> Entry | None:
        entry = await super().get(key, at=at)
        for prefix in [each for each in self._after_get if key.startswith(each)]:
            await self._after_get.pop(prefix)()
        return entry

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> Committed | TransactionRefused:
        for key in [write.key for write in writes if write.key in self._meanwhile]:
            await self._meanwhile.pop(key)()
        return await super().commit(checks, writes)


async def open_late() -> LateStore:
    return await LateStore.open(MemoryLog())
