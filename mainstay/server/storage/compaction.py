"""Letting the store forget: history older than a few minutes, which no watcher that is worth waiting for still needs.

Times are not stored with revisions, so each server notes which revision it saw when, and asks for compaction up to what
was current a while ago. Several servers over one etcd may all do so. The store itself does not go past what is
held, such as the journal what it has not made durable.

A local store has its history in memory: of that, no more than `HISTORY_BYTES_MAX` are kept for long. Six hundred
patches of an object of 1 MB would otherwise be 600 MB. What was freed is given back to the system. A journal whose disk
does not keep up may hold more than that, but not more than `HELD_BYTES_MAX`: then the store forgets all the same, and
the journal notes a gap.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from mainstay.env import Clock, tasks
from mainstay.store.errors import StoreError
from mainstay.store.interface import Store
from mainstay.store.local import LocalStore

LOOK_EVERY: Final = timedelta(minutes=1)
KEEP: Final = timedelta(minutes=5)  # As Kubernetes.
HISTORY_BYTES_MAX: Final = 64 * 1024 * 1024
HELD_BYTES_MAX: Final = 4 * HISTORY_BYTES_MAX
HISTORY_LOOKED_AT_EVERY: Final = timedelta(seconds=1)

_log = logging.getLogger(__name__)


async def compact_regularly(
    store: Store, clock: Clock, release_memory: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Until cancelled."""
    seen: deque[tuple[int, int]] = deque()
    look_every_ns = LOOK_EVERY // timedelta(microseconds=1) * 1000
    looked_ns: int | None = None
    while True:
        now_ns = clock.monotonic_ns()
        target = 0
        try:
            if isinstance(store, LocalStore):
                target = await _compact_held(store) or _find_large_history(store)
            if looked_ns is None or now_ns - looked_ns >= look_every_ns:
                looked_ns = now_ns
                seen.append((now_ns, await store.revision()))
                target = max(target, take_expired(seen, now_ns))
            if target:
                await store.compact(target)
                if release_memory is not None:
                    await release_memory()
        except StoreError as error:
            _log.warning("cannot compact the store; retrying in %s: %s", LOOK_EVERY, error)
            await tasks.sleep(LOOK_EVERY)
        await tasks.sleep(HISTORY_LOOKED_AT_EVERY)


def take_expired(seen: deque[tuple[int, int]], now_ns: int) -> int:
    """The newest revision that is old enough to compact to, taken out of those seen with all before it. 0: none is."""
    expired = 0
    while seen and seen[0][0] <= now_ns - KEEP // timedelta(microseconds=1) * 1000:
        expired = max(expired, seen.popleft()[1])
    return expired


async def _compact_held(store: LocalStore) -> int:
    """Compact what is held, too, if it takes too much memory. Returns up to where. 0: it does not."""
    if store.history_bytes <= HELD_BYTES_MAX:
        return 0
    target = store.find_recent(HISTORY_BYTES_MAX)
    _log.error(
        "the history takes %d bytes of memory: forgetting what the journal has not recorded", store.history_bytes
    )
    await store.compact(target, ignores_holds=True)
    return target


def _find_large_history(store: LocalStore) -> int:
    """The revision to compact to because the history takes too much memory. 0: it does not."""
    return store.find_recent(HISTORY_BYTES_MAX // 2) if store.history_bytes > HISTORY_BYTES_MAX else 0
