"""The queues of one priority level: whose request is next.

Start-time fair queuing. Each queue has a tag, the virtual time at which its next request may start; to handle a request
moves the tag on by what the request costs. The queue with the smallest tag is next, and its tag is the virtual time of
all. So queues that always have requests get equal shares of the work, a queue that was empty begins at the present
time and not with what it has saved, and a request waits for at most one of each other queue of its cost.

Flows are dealt queues by shuffle sharding: each flow has a hand of a few, chosen by its hash, and a request goes to the
one of these with the least work. A flow that floods fills the queues of its own hand, and few others have the same.

Pure: no clock, no waiting. What a request costs is guessed when it begins and put right when it ends.
"""

from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


@dataclass(slots=True, eq=False)
class FairQueue(Generic[ItemT]):
    """First in, first out."""

    number: int
    tag: float = 0.0
    items: "deque[QueuedItem[ItemT]]" = field(default_factory=deque)
    cost: float = 0.0
    """Of all that wait in it."""

    def correct(self, cost: float) -> None:
        """A request that was taken from here has cost so much more than guessed, or less."""
        self.tag += cost


@dataclass(slots=True, eq=False)
class QueuedItem(Generic[ItemT]):
    item: ItemT
    cost: float
    order: int
    queue: FairQueue[ItemT]


class FairQueues(Generic[ItemT]):
    """`hand_size` of `queues` for each flow, none longer than `length_max`."""

    def __init__(self, queues: int, hand_size: int, length_max: int) -> None:
        self._count = queues
        self._hand_size = hand_size
        self._length_max = length_max
        self._queues: dict[int, FairQueue[ItemT]] = {}  # Those that were ever used.
        self._active: dict[int, FairQueue[ItemT]] = {}  # Those that are not empty.
        self._now = 0.0
        self._arrived = 0
        self._first: QueuedItem[ItemT] | None = None  # What `head` found, until something changes.
        self.waiting = 0

    def has_room(self, flow: int) -> bool:
        """Whether `push` would take a request of a flow."""
        return len(self._choose(flow).items) < self._length_max

    def push(self, flow: int, item: ItemT, cost: float) -> QueuedItem[ItemT] | None:
        """Queue a request of a flow, given as its hash. None if the queue is full."""
        queue = self._choose(flow)
        if len(queue.items) >= self._length_max:
            return None
        self._arrived += 1
        queued = QueuedItem(item, cost, self._arrived, queue)
        queue.items.append(queued)
        queue.cost += cost
        self._active[queue.number] = queue
        self.waiting += 1
        self._first = None
        return queued

    def head(self) -> QueuedItem[ItemT] | None:
        """The next request. None if none waits."""
        if self._first is None and self._active:
            queue = min(self._active.values(), key=lambda each: (max(each.tag, self._now), each.items[0].order))
            self._first = queue.items[0]
        return self._first

    def take(self, queued: QueuedItem[ItemT]) -> None:
        """Begin with the request that `head` has found."""
        queue = queued.queue
        self._now = max(queue.tag, self._now)
        queue.tag = self._now + queued.cost
        self.remove(queued)

    def remove(self, queued: QueuedItem[ItemT]) -> None:
        """It does not wait any longer."""
        queue = queued.queue
        queue.items.remove(queued)
        queue.cost -= queued.cost
        self.waiting -= 1
        self._first = None
        if not queue.items:
            queue.cost = 0.0
            del self._active[queue.number]

    def _choose(self, flow: int) -> FairQueue[ItemT]:
        hand = [self._queue(number) for number in deal(flow, self._count, self._hand_size)]
        return min(hand, key=lambda each: (each.cost, len(each.items)))

    def _queue(self, number: int) -> FairQueue[ItemT]:
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = FairQueue(number)
        return queue


def hash_flow(schema: str, distinguisher: str) -> int:
    """The hash of a flow: the requests of one schema that are told apart from others by user or namespace."""
    digest = blake2b(f"{schema}\0{distinguisher}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 4


def deal(flow: int, queues: int, hand_size: int) -> list[int]:
    """The hand of a flow: so many different queues, each as likely as any other."""
    hand: list[int] = []
    for dealt in range(hand_size):
        flow, card = divmod(flow, queues - dealt)
        # The card counts among those that were not dealt.
        for taken in sorted(hand):
            card += taken <= card
        hand.append(card)
    return hand
