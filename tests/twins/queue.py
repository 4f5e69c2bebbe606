"""Bugs that a work queue could have."""

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.loop.queue.core import Queue
from mainstay.loop.queue.items import Priority
from mainstay.loop.queue.lines import Lines, QueuedKey, ReadyLine
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.loop.queue_settings import LiveQueueSettings

Twin = Callable[[pytest.MonkeyPatch], None]


def serves_the_newest_key_first(patch: pytest.MonkeyPatch) -> None:
    honest = Lines._join

    def join(self: Lines[Any], entry: QueuedKey[Any]) -> None:
        honest(self, entry)
        assert entry.line is not None
        entry.line.entries.move_to_end(entry, last=False)

    patch.setattr(Lines, "_join", join)


def serves_one_tenant_until_it_has_nothing_left(patch: pytest.MonkeyPatch) -> None:
    honest = Lines._place

    def place(self: Lines[Any], line: ReadyLine[Any]) -> None:
        honest(self, line)
        line.credit = 1_000_000

    patch.setattr(Lines, "_place", place)


def serves_only_the_most_urgent(patch: pytest.MonkeyPatch) -> None:
    honest = Lines.take

    def take(self: Lines[Any]) -> QueuedKey[Any] | None:
        for band in self._bands:
            band.passed_over = 0
        return honest(self)

    patch.setattr(Lines, "take", take)


UNFAIR: list[Twin] = [
    serves_the_newest_key_first,
    serves_one_tenant_until_it_has_nothing_left,
    serves_only_the_most_urgent,
]


def forgets_what_happened_while_it_was_processing(patch: pytest.MonkeyPatch) -> None:
    honest = Queue._settle

    def settle(self: Queue[Any], entry: QueuedKey[Any], now_ns: int, wake_ns: int) -> Any:
        entry.because = None
        return honest(self, entry, now_ns, wake_ns)

    patch.setattr(Queue, "_settle", settle)


def hands_out_what_is_processing(patch: pytest.MonkeyPatch) -> None:
    honest = Queue.add

    def add(self: Queue[Any], key: Any, now_ns: int, *rest: Any) -> bool:
        is_accepted = honest(self, key, now_ns, *rest)
        entry = self._entries[key]
        if entry.line is None and entry.item is not None:
            self._lines.enter(entry, now_ns)
        return is_accepted

    patch.setattr(Queue, "add", add)


def gives_up_although_it_has_changed(patch: pytest.MonkeyPatch) -> None:
    honest = Queue._give_up
    patch.setattr(Queue, "_give_up", lambda self, entry, seen, now_ns: honest(self, entry, 1 << 62, now_ns))


FORGETFUL: list[Twin] = [
    forgets_what_happened_while_it_was_processing,
    hands_out_what_is_processing,
    gives_up_although_it_has_changed,
]


# For the async handle (tests/loop/test_work_queue.py).


def does_not_pass_on_the_wake_of_a_worker_that_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    honest = WorkQueue._wait

    async def wait(self: WorkQueue[Any]) -> None:
        wake = self._wake
        patch.setattr(self, "_wake", lambda count: None)
        try:
            await honest(self)
        finally:
            patch.setattr(self, "_wake", wake)

    patch.setattr(WorkQueue, "_wait", wait)


def sets_its_timer_only_for_the_first_one_that_waits(patch: pytest.MonkeyPatch) -> None:
    honest = WorkQueue._set_timer

    def set_timer(self: WorkQueue[Any], due_ns: int | None) -> None:
        if self._timer is None:
            honest(self, due_ns)

    patch.setattr(WorkQueue, "_set_timer", set_timer)


def wakes_everybody(patch: pytest.MonkeyPatch) -> None:
    def wake(self: WorkQueue[Any], count: int) -> None:
        while self._waiting:
            self._coming += 1
            self._waiting.popleft().set_result(None)

    patch.setattr(WorkQueue, "_wake", wake)


def treats_all_keys_alike(patch: pytest.MonkeyPatch) -> None:
    """Whatever a controller says is urgent."""
    honest = WorkQueue.add

    def add(self: WorkQueue[Any], key: Any, **options: Any) -> bool:
        return honest(self, key, **{**options, "priority": Priority.NORMAL})

    patch.setattr(WorkQueue, "add", add)


def keeps_the_settings_it_began_with(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LiveQueueSettings, "_changed", lambda self, change: None)
