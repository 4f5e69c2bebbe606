"""One fault at each place where it can happen, in a run of its own.

The first run is without faults: it tells where the operator writes, what it is told, and how all ends. Each other run
is equal to that one up to its fault. What comes out is the fault and the promise that was broken, or none. A last
promise is that all ends as without a fault, field by field.

`mainstay.sim.sieve` has more of this ready, for any controller. Here is one by hand, to show how; its faults are those
that hurt an operator made with kopf (README.md).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.cluster.differences import StateDifference, find_differences
from mainstay.sim.cluster.final_state import final_objects
from mainstay.sim.cluster.history import Event, FaultInjected
from mainstay.sim.cluster.world import World
from mainstay.sim.run.forks import LostFork, encode, from_booted, report_lost_fork, run_in_forks
from mainstay.sim.run.plans import Aim, PlannedFaults
from mainstay.sim.run.run import Booted, RunResult
from mainstay.sim.run.scenario import Scenario

CRASH: Final = "crash-after"
"""The operator crashes right after a write, and is started again a second later."""
HANG: Final = "pause-at-delivery"
"""It stands still when it is told of something, in the middle of what it does, and goes on seconds later."""
CUT: Final = "watch-disconnect"
"""A watch breaks off before it has told of a change, and the server does not know any more what was."""


ENDS_THE_SAME: Final = "ends as without a fault"
KOPFS_OWN: Final = "metadata.annotations.kopf.zalando.org/"
"""What kopf notes about its handlers, by name and whatever the uid: not the operator's, and not compared."""


class Tried(msgspec.Struct, frozen=True):
    """One run. Without an aim it is the first, and `of` says how many there are."""

    aim: Aim | None
    result: RunResult
    of: int
    differences: list[StateDifference] = []
    """In what it has ended otherwise than the first, if it has kept all other promises."""

    @property
    def broken(self) -> str:
        """The promise; empty if none was broken."""
        return self.result.problem.partition(":")[0] or (ENDS_THE_SAME if self.differences else "")

    @property
    def problem(self) -> str:
        return self.result.problem.partition(": ")[2] or "\n    ".join(str(each) for each in self.differences)


_State = dict[str, list[dict[str, Any]]]


class _First(msgspec.Struct, frozen=True):
    result: RunResult
    aims: list[Aim]
    final: _State


class _Ran(msgspec.Struct, frozen=True):
    result: RunResult
    final: _State


_decode_tried = msgspec.msgpack.Decoder(Tried).decode
_decode_ran = msgspec.msgpack.Decoder(_Ran).decode
_decode_first = msgspec.msgpack.Decoder(_First).decode


def tries(
    scenario: Scenario, program: str, fault: str, *, jobs: int = 1, one_in: int = 1, where: Sequence[str] = ("",)
) -> Iterator[Tried]:
    """Try a fault at each place of a program, or at every n-th, or only at those described like these."""
    for sent in from_booted(scenario, partial(_try_all, program, fault, jobs, one_in, where)):
        yield Tried(None, report_lost_fork(scenario, 0, sent), 0) if isinstance(sent, LostFork) else _decode_tried(sent)


def _try_all(
    program: str, fault: str, jobs: int, one_in: int, where: Sequence[str], booted: Booted, send: Send
) -> None:
    (first,) = run_in_forks([partial(_look, booted, program, fault)], 1)
    if isinstance(first, LostFork):
        send(encode(Tried(None, report_lost_fork(booted.scenario, 0, first), 0)))
        return
    found = _decode_first(first)
    aims = [aim for aim in found.aims if aim.place.what.startswith(tuple(where))][::one_in]
    send(encode(Tried(None, found.result, len(aims))))
    runs = run_in_forks([partial(_try, booted, aim) for aim in aims], jobs)
    for aim, sent in zip(aims, runs, strict=True):
        ran = _Ran(report_lost_fork(booted.scenario, 0, sent), {}) if isinstance(sent, LostFork) else _decode_ran(sent)
        others = _that_count(found, ran) if ran.result.is_passed else []
        send(encode(Tried(aim, ran.result, len(aims), others)))


def _look(booted: Booted, program: str, fault: str) -> bytes:
    planned = PlannedFaults()
    result = booted.go(1, strategy=planned)
    places = [deed.place for deed in planned.deeds] if fault == CRASH else [each.place for each in planned.tellings]
    aims = {Aim(place, fault): None for place in places if place.who == program}
    return encode(_First(result, list(aims), _final(booted)))


def _try(booted: Booted, aim: Aim) -> bytes:
    if aim.fault == CUT:
        booted.world.history.subscribe(partial(_forget, booted.world))
    result = booted.go(1, strategy=PlannedFaults([aim]))
    return encode(_Ran(result, _final(booted) if result.is_passed else {}))


def _that_count(first: _First, ran: _Ran) -> list[StateDifference]:
    found = find_differences(first.final, ran.final)
    return [each for each in found if not each.path.startswith(KOPFS_OWN)]


def _final(booted: Booted) -> _State:
    """What is left in the end, without what depends on the way."""
    entries = booted.sim.run(booted.world.store.range("")).entries
    return final_objects(entries)


def _forget(world: World, event: Event) -> None:
    """Let the server compact, so that a client that starts over sees the present state, not the past."""
    if isinstance(event, FaultInjected):
        world.faults.spawn(_compact(world), "history lost")


async def _compact(world: World) -> None:
    revision = await world.compact()
    for port in list(world.ports.values()):
        port.fall_behind(revision)
