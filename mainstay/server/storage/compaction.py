"""Letting the store forget: history older than a few minutes, which no watcher that is worth waiting for still needs.

Times are not stored with revisions, so each server notes which revision it saw when, and asks for compaction up to what
was current a while ago. Several servers over one etcd may all do so. The store itself does not go past what is
held, such as the journal what it has not made durable.
"""

import logging
from collections import deque
from datetime import timedelta
from typing import Final

from mainstay.env import Clock, tasks
from mainstay.store.errors import StoreError
from mainstay.store.interface import Store

LOOK_EVERY: Final = timedelta(minutes=1)
KEEP: Final = timedelta(minutes=5)  # As Kubernetes.

_log = logging.getLogger(__name__)


async def compact_regularly(store: Store, clock: Clock) -> None:
    """Until cancelled."""
    seen: deque[tuple[int, int]] = deque()
    keep_ns = KEEP // timedelta(microseconds=1) * 1000
    while True:
        try:
            now_ns = clock.monotonic_ns()
            seen.append((now_ns, await store.revision()))
            old_enough = 0
            while seen and seen[0][0] <= now_ns - keep_ns:
                old_enough = seen.popleft()[1]
            if old_enough:
                await store.compact(old_enough)
        except StoreError as error:
            _log.warning("cannot compact the store; retrying in %s: %s", LOOK_EVERY, error)
        await tasks.sleep(LOOK_EVERY)
