"""Makes some runs a second time, in another process with another hash seed: if they are not equal, something leaks.

    with Guard() as guard:
        due = guard.due()
        for result in run_many(scenario, seeds):
            due.add(result)
        bad += guard.check("racing-schedulers", due)

All that a simulation finds rests on this: the same seed is the same run. Whatever lets the order of a set, an address,
the real clock or a former run decide breaks it, and that does not show in one process. So one run of twenty is made
again elsewhere, chosen by its scenario and seed, and of fewer runs at least one. Digests are compared; where two
differ, both runs are made once more to find the first batch of events that does, and once more to have the stacks of
that batch (sim/loop/traced_stacks.py). What is told is the first event that is not the same, and both stacks, side by
side.

Not found: what differs without ever changing which code runs, when, or what is noted (sim/loop/trace.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import zip_longest
from typing import Final

import msgspec

from mainstay.env.build import build
from mainstay.sim.errors import SimulationError
from mainstay.sim.loop.traced_stacks import TracedEvent
from mainstay.sim.run.repeat_process import RepeatedRuns, RepeatProcess, RunRequest, make
from mainstay.sim.run.run import RunResult, RunVerdict

ONE_IN: Final = 20
"""Of so many runs one is checked."""

_TRIES_MAX: Final = 4  # A leak of the clock is elsewhere in each run.
_HASH_SEEDS: Final = 4_294_967_295
_WIDTH_MAX: Final = 100  # Of the left column.


class Leak(msgspec.Struct, frozen=True):
    """The first event in which two runs differ that should be equal. None: that run was over by then."""

    index: int
    here: TracedEvent | None
    there: TracedEvent | None

    def __str__(self) -> str:
        left, right = _column("here", self.here), _column("there", self.there)
        width = min(max(map(len, left)), _WIDTH_MAX)
        rows = zip_longest(left, right, fillvalue="")
        return "\n".join([f"the first difference is event {self.index}:", *(f"  {a:{width}} | {b}" for a, b in rows)])


class SampledRuns:
    """Which of some runs of a scenario are to be made again: one in `one_in`, and at least one. Keeps no others."""

    def __init__(self, one_in: int = ONE_IN) -> None:
        self._one_in = one_in
        self._chosen: list[RunResult] = []
        self._next: RunResult | None = None
        """The one that comes next if none is chosen. By its number too, so that it is not always the first seed."""

    def add(self, result: RunResult) -> None:
        if not self._one_in or not result.trace:
            return  # Without a trace there is nothing to compare.
        if _number(result) % self._one_in == 0:
            self._chosen.append(result)
        elif self._next is None or _number(result) < _number(self._next):
            self._next = result

    def __iter__(self) -> Iterator[RunResult]:
        if self._chosen or self._next is None:
            return iter(self._chosen)
        return iter([self._next])


def _number(result: RunResult) -> int:
    """Of the scenario as well: a command runs many of them with the same few seeds."""
    named = f"{result.scenario} {result.seed}".encode()
    return int.from_bytes(blake2b(named, digest_size=4).digest(), "little")


class DeterminismGuard:
    """Use it in a `with` block: the other process lives that long. With `one_in` 0 there is none, with 1 all runs are
    made twice."""

    def __init__(self, one_in: int = ONE_IN, *, hash_seed: int | None = None) -> None:
        self.checked = 0
        """How many runs were made twice so far."""
        self.one_in = one_in
        if one_in:
            build()  # Known from now on: a source that is changed meanwhile must not be taken for a leak.
        self._hash_seed = hash_seed
        self._other: RepeatProcess | None = None

    def __enter__(self) -> "DeterminismGuard":
        return self

    def __exit__(self, *_: object) -> None:
        if self._other is not None:
            self._other.close()

    def due(self) -> SampledRuns:
        """For callers that do not keep all results of a scenario for `check`."""
        return SampledRuns(self.one_in)

    def check(
        self, scenario: str, results: Iterable[RunResult], *, planted: str = "", strategy: str = "random", jobs: int = 1
    ) -> list[RunResult]:
        """Make those again that are due. Gives those that were different, with that verdict and where they differ.

        Raises `NoAnswer` (repeat_process.py) if the scenario cannot be found elsewhere, or the source has changed.
        """
        chosen = self.due()
        for result in results:
            chosen.add(result)
        due = {result.seed: result for result in chosen}
        if not due:
            return []
        other = self._process(next(iter(due)))
        wanted = RunRequest(scenario, list(due), planted, strategy, jobs)
        made = other.make(wanted)
        self.checked += len(made)
        return [
            self._told(due[each.seed], each, wanted)
            for each in made
            if each.lost or each.digest != due[each.seed].trace
        ]

    def _process(self, seed: int) -> RepeatProcess:
        if self._other is None:
            # Another one each time, so that many sessions see many; and the same one again for the same seeds.
            hash_seed = 1 + seed * 7919 % _HASH_SEEDS if self._hash_seed is None else self._hash_seed
            self._other = RepeatProcess(hash_seed)
        return self._other

    def _told(self, result: RunResult, made: RepeatedRuns, wanted: RunRequest) -> RunResult:
        assert self._other is not None
        problem = (
            f"not deterministic: another process (PYTHONHASHSEED={self._other.hash_seed}) runs this seed differently"
        )
        if made.lost:
            problem += f": its process died, {made.lost}; here the run ended ({result.verdict})"
        else:
            where = _where(msgspec.structs.replace(wanted, seeds=[result.seed], jobs=1), self._other)
            problem += f" (trace {made.digest}, here {result.trace});\n{where}"
        return msgspec.structs.replace(result, verdict=RunVerdict.DIFFERENT, problem=problem, tape=[], waiting="")


def _where(wanted: RunRequest, other: RepeatProcess) -> str:
    try:
        leak = located(wanted, other)
    except SimulationError as error:
        return f"the first difference is unknown: {error}"  # That they do is, and must not be lost with it.
    return str(leak) if leak is not None else "repeated, the runs were identical: the hash seed is not the only source"


def located(wanted: RunRequest, other: RepeatProcess) -> Leak | None:
    """Where a run differs that is made here and there: the first event, with both stacks. None if it does not."""
    batch = _first_batch(*_both(wanted, other))
    for _ in range(_TRIES_MAX):
        if batch is None:
            return None
        here, there = _both(msgspec.structs.replace(wanted, stacks_of=batch), other)
        now_at = _first_batch(here, there)
        if now_at == batch:
            return _first_leak(here.before, here.seen, there.seen)
        batch = now_at
    return None


def _both(wanted: RunRequest, other: RepeatProcess) -> tuple[RepeatedRuns, RepeatedRuns]:
    (here,), (there,) = make(wanted), other.make(wanted)
    if lost := here.lost or there.lost:
        raise SimulationError(f"the run of seed {wanted.seeds[0]} was lost while locating the difference: {lost}")
    return here, there


def _first_batch(here: RepeatedRuns, there: RepeatedRuns) -> int | None:
    """The number of the first batch in which they differ."""
    if here.digest == there.digest:
        return None
    shared = min(len(here.checkpoints), len(there.checkpoints))
    pairs = zip(here.checkpoints, there.checkpoints, strict=False)
    return next((number for number, (left, right) in enumerate(pairs) if left != right), shared)


def _first_leak(before: int, here: Sequence[TracedEvent], there: Sequence[TracedEvent]) -> Leak | None:
    for place, (left, right) in enumerate(zip_longest(here, there)):
        if left is None or right is None or left.event != right.event:
            return Leak(before + place, left, right)
    return None


def _column(where: str, seen: TracedEvent | None) -> list[str]:
    if seen is None:
        return [where, "the end"]
    return [where, str(seen.event), *(f"  {call}" for call in seen.stack or ["(no own code)"])]
