"""Queues to try things with, and what one worker does with them."""

import random
from datetime import timedelta
from typing import Any

from mainstay.api.retry_shape import RetryShape
from mainstay.loop.queue.core import Queue
from mainstay.loop.queue.items import DONE, Item, KeyRetry, KeyState, Outcome, QueueSettings

S = 1_000_000_000
SHAPE = RetryShape(attempts_max=3, first_delay=timedelta(seconds=4), delay_max=timedelta(minutes=1), jitter=0)


def a_queue(**changes: Any) -> Queue[str]:
    given: dict[str, Any] = {"retry": SHAPE, "resync": None}
    return Queue(QueueSettings(**(given | changes)), random.Random(1))


def take(queue: Queue[str], now_ns: int = 0) -> Item[str]:
    item = queue.get(now_ns)
    assert item is not None
    return item


def taken(queue: Queue[str], now_ns: int = 0, *, outcome: Outcome = DONE, at_most: int = 1000) -> list[str]:
    """The keys that one worker gets, in order, without any of them taking time."""
    keys = []
    for _ in range(at_most):
        if (item := queue.get(now_ns)) is None:
            break
        keys.append(item.key)
        queue.done(item.key, outcome, now_ns)
    return keys


def failed(queue: Queue[str], key: str, now_ns: int, retry: KeyRetry | None = None) -> KeyState:
    assert take(queue, now_ns).key == key
    return queue.done(key, retry or KeyRetry(), now_ns)
