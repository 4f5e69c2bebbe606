"""Which pods wait for a node, and which is next. A plain structure: no clock, no tasks; scheduler/cycle.py drives it.

    active ──take──► in hand ──bound──► no longer in the queue
      ▲                 │ refused by all nodes: unschedulable, waits for one of the cures that its refusals name
      │                 │ failed, or a cure came meanwhile: backs off
      └── due ◄─────────┘

The states of a pod are those of pod_states.py, kept by `PendingPods`; here are the lines and timers of those that wait.

A pod is refused by what its decision saw. What changes between that and its being parked must not be lost (kubernetes
#72122), so changes are numbered: the cycle asks for the `mark` before it decides, and a pod whose cure has come since
that mark does not wait for the next one. The cures are hints. A pod that waits is tried again after `flush_after`
whatever happens, and one that is woken too often is held back by its own backoff, not by that of others.

The order: the highest priority first; among equals the namespaces take turns, so that one with ten thousand pods does
not keep another one's single pod waiting; within a namespace, first come, first served. An unschedulable pod is not in
line, so it delays no other pod. A lower priority gets its turn when no higher one is in line, as in Kubernetes.

Pods are known by their uid: another pod of the same name is another pod.
"""

import heapq
import itertools
from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from mainstay.api.retry_shape import NO_BOUND, RetryShape
from mainstay.env.invariants import broken
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.queue.pending_pods import PendingPod, PendingPods
from mainstay.scheduler.queue.pod_states import IN_HAND, PodState
from mainstay.scheduler.reasons import Cure

_MICROSECOND: Final = timedelta(microseconds=1)
WOKEN_BY_MAX: Final = 8
_STALE_LEAST: Final = 1024  # Places among the timers that mean nothing any more: fewer are not worth clearing.
_CHECK_AFTER: Final = 1000  # All of the queue is checked after so many pods were taken, or ten times as many as it has.
BACKOFF: Final = RetryShape(  # A pod is tried for as long as it is there.
    attempts_max=NO_BOUND, first_delay=timedelta(seconds=1), delay_max=timedelta(seconds=10), jitter=0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingQueueSettings:
    backoff: RetryShape = BACKOFF
    flush_after: timedelta = timedelta(minutes=5)
    """A pod that waits for a cure is tried again after this, in case that a cure was not recognised as one."""
    check_after: int = _CHECK_AFTER
    """How many pods are taken between two checks of the whole queue, at least."""


@dataclass(slots=True)
class Incoming:
    """How pods got where they are, for metrics: by event and state, how often."""

    counts: dict[tuple[str, PodState], int] = field(default_factory=dict)

    def add(self, event: str, state: PodState) -> None:
        self.counts[event, state] = self.counts.get((event, state), 0) + 1


class _Line:
    """The active pods of one priority: a line for each namespace, and whose turn it is."""

    __slots__ = ("tenants", "turns")

    def __init__(self) -> None:
        self.tenants: dict[str, deque[tuple[int, PendingPod]]] = {}
        self.turns: deque[str] = deque()

    def add(self, ticket: int, queued: PendingPod) -> None:
        tenant = queued.pod.namespace
        line = self.tenants.get(tenant)
        if line is None:
            line = self.tenants[tenant] = deque()
            self.turns.append(tenant)
        line.append((ticket, queued))

    def take(self) -> PendingPod | None:
        while self.turns:
            tenant = self.turns[0]
            line = self.tenants[tenant]
            while line:
                ticket, queued = line.popleft()
                if ticket == queued.ticket:
                    self.turns.rotate(-1)
                    return queued
            del self.tenants[tenant]
            self.turns.popleft()
        return None


class SchedulingQueue:
    def __init__(self, settings: SchedulingQueueSettings | None = None, pods: PendingPods | None = None) -> None:
        settings = settings or SchedulingQueueSettings()
        self.pods = PendingPods() if pods is None else pods
        self._backoff = settings.backoff
        self._refused = replace(settings.backoff, delay_max=max(settings.backoff.first_delay, settings.flush_after))
        self._flush_ns = settings.flush_after // _MICROSECOND * 1000
        self._lines: dict[int, _Line] = {}
        self._priorities: list[int] = []
        """Those that have a line; the highest is last."""
        self._timers: list[tuple[int, int, PendingPod]] = []
        self._by_cure: dict[Cure, dict[str, PendingPod]] = {cure: {} for cure in Cure}
        self._last_change: dict[Cure, int] = dict.fromkeys(Cure, 0)
        self._changes = 0
        self._tickets = itertools.count(1)
        self._check_after = settings.check_after
        self._until_check = settings.check_after
        self.checks = 0
        self.incoming = Incoming()

    def __len__(self) -> int:
        """The pods that wait, and those in hand."""
        return len(self.pods) - self.pods.count(PodState.BOUND) - self.pods.count(PodState.MISSING)

    @property
    def mark(self) -> int:
        """The number of the last change. To be asked for before a decision, and given when the pod is parked."""
        return self._changes

    def new_mark(self) -> int:
        """The same, and no other decision has it: to be asked for if something will be assumed."""
        self._changes += 1
        return self._changes

    @property
    def next_due_ns(self) -> int | None:
        """When a pod gets in line by itself, at the earliest. It may be too early, never too late."""
        return self._timers[0][0] if self._timers else None

    # Pods come, change and go.

    def put(self, pod: PodToPlace, priority: int, now_ns: int, *, revision: int = 0, is_gated: bool = False) -> None:
        """A pod without a node is there, or is another than before. One that waits is tried again if what is wanted
        for it has changed, and is left alone if not: what is written into its status is no reason."""
        queued = self.pods.get(pod.uid)
        if queued is None:
            queued = self.pods.add(pod, priority, revision, now_ns)
            if is_gated:
                self.incoming.add("PodAdd", PodState.GATED)
            else:
                self._activate(queued, now_ns, "PodAdd", revision)
            return
        is_same = queued.pod.pod_class == pod.pod_class and queued.pod.charge.same(pod.charge)
        has_moved = queued.priority != priority
        queued.pod, queued.priority, queued.revision = pod, priority, revision
        if queued.state in IN_HAND:
            # The decision under way may have been about something else. If it fails, that says nothing.
            queued.is_outdated = queued.is_outdated or not is_same
            return
        if is_gated:
            if queued.state is not PodState.GATED:
                self._leave(queued, PodState.GATED)
            return
        if queued.state is PodState.GATED:
            queued.added_ns = now_ns  # Its wait begins now.
        if queued.state is PodState.GATED or not is_same or (has_moved and queued.state is PodState.ACTIVE):
            queued.failures = 0
            self._activate(queued, now_ns, "PodUpdate", revision)

    def remove(self, uid: str) -> PendingPod | None:
        """The cache shows a pod on its node, or it is gone, or not ours any more."""
        queued = self.pods.get(uid)
        if queued is not None:
            self._void_places(queued)
            self.pods.remove(uid)
        return queued

    # Taking, and what comes of it.

    def take(self, count: int, now_ns: int) -> list[PendingPod]:
        """The next pods, at most so many. Each is in hand until it is parked, put back, bound or removed."""
        self._due(now_ns)
        found: list[PendingPod] = []
        while self._priorities and len(found) < count:
            priority = self._priorities[-1]
            line = self._lines[priority]
            queued = line.take()
            if queued is None:
                del self._lines[priority]
                self._priorities.pop()
                continue
            queued.attempts += 1
            queued.is_outdated = False
            queued.ticket = next(self._tickets)
            self.pods.move(queued, PodState.DECIDING)
            found.append(queued)
        self._until_check -= len(found)
        if self._until_check <= 0:
            self.check()
        return found

    def has_active(self, now_ns: int) -> bool:
        self._due(now_ns)
        return self.pods.count(PodState.ACTIVE) > 0

    def park(self, uid: str, cures: Sequence[Cure], mark: int, now_ns: int) -> PodState | None:
        """All nodes refuse a pod that is in hand. It waits for a cure; if one has come since the mark, it only backs
        off. Returns its state; None if it is gone."""
        queued = self._come_back(uid)
        if queued is None:
            return None
        queued.failures += 1
        queued.refused_ns = now_ns
        if queued.is_outdated:
            self._activate(queued, now_ns, "PodUpdate", 0)
        elif any(self._last_change[cure] > mark for cure in cures):
            self._back_off(queued, now_ns, "ScheduleAttemptFailure")
        else:
            self._wait_for(queued, cures, mark, now_ns + self._flush_ns)
        return queued.state

    def park_refused(self, uid: str, cures: Sequence[Cure], now_ns: int) -> None:
        """The server refuses a pod that is in hand wherever we would put it: it knows what we do not. So not every
        cure can be seen from here, and it is tried again by itself: soon at first, then at longer and longer
        intervals, and at the latest as all that wait."""
        queued = self._come_back(uid)
        if queued is None:
            return
        queued.failures += 1
        queued.refused_ns = now_ns
        if queued.is_outdated:
            self._activate(queued, now_ns, "PodUpdate", 0)
            return
        wait_ns = _wait_ns(self._refused, queued.failures)
        self._wait_for(queued, cures, self._changes, now_ns + min(wait_ns, self._flush_ns))

    def back_off(self, uid: str, now_ns: int) -> None:
        """It failed, and not because of what nodes are like: try again later."""
        queued = self._come_back(uid)
        if queued is not None:
            queued.failures += 1
            queued.refused_ns = now_ns
            self._back_off(queued, now_ns, "ScheduleAttemptFailure")

    def put_back(self, uid: str, now_ns: int) -> None:
        """Try it again at once. The caller bounds how often."""
        queued = self._come_back(uid)
        if queued is not None:
            self._activate(queued, now_ns, "BindingRefused", 0)

    # Changes.

    def changed(self, cures: Iterable[Cure], now_ns: int, revision: int = 0, *, since: int = 0) -> None:
        """Something happened that may be a cure: wake those that wait for it.

        With `since`, only those that were decided about at that mark or later. What was assumed and is taken back is
        news only to those who were refused because of it. Else pods that the server refuses again and again would
        wake each other for ever.
        """
        self._changes += 1
        for cure in cures:
            self._last_change[cure] = self._changes
            waiting = self._by_cure[cure]
            if waiting:
                for queued in [each for each in waiting.values() if each.mark >= since]:
                    self._note(queued, revision)
                    self._wake(queued, now_ns, str(cure))

    # Invariants.

    def check(self) -> None:
        """All of it: every pending pod is in exactly one place, the one that its state says."""
        self.checks += 1
        self._until_check = max(self._check_after, 10 * len(self.pods))
        self.pods.check(self._in_line(), (each[2] for each in self._timers if each[1] == each[2].ticket))
        for cure, waiting in self._by_cure.items():
            for uid, queued in waiting.items():
                if self.pods.get(uid) is not queued or cure not in queued.cures:
                    raise broken("only unschedulable pods wait for cures", f"pod {queued.key}", state=queued.state)

    def _in_line(self) -> Iterator[PendingPod]:
        for line in self._lines.values():
            for tenant in line.tenants.values():
                yield from (queued for ticket, queued in tenant if ticket == queued.ticket)

    # Inside.

    def _due(self, now_ns: int) -> None:
        timers = self._timers
        while timers and timers[0][0] <= now_ns:
            _, ticket, queued = heapq.heappop(timers)
            if ticket == queued.ticket:
                event = "BackoffComplete" if queued.state is PodState.BACKING_OFF else "UnschedulableTimeout"
                self._activate(queued, now_ns, event, 0)

    def _wake(self, queued: PendingPod, now_ns: int, event: str) -> None:
        due_ns = queued.refused_ns + _wait_ns(self._backoff, queued.failures)
        if due_ns <= now_ns:
            self._activate(queued, now_ns, event, 0)
        else:
            self._leave(queued, PodState.BACKING_OFF)
            self._timer(queued, due_ns)
            self.incoming.add(event, PodState.BACKING_OFF)

    def _wait_for(self, queued: PendingPod, cures: Sequence[Cure], mark: int, due_ns: int) -> None:
        queued.cures, queued.mark = tuple(cures), mark
        for cure in cures:
            self._by_cure[cure][queued.uid] = queued
        self.pods.move(queued, PodState.UNSCHEDULABLE)
        self._timer(queued, due_ns)
        self.incoming.add("ScheduleAttemptFailure", PodState.UNSCHEDULABLE)

    def _back_off(self, queued: PendingPod, now_ns: int, event: str) -> None:
        self.pods.move(queued, PodState.BACKING_OFF)
        self._timer(queued, now_ns + _wait_ns(self._backoff, queued.failures))
        self.incoming.add(event, PodState.BACKING_OFF)

    def _activate(self, queued: PendingPod, now_ns: int, event: str, revision: int) -> None:
        self._leave(queued, PodState.ACTIVE)
        self._note(queued, revision)
        queued.queued_ns = now_ns
        queued.ticket = next(self._tickets)
        line = self._lines.get(queued.priority)
        if line is None:
            line = self._lines[queued.priority] = _Line()
            insort(self._priorities, queued.priority)
        line.add(queued.ticket, queued)
        self.incoming.add(event, PodState.ACTIVE)

    def _come_back(self, uid: str) -> PendingPod | None:
        """A pod that was in hand. What woke it before is recorded with the decision that was made."""
        queued = self.pods.get(uid)
        if queued is not None:
            if queued.state not in IN_HAND:
                raise broken("only a pod in hand comes back to the queue", f"pod {queued.key}", state=queued.state)
            queued.woken_by, queued.wakes = (), 0
        return queued

    def _void_places(self, queued: PendingPod) -> None:
        """Where it waited it waits no more."""
        for cure in queued.cures:
            self._by_cure[cure].pop(queued.uid, None)
        queued.cures = ()
        queued.ticket = next(self._tickets)

    def _leave(self, queued: PendingPod, state: PodState) -> None:
        self._void_places(queued)
        self.pods.move(queued, state)

    def _timer(self, queued: PendingPod, due_ns: int) -> None:
        queued.ticket = next(self._tickets)
        heapq.heappush(self._timers, (due_ns, queued.ticket, queued))
        if len(self._timers) > _STALE_LEAST + 2 * len(self.pods):
            self._timers = [each for each in self._timers if each[1] == each[2].ticket]
            heapq.heapify(self._timers)

    @staticmethod
    def _note(queued: PendingPod, revision: int) -> None:
        if revision:
            queued.woken_by = (*queued.woken_by[-(WOKEN_BY_MAX - 1) :], revision)
        queued.wakes += 1


def _wait_ns(shape: RetryShape, failures: int) -> int:
    return shape.delay(max(failures, 1), 0) // _MICROSECOND * 1000
