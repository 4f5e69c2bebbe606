"""Make the run of a bundle again, as it was or with another tape, and look at it from inside.

The scenario is booted once, in a fork, with the bug that the bundle names; each run is a fork of that. What is to be
known of a run, its history or its store, is there only in its own process: a *look* is taken there when the run is
over, and what it finds comes back as bytes.
"""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from mainstay.env.processes import Send
from mainstay.sim.errors import SimulationError
from mainstay.sim.loop.trace import Recording, Trace, TraceDifference, first_difference
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.forks import LostFork, from_booted, run_in_forks
from mainstay.sim.run.run import Booted, RunResult

Look = Callable[[Booted, RunResult], bytes]


class NotRepeatable(SimulationError):
    """The process of a run is lost. Says how."""


def repeat_run(
    bundle: RunBundle,
    look: Look,
    *,
    tapes: Sequence[Tape] = (),
    journal: bool | None = None,
    keep_trace: bool = False,
    jobs: int = 1,
) -> list[bytes]:
    """Make the run again, and look at it; with `tapes`, once with each of these instead of its own.

    Raises `NotRepeatable`, and `NotFound` (finding.py) if its scenario is not here.
    """
    has_journal = bundle.has_journal if journal is None else journal
    work = partial(_make, bundle.seed, tapes or [bundle.the_tape()], jobs, look)
    trace = partial(Trace, keep=True) if keep_trace else None
    found = []
    for sent in from_booted(bundle.the_scenario(), work, bundle.patch(), journal=has_journal, trace=trace):
        if isinstance(sent, LostFork):
            raise NotRepeatable(f"the process of the run died: {sent.how}")
        found.append(sent)
    return found


def _make(seed: int, tapes: Sequence[Tape], jobs: int, look: Look, booted: Booted, send: Send) -> None:
    works = [partial(_look, booted, seed, tape, look) for tape in tapes]
    for sent in run_in_forks(works, jobs):
        if isinstance(sent, LostFork):
            raise NotRepeatable(f"the process of the run died: {sent.how}")
        send(sent)


def _look(booted: Booted, seed: int, tape: Tape, look: Look) -> bytes:
    return look(booted, booted.go(seed, tape))


# As it was.


class Replayed(msgspec.Struct, frozen=True):
    """What a run came to when it was made again."""

    result: RunResult
    is_same: bool
    """All that happened was the same, in the same order."""
    leak: TraceDifference | None = None
    """Made twice here it is not the same run: the first event in which the two differ."""


class _Recorded(msgspec.Struct, frozen=True):
    result: RunResult
    recording: Recording


_encode = msgspec.msgpack.Encoder().encode
_decode_result = msgspec.msgpack.Decoder(RunResult).decode
_decode_recorded = msgspec.msgpack.Decoder(_Recorded).decode


def replay(bundle: RunBundle) -> Replayed:
    """Make the run of a bundle again and compare. Raises as `repeat_run` does."""
    (sent,) = repeat_run(bundle, _result)
    result = _decode_result(sent)
    if result.trace == bundle.result.trace:
        return Replayed(result, is_same=True)
    tape = bundle.the_tape()
    first, second = map(_decode_recorded, repeat_run(bundle, _recorded, tapes=[tape, tape], keep_trace=True))
    return Replayed(result, is_same=False, leak=first_difference(first.recording, second.recording))


def _result(booted: Booted, result: RunResult) -> bytes:
    return _encode(result)


def _recorded(booted: Booted, result: RunResult) -> bytes:
    return _encode(_Recorded(result, booted.sim.trace.recording()))
