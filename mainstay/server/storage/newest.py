"""What is at a key now, with what is staged: to decide a commit from, that checks it.

Unlike `SharedWrites.read` it remembers nothing: whoever is told to decide anew has to see what has changed.
"""

from collections.abc import Callable

from mainstay.store.interface import Entry, Store


async def newest(store: Store, key: str) -> Entry | None:
    look: Callable[[str], Entry | None] | None = getattr(store, "newest", None)
    return await store.get(key) if look is None else look(key)
