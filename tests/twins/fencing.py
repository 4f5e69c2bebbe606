"""Bugs that the arithmetic of leases could have, and those who use it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mainstay.loop import fencing
from mainstay.loop.fencing import HolderTimes, LeaseTimes, MayStart, NotBefore, ObservedLease
from tests.loop import lease_cases

Twin = Callable[[pytest.MonkeyPatch], None]


def forgets_that_clocks_go_at_different_rates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseTimes, "_faster_ppm", 1_000_000)


def takes_over_without_a_check(patch: pytest.MonkeyPatch) -> None:
    honest = fencing.may_start

    def may_start(lease: ObservedLease, now_ns: int, times: LeaseTimes) -> MayStart | NotBefore:
        answer = honest(lease, now_ns, times)
        return MayStart(-1) if isinstance(answer, MayStart) else answer

    patch.setattr(fencing, "may_start", may_start)


def counts_from_the_answer(patch: pytest.MonkeyPatch) -> None:
    """A bug not of the arithmetic, but of a holder who uses it."""
    patch.setattr(lease_cases, "HOLDER_COUNTS_FROM", "answer")


def begins_to_stop_when_it_should_have_stopped(patch: pytest.MonkeyPatch) -> None:
    honest = fencing.holder_times

    def holder_times(renewal_sent_ns: int, times: LeaseTimes) -> HolderTimes:
        answer = honest(renewal_sent_ns, times)
        return replace(answer, begin_stopping_at_ns=answer.stopped_at_ns)

    patch.setattr(fencing, "holder_times", holder_times)


TWINS: list[Twin] = [
    forgets_that_clocks_go_at_different_rates,
    takes_over_without_a_check,
    counts_from_the_answer,
    begins_to_stop_when_it_should_have_stopped,
]
