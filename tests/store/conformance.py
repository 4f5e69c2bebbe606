"""Short forms of a store's calls, for the tests of every store."""

from mainstay.store.interface import (
    Committed,
    DeleteEntry,
    KeyChange,
    Put,
    Store,
    StoreWatch,
)


async def put(store: Store, key: str, value: bytes = b"value") -> int:
    answer = await store.commit([], [Put(key, value)])
    assert isinstance(answer, Committed)
    return answer.revision


async def delete(store: Store, key: str) -> int:
    answer = await store.commit([], [DeleteEntry(key)])
    assert isinstance(answer, Committed)
    return answer.revision


async def keys(store: Store, prefix: str, at: int | None = None) -> list[str]:
    return [entry.key for entry in (await store.range(prefix, at=at)).entries]


async def read(watch: StoreWatch, count: int) -> list[KeyChange]:
    """The next `count` changes. Checks on the way that batches are whole and in order."""
    changes: list[KeyChange] = []
    reached = 0
    while len(changes) < count:
        batch = await anext(watch)
        assert all(change.revision > reached for change in batch.changes)
        assert batch.revision >= batch.changes[-1].revision
        reached = batch.revision
        changes += batch.changes
    assert len(changes) == count
    return changes
