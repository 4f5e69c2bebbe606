"""How many keys a second does the work queue's core add, hand out and take back? Of `bench.runtime`.

Ten thousand keys of twenty tenants, each added with the revision that woke it. With resync, as by default, the queue
knows them all from the first round on; without, it forgets each one when it is done. A failing key costs a random
number and a place in a heap besides. One process, no loop, times passed in; the seed of the jitter is 7.
"""

import random
from collections.abc import Iterable
from typing import Final

from bench.measure import Figure, Stopwatch
from mainstay.api.object_key import ObjectKey
from mainstay.loop.queue.core import Queue
from mainstay.loop.queue.items import DONE, KeyRetry, Outcome, Priority, QueueSettings

SEED: Final = 7
KEYS: Final = 10_000
TENANTS: Final = 20
GOAL: Final = "≥ 250000"
_SECOND_NS: Final = 1_000_000_000
_AGAIN: Final = KeyRetry(counts=False)


def measure_queue(quick: bool) -> Iterable[Figure]:
    rounds = 5 if quick else 50
    yield _turns("work queue core: add, get, done", QueueSettings(), DONE, rounds, _SECOND_NS, GOAL)
    yield _turns("work queue core: the same, no resync", QueueSettings(resync=None), DONE, rounds, _SECOND_NS, "")
    # A round lasts longer than any delay, so that what has failed is due again.
    yield _turns("work queue core: add, get, retry", QueueSettings(), _AGAIN, rounds, 1000 * _SECOND_NS, "")


def _turns(name: str, settings: QueueSettings, outcome: Outcome, rounds: int, round_ns: int, goal: str) -> Figure:
    queue: Queue[ObjectKey] = Queue(settings, random.Random(SEED))
    keys = [(ObjectKey(f"team-{n % TENANTS}", f"pod-{n}"), f"team-{n % TENANTS}") for n in range(KEYS)]
    normal = Priority.NORMAL
    now_ns = revision = 0
    with Stopwatch() as watch:
        for _ in range(rounds):
            now_ns += round_ns
            for key, tenant in keys:
                revision += 1
                queue.add(key, now_ns, tenant, normal, revision)
            while (item := queue.get(now_ns)) is not None:
                queue.done(item.key, outcome, now_ns)
    if queue.figures(now_ns).taken != rounds * KEYS:
        raise AssertionError(f"{queue.figures(now_ns).taken} turns instead of {rounds * KEYS}")
    # By CPU time, which is what one core can do; wall time on a shared machine is what others leave over.
    return Figure(name, rounds * KEYS / watch.cpu_s, "/s of CPU", watch.cpu_s / (rounds * KEYS) * 1e6, goal)
