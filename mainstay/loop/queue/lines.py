"""Who is next: the lines in which ready keys stand, and the order in which they are served.

Each tenant has a line for each priority, first come first served, and a key stands in at most one line. The lines of
one priority form a *band*, in which they take turns: each may send as many keys in a row as its tenant's weight, then
it goes behind the others. A line that was empty joins behind them, too. So however many keys a tenant adds, and however
often a key is woken, it cannot get in front of those who wait.

The most urgent band is served first, except that one which was passed over `passed_over_max` times has a turn.

From this follows a bound, counted in turns and independent of time. A key with `ahead` keys before it in its line,
whose tenant has weight `w` while the other tenants of its band have weights that sum up to `others`, is served within

    (ahead + 1 + ⌈(ahead + 1) / w⌉ · others) · (passed_over_max + number of priorities)      turns

as long as its tenant is not held back for having too many keys processed at once. tests/loop/test_queue_fairness.py
checks it.

A key that is woken with a higher priority leaves its line and joins the other one at its end: it loses its place, but
in a band that is served before. How long it has waited counts from when it first got in line.

Not here: why a key is ready, and what happens to it afterwards (core.py).
"""

import heapq
import itertools
import sys
from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Generic

from mainstay.loop.queue.items import EnqueueReason, Item, K, Priority, TenantFigures

# A tenant without any keys is remembered for its figures, as long as there are not too many. A cluster can have any
# number of namespaces over the years.
TENANTS_MAX: Final = 1024
NEVER: Final = sys.maxsize
VOID_MIN: Final = 64  # A small heap is not worth building again.
_RESYNC: Final = EnqueueReason.RESYNC


class QueuedKey(Generic[K]):
    """What the queue knows about one key."""

    __slots__ = (
        "after_ns",
        "after_priority",
        "because",
        "due_because",
        "due_ns",
        "failures",
        "failures_counted",
        "failures_since_ns",
        "is_terminal",
        "item",
        "key",
        "latest",
        "line",
        "priority",
        "retry_soonest_ns",
        "revisions",
        "seen",
        "since_ns",
        "tenant",
        "timer_ns",
        "wakes",
        "was_moved",
    )

    def __init__(self, key: K, tenant: "Tenant[K]", priority: Priority) -> None:
        self.key = key
        self.tenant = tenant
        # In line, being processed, or neither; never both.
        self.line: ReadyLine[K] | None = None
        self.item: Item[K] | None = None
        # What has woken it since it was last handed out. No reason: nothing has. The priority goes with it.
        self.because: EnqueueReason | None = None
        self.priority = priority
        self.revisions: tuple[int, ...] = ()
        self.wakes = 0
        # The greatest of all revisions that woke it; NEVER if it was woken by something without one.
        self.latest = 0
        # When it got in line. Meaningless when it is in none.
        self.since_ns = 0
        self.was_moved = False
        # What the last outcome wants, and the earliest of what `add_after` wants; the latter outlives outcomes.
        self.due_ns = NEVER
        self.due_because = _RESYNC
        self.after_ns = NEVER
        self.after_priority = priority
        # Its place in the heap of timers; see timers.py.
        self.timer_ns = NEVER
        self.failures = 0
        self.failures_counted = 0
        self.failures_since_ns = 0
        self.retry_soonest_ns = 0
        self.is_terminal = False
        # While given up: changes up to this revision are no news.
        self.seen = 0


class ReadyLine(Generic[K]):
    """The ready keys of one tenant with one priority."""

    __slots__ = ("band", "credit", "entries", "is_placed", "tenant")

    def __init__(self, tenant: "Tenant[K]", band: "Band[K]") -> None:
        self.tenant = tenant
        self.band = band
        # Ordered, with removal from the middle. Entries hash by identity, and only the order of joining counts.
        self.entries: OrderedDict[QueuedKey[K], None] = OrderedDict()
        self.credit = 0
        # In the ring of its band, or among those of its tenant that are held back.
        self.is_placed = False


class Band(Generic[K]):
    """All lines of one priority."""

    __slots__ = ("passed_over", "priority", "ring")

    def __init__(self, priority: Priority) -> None:
        self.priority = priority
        # Lines that have ready keys, the next one first. One that lost its last key in another way than by being served
        # stays until its turn comes.
        self.ring: deque[ReadyLine[K]] = deque()
        self.passed_over = 0


class Tenant(Generic[K]):
    """A tenant's lines and how it fares."""

    __slots__ = ("held_back", "keys", "lines", "name", "processing", "taken", "wait_max_ns", "wait_total_ns", "weight")

    def __init__(self, name: str, weight: int, bands: "tuple[Band[K], ...]") -> None:
        self.name = name
        self.weight = weight
        self.lines = tuple(ReadyLine(self, band) for band in bands)
        self.held_back: list[ReadyLine[K]] = []
        self.keys = 0
        self.processing = 0
        self.taken = 0
        self.wait_total_ns = 0
        self.wait_max_ns = 0


class Lines(Generic[K]):
    """All lines of a queue."""

    def __init__(self) -> None:
        """`set` says by which rules, before the first entry."""
        self.ready = 0
        self.turns_after_passing_over = 0
        self._passed_over_max = NEVER
        self._weights: Mapping[str, int] = {}
        self._processing_max = NEVER
        # By priority as an index, and the most urgent first.
        self._bands: tuple[Band[K], ...] = tuple(Band(priority) for priority in sorted(Priority))
        self._bands_urgent_first = self._bands[::-1]
        self._tenants: dict[str, Tenant[K]] = {}
        # Those ready that are not in the order in which they became so. Kept for the age of the oldest one.
        self._moved: dict[QueuedKey[K], None] = {}

    def set(self, passed_over_max: int, weights: Mapping[str, int], processing_per_tenant_max: int | None) -> None:
        """By which rules from now on. A line that has its turn keeps the credit it has."""
        self._passed_over_max = passed_over_max
        self._weights = weights
        self._processing_max = NEVER if processing_per_tenant_max is None else processing_per_tenant_max
        for tenant in self._tenants.values():
            tenant.weight = weights.get(tenant.name, 1)
            self._place_held_back(tenant)

    def new_entry(self, key: K, tenant_name: str, priority: Priority) -> QueuedKey[K]:
        tenant = self._tenants.get(tenant_name) or self._new_tenant(tenant_name)
        tenant.keys += 1
        return QueuedKey(key, tenant, priority)

    def drop(self, entry: QueuedKey[K]) -> None:
        """Forget an entry that is in no line."""
        tenant = entry.tenant
        tenant.keys -= 1
        if not tenant.keys:
            self._forget_if_too_many(tenant)

    def enter(self, entry: QueuedKey[K], now_ns: int) -> None:
        """Put an entry at the end of its line."""
        entry.since_ns = now_ns
        self._join(entry)

    def move(self, entry: QueuedKey[K], tenant_name: str, priority: Priority) -> None:
        """Change where an entry belongs that is not being processed. If it is in line, it joins the other line at its
        end.
        """
        is_in_line = entry.line is not None
        if is_in_line:
            self._leave(entry)
        entry.priority = priority
        if entry.tenant.name != tenant_name:
            former, entry.tenant = entry.tenant, self._tenants.get(tenant_name) or self._new_tenant(tenant_name)
            entry.tenant.keys += 1
            former.keys -= 1
            if not former.keys:
                self._forget_if_too_many(former)
        if is_in_line:
            entry.was_moved = True
            self._moved[entry] = None
            self._join(entry)

    def take(self) -> QueuedKey[K] | None:
        """The next entry, which then counts as processed for its tenant, or None if none may be served."""
        served: ReadyLine[K] | None = None
        for band in self._bands_urgent_first:
            if not band.ring:
                continue
            line = band.ring[0]
            if not line.entries or line.tenant.processing >= self._processing_max:
                if not self._set_aside(band):
                    continue
                line = band.ring[0]
            if served is None:
                served = line
                continue
            # Of several that were passed over too often, the one for which it is longest ago. So each of them has its
            # turn, at most as many turns late as there are priorities.
            band.passed_over += 1
            if band.passed_over > self._passed_over_max and band.passed_over > served.band.passed_over:
                served = line
        if served is None:
            return None
        band = served.band
        if band.passed_over:
            self.turns_after_passing_over += band.passed_over > self._passed_over_max
            band.passed_over = 0
        entry, _ = served.entries.popitem(last=False)
        entry.line = None
        self.ready -= 1
        tenant = served.tenant
        tenant.processing += 1
        if not served.entries:
            band.ring.popleft()
            served.is_placed = False
        elif served.credit > 1:
            served.credit -= 1
        else:
            served.credit = tenant.weight
            band.ring.rotate(-1)
        if entry.was_moved:
            entry.was_moved = False
            del self._moved[entry]
        return entry

    def release(self, tenant: Tenant[K]) -> None:
        """An entry of this tenant is no longer being processed."""
        tenant.processing -= 1
        if tenant.held_back:
            self._place_held_back(tenant)

    def oldest_since_ns(self) -> int | None:
        """When the entry that is in line for the longest time got there."""
        return min(
            (since for tenant in self._tenants.values() if (since := self._find_oldest(tenant)) < NEVER), default=None
        )

    def ready_by_priority(self) -> dict[Priority, int]:
        counts = dict.fromkeys(sorted(Priority), 0)
        for tenant in self._tenants.values():
            for line in tenant.lines:
                counts[line.band.priority] += len(line.entries)
        return counts

    def tenants(self, now_ns: int) -> tuple[TenantFigures, ...]:
        return tuple(self._figures(self._tenants[name], now_ns) for name in sorted(self._tenants))

    def _new_tenant(self, name: str) -> Tenant[K]:
        tenant = self._tenants[name] = Tenant(name, self._weights.get(name, 1), self._bands)
        return tenant

    def _forget_if_too_many(self, tenant: Tenant[K]) -> None:
        # Called for one that has no keys any more, neither in line nor being processed.
        if len(self._tenants) <= TENANTS_MAX:
            return
        for line in tenant.lines:
            if line.is_placed:
                line.band.ring.remove(line)
        del self._tenants[tenant.name]

    def _join(self, entry: QueuedKey[K]) -> None:
        line = entry.line = entry.tenant.lines[entry.priority]
        line.entries[entry] = None
        self.ready += 1
        if not line.is_placed:
            self._place(line)

    def _place(self, line: ReadyLine[K]) -> None:
        line.is_placed = True
        line.credit = line.tenant.weight
        line.band.ring.append(line)

    def _place_held_back(self, tenant: Tenant[K]) -> None:
        """Let its lines be looked at again. Those that still may not be served are set aside again."""
        for line in tenant.held_back:
            line.is_placed = False
            if line.entries:
                self._place(line)
        tenant.held_back.clear()

    def _leave(self, entry: QueuedKey[K]) -> None:
        assert entry.line is not None
        del entry.line.entries[entry]
        entry.line = None
        self.ready -= 1

    def _set_aside(self, band: Band[K]) -> bool:
        """Bring a line to the front that may be served, past those that have nothing or are held back. False: none."""
        ring = band.ring
        while ring:
            line = ring[0]
            if not line.entries:
                line.is_placed = False
            elif line.tenant.processing >= self._processing_max:
                # It comes back in `release`. So each is set aside at most once for each key of it that is being
                # processed.
                line.tenant.held_back.append(line)
            else:
                return True
            ring.popleft()
        return False

    def _find_oldest(self, tenant: Tenant[K]) -> int:
        # A line is in the order of `since_ns`, apart from those that were moved.
        heads = [next(iter(line.entries)).since_ns for line in tenant.lines if line.entries]
        return min(heads + [entry.since_ns for entry in self._moved if entry.tenant is tenant], default=NEVER)

    def _figures(self, tenant: Tenant[K], now_ns: int) -> TenantFigures:
        ready = sum(len(line.entries) for line in tenant.lines)
        return TenantFigures(
            tenant=tenant.name,
            ready=ready,
            processing=tenant.processing,
            oldest_age=duration(now_ns - self._find_oldest(tenant)) if ready else timedelta(),
            taken=tenant.taken,
            wait_total=duration(tenant.wait_total_ns),
            wait_max=duration(tenant.wait_max_ns),
            is_held_back=ready > 0 and tenant.processing >= self._processing_max,
        )


class Timers(Generic[K]):
    """When the next key is due: one heap of entries and times. `entry.timer_ns` is the time of its valid place.

    Most times change before they are reached: a resync is put off each time a key is processed. So an entry is left in
    the heap at the time it had, and is put in again only when that time comes and turns out to be too early. Only when
    a time moves *forward* a second place in the heap is taken, and the former one is void. When void places are half of
    the heap it is built again, so it has at most about two places for each entry and each step costs O(log n) on
    average.
    """

    def __init__(self) -> None:
        # The number decides between equal times: first come, first served.
        self._heap: list[tuple[int, int, QueuedKey[K]]] = []
        self._numbers = itertools.count()
        self._valid = 0
        self.first_ns = NEVER
        """Nothing is due before this."""

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, entry: QueuedKey[K]) -> None:
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

    def forget(self, entry: QueuedKey[K]) -> None:
        """Its places are void from now on."""
        if entry.timer_ns != NEVER:
            entry.timer_ns = NEVER
            self._valid -= 1

    def take(self, now_ns: int) -> QueuedKey[K] | None:
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


def duration(nanoseconds: int) -> timedelta:
    return timedelta(microseconds=nanoseconds / 1000)


def nanoseconds(length: timedelta) -> int:
    return length // timedelta(microseconds=1) * 1000
