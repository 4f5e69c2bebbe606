"""When the next key is due: one heap of entries and times.

Most times change before they are reached: a resync is put off each time a key is worked on. So an entry is left in the
heap at the time it had, and is put in again only when that time comes and turns out to be too early. Only when a time
moves *forward* a second place in the heap is taken, and the former one is void. When void places are half of the heap
it is built anew, so it has at most about two places for each entry and each step costs O(log n) on average.
"""

import heapq
import itertools
from typing import Final, Generic

from mainstay.loop.queue.items import K
from mainstay.loop.queue.lines import NEVER, Entry

VOID_MIN: Final = 64  # A small heap is not worth building anew.


class Timers(Generic[K]):
    """The entries that are due at some time. `entry.timer_ns` is the time of its valid place; only we set it."""

    def __init__(self) -> None:
        # The number decides between equal times: first come, first served.
        self._heap: list[tuple[int, int, Entry[K]]] = []
        self._numbers = itertools.count()
        self._valid = 0
        self.first_ns = NEVER
        """Nothing is due before this."""

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, entry: Entry[K]) -> None:
        """Wake this entry at its `due_ns` or `after_ns`, whichever comes first. Call it when one of them has moved."""
        time_ns = entry.due_ns if entry.due_ns < entry.after_ns else entry.after_ns
        if time_ns >= entry.timer_ns:
            return  # It is looked at before that; then it is put off.
        if entry.timer_ns == NEVER:
            self._valid += 1
        entry.timer_ns = time_ns
        heapq.heappush(self._heap, (time_ns, next(self._numbers), entry))
        if len(self._heap) > 2 * self._valid + VOID_MIN:
            self._heap = [place for place in self._heap if place[0] == place[2].timer_ns]
            heapq.heapify(self._heap)
        self.first_ns = self._heap[0][0]

    def forget(self, entry: Entry[K]) -> None:
        """Its places are void from now on."""
        if entry.timer_ns != NEVER:
            entry.timer_ns = NEVER
            self._valid -= 1

    def take(self, now_ns: int) -> Entry[K] | None:
        """An entry that is due, without a place in the heap now; None if there is none left. Call it until then."""
        while self._heap and self._heap[0][0] <= now_ns:
            time_ns, _, entry = heapq.heappop(self._heap)
            if time_ns != entry.timer_ns:
                continue
            entry.timer_ns = NEVER
            self._valid -= 1
            if min(entry.due_ns, entry.after_ns) <= now_ns:
                return entry
            self.set(entry)
        self.first_ns = self._heap[0][0] if self._heap else NEVER
        return None
