"""The core of a work queue: which key to look at next, and when.

A queue holds keys, never orders. A change adds the key of what it is about; a worker takes the key, reads what is there
now, and says how it went. Whatever happens to the key meanwhile is merged into one more look.

    add ──► ready ──── get ────► processing ─ done ─┬─► waiting, until a change, a timer or resync ──► ready
              ▲                    │ added          ├─► backing off ──► ready
              └────────────────────┘ meanwhile      ├─► terminal, until a change ──► ready
                                                    └─► forgotten

This is a plain state machine: no clock, no chance of its own, nothing awaited. Times are monotonic nanoseconds that the
caller passes in, and must not go back. So it can be tested in all its states, and runs the same in the simulator.
`work_queue.py` puts it to work; `lines.py` says who of the ready ones is next, and states the bound that keeps a
noisy tenant or key from starving others.

What it promises. One worker at a time has a key. A key that was added is handed out afterwards, or is terminal and says
so, as long as workers come and nothing drains. A key that keeps failing is tried less and less often, even when it
keeps changing, at most so many times, and not beyond a deadline. With resync no key is left alone for longer than that.

What it does not: that nothing is forgotten when the process ends. Keys are found again by listing what there is.
"""

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Final, Generic

from mainstay.loop.queue.items import (
    REVISIONS_MAX,
    Durations,
    EnqueueReason,
    Figures,
    Item,
    K,
    KeyDone,
    KeyFigures,
    KeyGone,
    KeyRetry,
    KeyState,
    KeyTerminal,
    Outcome,
    Priority,
    QueueSettings,
    WakeAfter,
)
from mainstay.loop.queue.lines import NEVER, Lines, QueuedKey, Timers, duration, nanoseconds

_SECOND_NS: Final = 1_000_000_000
_BUCKETS: Final = 64  # Of durations, by powers of two: more than a nanosecond and less than the age of the machine.

# As globals they are read four times as fast as from their class, and each key passes several of them.
_CHANGE: Final = EnqueueReason.CHANGE
_TIMER: Final = EnqueueReason.TIMER
_RESYNC: Final = EnqueueReason.RESYNC
_WAITING: Final = KeyState.WAITING
_READY: Final = KeyState.READY


class NotProcessing(Exception):
    """A worker is done with a key that it does not have: a bug of the worker."""


class Queue(Generic[K]):
    """Keys that have to be looked at."""

    def __init__(self, settings: QueueSettings, jitter: Random) -> None:
        self._jitter = jitter
        self._entries: dict[K, QueuedKey[K]] = {}
        self._processing: dict[K, QueuedKey[K]] = {}
        self._lines: Lines[K] = Lines()
        self._timers: Timers[K] = Timers()
        self._is_draining = False
        self._set(settings)
        self._retry_slot_ns = -NEVER
        # Totals.
        self._added = 0
        self._merged = 0
        self._refused = 0
        self._retries = 0
        self._became_terminal = 0
        self._resyncs = 0
        # Of the present.
        self._backing_off = 0
        self._terminal = 0
        self._wait = _Measured()
        self._work = _Measured()

    def _set(self, settings: QueueSettings) -> None:
        self.settings = settings
        self._lines.set(settings.passed_over_max, settings.weights, settings.processing_per_tenant_max)
        self._attempts_max = settings.retry.attempts_max
        deadline = settings.retry.deadline
        self._deadline_ns = NEVER if deadline is None else nanoseconds(deadline)
        self._resync_ns = None if settings.resync is None else nanoseconds(settings.resync)
        self._resync_spread_ns = settings.resync_spread * (self._resync_ns or 0)

    def change_settings(self, settings: QueueSettings, now_ns: int) -> None:
        """Go by other settings from now on. Backoffs that have begun stay as they are; a resync that would come too
        late comes sooner, or not at all.

        Without resync a queue forgets the keys that it is done with. Those come back only when they change.
        """
        former = self._resync_ns
        self._set(settings)
        if self._resync_ns == former:
            return
        for entry in list(self._entries.values()):
            if entry.due_ns == NEVER or entry.due_because is not _RESYNC or entry.failures:
                continue
            if self._resync_ns is not None:
                spread_ns = int(self._resync_spread_ns * self._jitter.random())
                entry.due_ns = min(entry.due_ns, now_ns + self._resync_ns - spread_ns)
                self._timers.set(entry)
            elif entry.after_ns == NEVER and entry.line is None and entry.item is None:
                self._drop(entry)
            else:
                entry.due_ns = NEVER

    def add(
        self, key: K, now_ns: int, tenant: str = "", priority: Priority = Priority.NORMAL, woken_by: int = 0
    ) -> bool:
        """Something has changed: look at this key. `woken_by` is the revision of the change, if it has one.

        False: not accepted, because the queue is draining. A key has one tenant, which changes only while no worker has
        the key.
        """
        if self._is_draining:
            self._refused += 1
            return False
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._lines.new_entry(key, tenant, priority)
        else:
            if tenant != entry.tenant.name:
                self._change_tenant(entry, tenant)
            if entry.because is None:
                entry.priority = priority
            elif priority > entry.priority:
                self._lines.move(entry, entry.tenant.name, priority)
        self._added += 1
        entry.wakes += 1
        if woken_by:
            entry.revisions = _with(entry.revisions, woken_by) if entry.revisions else (woken_by,)
            if woken_by > entry.latest:
                entry.latest = woken_by
        else:
            entry.latest = NEVER
        if entry.line is not None:
            self._merged += 1
        elif entry.item is not None:
            if entry.because is not None:
                self._merged += 1
        elif entry.failures == 0:
            self._lines.enter(entry, now_ns)
        elif entry.is_terminal:
            if entry.latest <= entry.seen:
                self._merged += 1
                return True
            self._terminal -= 1
            self._start_again(entry, now_ns)
        elif entry.retry_soonest_ns < entry.due_ns:
            entry.due_ns = entry.retry_soonest_ns
            self._timers.set(entry)
        entry.because = _CHANGE
        return True

    def add_after(
        self, key: K, now_ns: int, delay: timedelta, tenant: str = "", priority: Priority = Priority.NORMAL
    ) -> bool:
        """Look at this key after a while, even if it is looked at before that. Of several wishes the earliest counts.

        It does not bring back a terminal key, and does not hasten one that backs off. False: the queue drains.
        """
        if self._is_draining:
            self._refused += 1
            return False
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._lines.new_entry(key, tenant, priority)
        elif tenant != entry.tenant.name:
            self._change_tenant(entry, tenant)
        entry.after_priority = priority if entry.after_ns == NEVER else max(priority, entry.after_priority)
        entry.after_ns = min(entry.after_ns, now_ns + max(0, nanoseconds(delay)))
        self._timers.set(entry)
        return True

    def get(self, now_ns: int) -> Item[K] | None:
        """The next key, which is being processed until `done` is called for it. None: nothing is ready, or the queue
        drains.
        """
        if self._timers.first_ns <= now_ns:
            self.enqueue_due(now_ns)
        if self._is_draining:
            return None
        entry = self._lines.take()
        if entry is None:
            return None
        waited_ns = now_ns - entry.since_ns
        tenant = entry.tenant
        tenant.taken += 1
        tenant.wait_total_ns += waited_ns
        if waited_ns > tenant.wait_max_ns:
            tenant.wait_max_ns = waited_ns
            if waited_ns > self._wait.longest_ns:
                self._wait.longest_ns = waited_ns
        wait = self._wait
        wait.buckets[waited_ns.bit_length()] += 1
        wait.total_ns += waited_ns
        key = entry.key
        because = entry.because
        assert because is not None, f"{key} is ready without a reason"
        attempt = entry.failures_counted + 1
        is_late = attempt > 1 and now_ns - entry.failures_since_ns >= self._deadline_ns
        item = Item(
            key,
            tenant.name,
            entry.priority,
            because,
            entry.revisions,
            entry.wakes,
            attempt,
            is_late or attempt >= self._attempts_max,
            waited_ns,
            now_ns,
            is_late,
            entry.failures,
        )
        # From here on whatever wakes it is for the next time.
        entry.item = item
        entry.because = None
        entry.wakes = 0
        entry.revisions = ()
        entry.latest = 0
        entry.due_ns = NEVER
        if entry.after_ns <= now_ns:
            entry.after_ns = NEVER
        self._processing[key] = entry
        return item

    def done(self, key: K, outcome: Outcome, now_ns: int) -> KeyState:
        """The worker is done with a key. Says where the key is now.

        `TERMINAL` is for the worker to tell users of, unless it has done so already (`Item.is_last_attempt`).
        """
        entry = self._processing.pop(key, None)
        if entry is None or entry.item is None:
            raise NotProcessing(f"{key} is not being processed, but it is {self.state(key)}")
        item = entry.item
        entry.item = None
        self._lines.release(entry.tenant)
        work_ns = now_ns - item.taken_ns
        work = self._work
        work.buckets[work_ns.bit_length()] += 1
        work.total_ns += work_ns
        if work_ns > work.longest_ns:
            work.longest_ns = work_ns
        match outcome:
            case KeyDone():
                return self._settle(entry, now_ns, NEVER)
            case WakeAfter(delay):
                return self._settle(entry, now_ns, now_ns + max(0, nanoseconds(delay)))
            case KeyRetry():
                return self._retry(entry, item, outcome, now_ns)
            case KeyTerminal(seen):
                return self._give_up(entry, seen, now_ns)
            case KeyGone():
                return self._forget(entry, now_ns)

    def enqueue_due(self, now_ns: int) -> None:
        """Put in line whatever is due. `get` does so, too."""
        # Each entry at most twice: one that is woken here is due again only after it was processed.
        while (entry := self._timers.take(now_ns)) is not None:
            if entry.after_ns <= now_ns:
                entry.after_ns = NEVER
                if not entry.is_terminal:
                    self._wake(entry, _TIMER, entry.after_priority)
            if entry.due_ns <= now_ns:
                entry.due_ns = NEVER
                if entry.failures:
                    self._backing_off -= 1
                    self._retries += 1
                elif entry.due_because is _RESYNC:
                    self._resyncs += 1
                    self._wake(entry, _RESYNC, Priority.BACKGROUND)
                else:
                    self._wake(entry, _TIMER, entry.priority)
                if entry.line is None:
                    self._lines.enter(entry, now_ns)
            elif entry.line is None and entry.item is None and entry.failures == 0:
                self._lines.enter(entry, now_ns)
            self._timers.set(entry)

    def due_ns(self) -> int | None:
        """When `get` can have something that it does not have now, if nothing is added or done. Perhaps it will not."""
        first_ns = self._timers.first_ns
        return None if first_ns == NEVER else first_ns

    @property
    def ready(self) -> int:
        return self._lines.ready

    @property
    def processing(self) -> Sequence[K]:
        """The keys that workers have, the one taken first coming first."""
        return tuple(self._processing)

    @property
    def is_draining(self) -> bool:
        return self._is_draining

    def drain(self) -> None:
        """Accept nothing more and hand out nothing more. What is being processed can be done; the rest is left as it
        is.
        """
        self._is_draining = True

    def state(self, key: K) -> KeyState:
        entry = self._entries.get(key)
        return KeyState.FORGOTTEN if entry is None else _state(entry)

    def look(self, key: K) -> KeyFigures | None:
        """What there is to know about one key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        state = _state(entry)
        due_ns = min(entry.due_ns, entry.after_ns)
        in_line_ns = entry.since_ns if state is KeyState.READY else None
        return KeyFigures(
            state=state,
            tenant=entry.tenant.name,
            priority=entry.priority if entry.item is None else entry.item.priority,
            failures=entry.failures,
            attempts_left=self._attempts_max - entry.failures_counted,
            wakes=entry.wakes,
            since_ns=in_line_ns if entry.item is None else entry.item.taken_ns,
            due_ns=None if due_ns == NEVER else due_ns,
        )

    def figures(self, now_ns: int) -> Figures:
        oldest_ns = self._lines.oldest_since_ns()
        first = next(iter(self._processing.values()), None)
        taken_ns = now_ns if first is None or first.item is None else first.item.taken_ns
        return Figures(
            ready=self.ready,
            ready_by_priority=self._lines.ready_by_priority(),
            processing=len(self._processing),
            waiting=len(self._entries) - self.ready - len(self._processing) - self._terminal,
            backing_off=self._backing_off,
            terminal=self._terminal,
            oldest_age=timedelta() if oldest_ns is None else duration(now_ns - oldest_ns),
            oldest_processing_age=duration(now_ns - taken_ns),
            added=self._added,
            merged=self._merged,
            refused=self._refused,
            taken=sum(self._wait.buckets),
            retries=self._retries,
            became_terminal=self._became_terminal,
            resyncs=self._resyncs,
            passed_over=self._lines.turns_after_passing_over,
            wait=self._wait.figures(),
            work=self._work.figures(),
            is_draining=self._is_draining,
            tenants=self._lines.tenants(now_ns),
        )

    def _wake(self, entry: QueuedKey[K], because: EnqueueReason, priority: Priority) -> None:
        if entry.because is None:
            entry.because = because
            entry.priority = priority
        elif priority > entry.priority:
            self._lines.move(entry, entry.tenant.name, priority)

    def _change_tenant(self, entry: QueuedKey[K], tenant: str) -> None:
        # One that is being processed is counted with its tenant. It stays there until the key is named again.
        if entry.item is None:
            self._lines.move(entry, tenant, entry.priority)

    def _settle(self, entry: QueuedKey[K], now_ns: int, wake_ns: int) -> KeyState:
        """All went well."""
        if entry.failures:
            entry.failures = entry.failures_counted = 0
        if entry.because is not None:
            self._lines.enter(entry, now_ns)
            # Whatever else the worker has asked for, it will ask for again when it has looked once more.
            return _READY
        because = _TIMER
        if self._resync_ns is not None:
            resync_ns = now_ns + self._resync_ns - int(self._resync_spread_ns * self._jitter.random())
            if resync_ns < wake_ns:
                wake_ns = resync_ns
                because = _RESYNC
        elif wake_ns == NEVER and entry.after_ns == NEVER:
            return self._drop(entry)
        entry.due_ns = wake_ns
        entry.due_because = because
        if wake_ns < entry.timer_ns:
            self._timers.set(entry)
        return _WAITING

    def _retry(self, entry: QueuedKey[K], item: Item[K], retry: KeyRetry, now_ns: int) -> KeyState:
        shape = self.settings.retry
        jitter = self._jitter.random()
        entry.failures += 1
        if retry.counts:
            if entry.failures_counted == 0:
                entry.failures_since_ns = now_ns
            entry.failures_counted += 1
            if item.is_last_attempt:
                return self._give_up(entry, retry.seen, now_ns)
        has_changed = entry.because is not None
        # What woke the failed attempt is still to be dealt with.
        entry.because = entry.because or EnqueueReason.RETRY
        entry.priority = max(entry.priority, item.priority)
        entry.wakes += item.wakes
        woken_meanwhile, entry.revisions = entry.revisions, item.woken_by
        for revision in woken_meanwhile:
            entry.revisions = _with(entry.revisions, revision)
        asked_ns = now_ns + nanoseconds(retry.at_least)
        elapsed = duration(now_ns - entry.failures_since_ns) if entry.failures_counted else timedelta()
        backoff_ns = now_ns + nanoseconds(shape.delay_before_deadline(entry.failures, elapsed, jitter))
        entry.due_ns = max(backoff_ns, asked_ns, self._next_retry_slot_ns(now_ns))
        entry.due_because = EnqueueReason.RETRY
        entry.retry_soonest_ns = max(asked_ns, now_ns + nanoseconds(self.settings.change_after_failure))
        self._backing_off += 1
        if has_changed:
            entry.due_ns = min(entry.due_ns, entry.retry_soonest_ns)
        self._timers.set(entry)
        return KeyState.BACKING_OFF

    def _next_retry_slot_ns(self, now_ns: int) -> int:
        """The time before which the next retry may not start, so that all retries together keep to their rate."""
        interval_ns = _SECOND_NS // self.settings.retries_per_second
        burst_ns = interval_ns * self.settings.retries_burst
        self._retry_slot_ns = max(self._retry_slot_ns, now_ns - burst_ns) + interval_ns
        return self._retry_slot_ns

    def _give_up(self, entry: QueuedKey[K], seen: int, now_ns: int) -> KeyState:
        entry.failures = max(entry.failures, 1)
        if entry.because is not None and entry.latest > seen:
            # It has changed since the attempt that failed for good. That is what it would have waited for.
            self._start_again(entry, now_ns)
            return _READY
        self._became_terminal += 1
        self._terminal += 1
        entry.is_terminal = True
        entry.seen = seen
        entry.because = None
        return KeyState.TERMINAL

    def _start_again(self, entry: QueuedKey[K], now_ns: int) -> None:
        entry.is_terminal = False
        entry.failures = entry.failures_counted = 0
        self._lines.enter(entry, now_ns)

    def _forget(self, entry: QueuedKey[K], now_ns: int) -> KeyState:
        entry.failures = entry.failures_counted = 0
        entry.after_ns = NEVER
        if entry.because is not None:
            self._lines.enter(entry, now_ns)
            return KeyState.READY
        return self._drop(entry)

    def _drop(self, entry: QueuedKey[K]) -> KeyState:
        del self._entries[entry.key]
        entry.due_ns = NEVER
        self._timers.forget(entry)
        self._lines.drop(entry)
        return KeyState.FORGOTTEN


class _Measured:
    """Durations as they are counted: enough for totals, the longest, and percentiles within a factor of two."""

    __slots__ = ("buckets", "longest_ns", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * _BUCKETS
        self.total_ns = 0
        self.longest_ns = 0

    def figures(self) -> Durations:
        return Durations(sum(self.buckets), duration(self.total_ns), duration(self.longest_ns), tuple(self.buckets))


def _state(entry: QueuedKey[K]) -> KeyState:
    if entry.item is not None:
        return KeyState.PROCESSING
    if entry.line is not None:
        return KeyState.READY
    if entry.is_terminal:
        return KeyState.TERMINAL
    return KeyState.BACKING_OFF if entry.failures else KeyState.WAITING


def _with(revisions: tuple[int, ...], revision: int) -> tuple[int, ...]:
    """The first ones and the latest: those tell how long it has been waiting, and how much is known by now."""
    if revisions and revisions[-1] == revision:
        return revisions
    return (*revisions[: REVISIONS_MAX - 1], revision)
