"""Bugs that a reflector, its pump and a cache could have."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainstay.client import cache, informer, pump, reflector
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change, ChangeType
from mainstay.client.reflector import ApplyChange, Instructions, Reflector, ReflectorFault, ReflectorPhase, WaitFor

Twin = Callable[[pytest.MonkeyPatch], None]


def keeps_what_is_missing_from_a_state(patch: pytest.MonkeyPatch) -> None:
    honest = Cache.replace

    def replace(self: Cache, entries: Iterable[CachedObject], revision: int, **options: Any) -> Sequence[Change]:
        held = {entry.key: entry for entry in self.entries()}
        return honest(self, (held | {entry.key: entry for entry in entries}).values(), revision, **options)

    patch.setattr(Cache, "replace", replace)


def takes_a_name_for_an_object(patch: pytest.MonkeyPatch) -> None:
    def put(self: Cache, old: CachedObject | None, entry: CachedObject, revision: int) -> tuple[Change, ...]:
        self._add(entry)
        change = ChangeType.ADDED if old is None else ChangeType.MODIFIED
        return (Change(self.kind, entry.key, change, old, entry, revision),)

    patch.setattr(Cache, "_put", put)


def goes_on_after_what_has_expired(patch: pytest.MonkeyPatch) -> None:
    """It asks for what comes next, as it would after any other failure, until a server lets it."""
    honest = Reflector.failed

    def failed(self: Reflector, fault: ReflectorFault, **options: Any) -> Instructions:
        return honest(self, ReflectorFault.UNAVAILABLE if fault is ReflectorFault.EXPIRED else fault, **options)

    patch.setattr(Reflector, "failed", failed)


def applies_whatever_comes(patch: pytest.MonkeyPatch) -> None:
    def old_event(self: Reflector, change: ChangeType, entry: CachedObject) -> Instructions:
        return (ApplyChange(entry, change is ChangeType.DELETED),)

    patch.setattr(Reflector, "_old_event", old_event)


def believes_an_older_state(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reflector, "REWIND_AFTER", 0)


def drops_whatever_is_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reflector, "_old_event", lambda self, change, entry: ())


def takes_half_a_state_for_all_of_it(patch: pytest.MonkeyPatch) -> None:
    honest = Reflector.failed

    def failed(self: Reflector, fault: ReflectorFault, **options: Any) -> Instructions:
        if self.phase is ReflectorPhase.STREAMING_STATE and self._gathered:
            return (*self._replace(max(entry.revision for entry in self._gathered.values())), *self._resume_later())
        return honest(self, fault, **options)

    patch.setattr(Reflector, "failed", failed)


def waits_for_ever_for_a_dead_connection(patch: pytest.MonkeyPatch) -> None:
    honest = pump.Pump

    def patient(*args: Any, **options: Any) -> Any:
        return honest(*args, **{**options, "silence_max": timedelta(days=365)})

    patch.setattr(informer, "Pump", patient)


def lists_again_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WaitFor, "delay", lambda self, jitter: timedelta(milliseconds=1))


def comes_back_for_the_same_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reflector, "IN_VAIN_MAX", 10**9)


def says_it_is_where_it_only_was_told_to_go(patch: pytest.MonkeyPatch) -> None:
    """Objects that have changed since are left as they were."""
    honest = Cache.replace

    def replace(self: Cache, entries: Iterable[CachedObject], revision: int, **options: Any) -> Sequence[Change]:
        held = {entry.key: entry for entry in self.entries()}
        return honest(self, [held.get(entry.key, entry) for entry in entries], revision, **options)

    patch.setattr(Cache, "replace", replace)


def forgets_to_leave_an_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cache._Table, "remove", lambda self, key, values: None)
