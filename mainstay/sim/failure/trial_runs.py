"""Runs of many tapes that are alike, in forks of one booted process, until one of them does what is looked for.

Candidates are tried in their order, several at once, and the first that fits is taken: which one that is does not
depend on how many are tried at once. A tape that was tried before is not tried again.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from functools import partial

import msgspec

from mainstay.env import SystemClock
from mainstay.sim.cluster.history import Event
from mainstay.sim.failure.choice_units import Unit, group_choices, make_tape
from mainstay.sim.loop.loop import FOREVER_NS
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.forks import LostFork, encode, run_in_forks
from mainstay.sim.run.run import Booted, RunResult


class OutOfTime(Exception):
    """There is no time for more tries."""


class _GivenUp(Exception):
    """A run goes on for longer than is of interest."""


class TrialRun(msgspec.Struct, frozen=True):
    """A run, and what was not benign in it."""

    result: RunResult
    units: list[Unit]


_Key = tuple[tuple[str, int, int], ...]
"""A tape, to be known again."""

_decode = msgspec.msgpack.Decoder(TrialRun).decode


class TrialRuns:
    def __init__(
        self, booted: Booted, seed: int, is_wanted: Callable[[RunResult], bool], *, jobs: int, within: timedelta
    ) -> None:
        self.runs = 0
        self.has_time = True
        self.until_ns = FOREVER_NS
        """A run that goes on past this, in virtual time, is given up."""
        self._booted = booted
        self._seed = seed
        self._is_wanted = is_wanted
        self._jobs = jobs
        self._known: set[_Key] = set()
        self._clock = SystemClock()
        self._ends_ns = self._clock.monotonic_ns() + within // timedelta(microseconds=1) * 1000

    def run(self, tape: Tape) -> TrialRun | None:
        """This one, to its end. None: its process is lost."""
        (sent,) = run_in_forks([partial(self._try, tape, FOREVER_NS)], 1)
        self.runs += 1
        return None if isinstance(sent, LostFork) else _decode(sent)

    def first(self, candidates: Sequence[Sequence[Unit]]) -> tuple[int, TrialRun] | None:
        """The first of these that is wanted, and its place. Raises `OutOfTime`."""
        found: dict[_Key, tuple[int, Tape]] = {}
        for place, units in enumerate(candidates):
            tape = make_tape(units)
            key = tuple((choice.label, choice.ordinal, choice.chosen) for choice in tape)
            if key not in self._known:
                found.setdefault(key, (place, tape))
        with contextlib.closing(self._running([tape for _, tape in found.values()])) as coming:
            for (key, (place, _)), sent in zip(found.items(), coming, strict=True):
                self._known.add(key)
                self.runs += 1
                if not isinstance(sent, LostFork):
                    tried = _decode(sent)
                    if self._is_wanted(tried.result):
                        return place, tried
                if self._clock.monotonic_ns() > self._ends_ns:
                    self.has_time = False
                    raise OutOfTime
        return None

    def _running(self, tapes: Sequence[Tape]) -> Generator[bytes | LostFork, None, None]:
        yield from run_in_forks([partial(self._try, tape, self.until_ns) for tape in tapes], self._jobs)

    def _try(self, tape: Tape, until_ns: int) -> bytes:
        loop = self._booted.sim.loop

        def saw(event: Event) -> None:
            if event.at_ns > until_ns:
                loop.failures.remember({"message": "abandoned", "exception": _GivenUp()})

        self._booted.world.history.subscribe(saw)
        result = self._booted.go(self._seed, tape)
        return encode(TrialRun(result, group_choices(self._booted.tape, self._booted.world.programs)))
