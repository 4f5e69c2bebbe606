"""Bugs that only the rarer faults bring to light: half-open connections, servers that live in the past, full disks,
conflicts, wrong clocks, other versions."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainstay.client import reflector
from mainstay.client.pump import Pump
from mainstay.controllers.pods import adoption
from mainstay.controllers.pods.slots import parse_slot
from mainstay.controllers.replicaset import controller
from mainstay.env.disk import DiskFull
from mainstay.store.disk_log import FILE, DiskLog
from mainstay.store.errors import StorageFull

Twin = Callable[[pytest.MonkeyPatch], None]


def takes_no_silent_watch_for_dead(patch: pytest.MonkeyPatch) -> None:
    """It waits for as long as TCP does: a quarter of an hour and more."""
    honest = Pump.__init__

    def init(self: Pump, *args: Any, **options: Any) -> None:
        honest(self, *args, **options | {"silence_max": timedelta(days=1)})

    patch.setattr(Pump, "__init__", init)


def believes_whatever_state_it_is_shown(patch: pytest.MonkeyPatch) -> None:
    """A state that is older than what it knows is news to it, at once."""
    patch.setattr(reflector, "REWIND_AFTER", 0)


def acknowledges_what_did_not_fit(patch: pytest.MonkeyPatch) -> None:
    """The store takes a full disk for one that has written."""

    def append(self: DiskLog, frame: bytes) -> None:
        with suppress(DiskFull):
            self._disk.append(FILE, frame)
            self._disk.sync(FILE)
        self._size += len(frame)

    patch.setattr(DiskLog, "_append", append)


def does_not_sync(patch: pytest.MonkeyPatch) -> None:
    def append(self: DiskLog, frame: bytes) -> None:
        try:
            self._disk.append(FILE, frame)
        except DiskFull as error:
            self._cut_back()
            raise StorageFull(str(error)) from error
        self._size += len(frame)

    patch.setattr(DiskLog, "_append", append)


def leaves_half_a_frame_behind(patch: pytest.MonkeyPatch) -> None:
    """What a full disk has taken of a frame stays, and the next frame comes after it."""
    patch.setattr(DiskLog, "_cut_back", lambda self: None)


def counts_only_what_its_own_build_has_made(patch: pytest.MonkeyPatch) -> None:
    """A pod without a slot is none to the new build."""
    honest = adoption.claim

    def claim(*args: Any) -> Any:
        claimed = honest(*args)
        return replace(claimed, mine=tuple(pod for pod in claimed.mine if parse_slot(pod) is not None))

    patch.setattr(controller, "claim", claim)
