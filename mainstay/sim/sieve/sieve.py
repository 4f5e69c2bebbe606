"""Run the plans of the patterns, one in each run, and say in what the end is another than without a fault.

Two runs may differ for reasons that are none of the program's: names, times, who was first. Most of that is taken out
before the comparison (final_state.py). For the rest there is a second run without faults, in which the program is a
little slower: fields that differ between those two are not looked at. What checkers say counts in any case.

A run that ends otherwise violates, and its result says what was expected (final_state.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.env.processes import Send
from mainstay.sim.cluster.differences import find_differences
from mainstay.sim.cluster.expected_state import ExpectedState
from mainstay.sim.cluster.final_state import read_end
from mainstay.sim.cluster.history import FaultsHealed, RevisionCommitted
from mainstay.sim.lineage.provenance import Lineage
from mainstay.sim.run.forks import LostFork, decode, encode, from_booted, report_lost_fork, run_in_forks
from mainstay.sim.run.plans import PlannedFaults
from mainstay.sim.run.run import Booted, Patch, RunResult
from mainstay.sim.run.scenario import Scenario
from mainstay.sim.sieve.patterns import FaultPlan, ReferenceRun, SievePattern, make_plans

SLOWER: Final = timedelta(milliseconds=7)


class Sifted(msgspec.Struct, frozen=True, tag=True):
    """One run."""

    plan: FaultPlan | None
    """None: a run without a fault."""
    result: RunResult
    of: int
    """How many plans there are."""
    idle: int
    """How many plans were left out: what they hide, no decision has looked at."""
    is_slower: bool = False
    """It is the second run without a fault. Its tape does not make it again: that it was slower is no choice."""

    @property
    def what(self) -> str:
        if self.plan is not None:
            return str(self.plan)
        return "without faults, a little slower" if self.is_slower else "without faults"

    def __str__(self) -> str:
        said = "" if self.result.is_passed else f"\n{self.result.verdict}: {self.result.problem}"
        return self.what + said.replace("\n", "\n    ")


@dataclass(frozen=True, slots=True)
class SieveReport:
    scenario: str
    program: str
    runs: int
    """With a plan."""
    idle: int
    bad: tuple[Sifted, ...]

    def __str__(self) -> str:
        left_out = f" ({self.idle} more cannot matter: no decision read what they hide)" if self.idle else ""
        if not self.bad:
            return f"{self.scenario}: {self.program} passes all {self.runs} fault plans{left_out}"
        said = f"{self.program} fails {len(self.bad)} of {self.runs} fault plans{left_out}"
        if any(each.plan is None for each in self.bad):
            said = "it fails even without faults"
        return "\n".join([f"{self.scenario}: {said}:", *(f"  {each}" for each in self.bad)])


class _NoProgram(msgspec.Struct, frozen=True, tag=True):
    """There is none of that name in the scenario's world; and which there are."""

    there: list[str]


class _Ran(msgspec.Struct, frozen=True):
    result: RunResult
    objects: dict[str, list[Object]]
    """What was there in the end, if it has passed."""


class _First(msgspec.Struct, frozen=True):
    ran: _Ran
    reference: ReferenceRun


_decode_ran = msgspec.msgpack.Decoder(_Ran).decode
_decode_first = msgspec.msgpack.Decoder(_First).decode
_decode_sent = msgspec.msgpack.Decoder(Sifted | _NoProgram).decode


def sieve(
    scenario: Scenario,
    program: str,
    patterns: Sequence[SievePattern] = tuple(SievePattern),
    *,
    seed: int = 1,
    lasts: timedelta | None = None,
    jobs: int = 1,
    one_in: int = 1,
    patch: Patch | None = None,
) -> SieveReport:
    """All that `sift_runs` finds."""
    runs = idle = 0
    bad = []
    for each in sift_runs(scenario, program, patterns, seed=seed, lasts=lasts, jobs=jobs, one_in=one_in, patch=patch):
        runs += each.plan is not None
        idle = each.idle
        if not each.result.is_passed:
            bad.append(each)
    return SieveReport(scenario.name, program, runs, idle, tuple(bad))


def sift_runs(
    scenario: Scenario,
    program: str,
    patterns: Sequence[SievePattern] = tuple(SievePattern),
    *,
    seed: int = 1,
    lasts: timedelta | None = None,
    jobs: int = 1,
    one_in: int = 1,
    patch: Patch | None = None,
) -> Iterator[Sifted]:
    """Run the plans of these patterns for a program of the scenario's world; with `one_in`, only every n-th.

    The first run is without a fault, and if a second one without a fault does not pass, that is given too: there is
    nothing to compare with then, and no plan is run. Raises `ValueError` if there is no such program.
    """
    if lasts is not None:
        scenario = replace(scenario, lasts=lasts)
    work = partial(_sift, seed, jobs, program, tuple(patterns), one_in)
    for sent in from_booted(scenario, work, patch, journal=True):
        if isinstance(sent, LostFork):
            yield Sifted(None, report_lost_fork(scenario, seed, sent), 0, 0)
            continue
        match _decode_sent(sent):
            case Sifted() as sifted:
                yield sifted
            case _NoProgram(there):
                raise ValueError(f"{scenario.name} has no program {program!r}; it has {', '.join(there)}")


def _sift(
    seed: int, jobs: int, program: str, patterns: Sequence[SievePattern], one_in: int, booted: Booted, send: Send
) -> None:
    if program not in booted.world.programs and not booted.has_failed:
        send(encode(_NoProgram([each.name for each in booted.world.targets()])))
        return
    works = [partial(_first, booted, seed, program), partial(_slower, booted, seed, program)]
    first, slower = run_in_forks(works, jobs)
    if isinstance(first, LostFork):
        send(encode(Sifted(None, report_lost_fork(booted.scenario, seed, first), 0, 0)))
        return
    begun = _decode_first(first)
    plans: list[FaultPlan] = []
    idle = 0
    for pattern in patterns:
        more, fewer = make_plans(pattern, begun.reference, program)
        plans, idle = plans + more, idle + fewer
    plans = plans[::one_in]
    send(encode(Sifted(None, begun.ran.result, len(plans), idle)))
    if not begun.ran.result.is_passed:
        return
    again = (
        _Ran(report_lost_fork(booted.scenario, seed, slower), {})
        if isinstance(slower, LostFork)
        else _decode_ran(slower)
    )
    if not again.result.is_passed:  # All would count as noise.
        send(encode(Sifted(None, again.result, len(plans), idle, is_slower=True)))
        return
    expected = ExpectedState(begun.ran.objects, find_differences(begun.ran.objects, again.objects))
    runs = run_in_forks([partial(_run, booted, seed, plan, expected) for plan in plans], jobs)
    for plan, sent in zip(plans, runs, strict=True):
        result = report_lost_fork(booted.scenario, seed, sent) if isinstance(sent, LostFork) else decode(sent)
        send(encode(Sifted(plan, result, len(plans), idle)))


def _first(booted: Booted, seed: int, program: str) -> bytes:
    planned, world = PlannedFaults(), booted.world
    before = len(world.history.events)
    result = booted.go(seed, strategy=planned)
    events = world.history.events[before:]
    last: dict[str, int] = {}
    for event in events:
        if isinstance(event, RevisionCommitted):
            last[event.key] = event.revision
        elif isinstance(event, FaultsHealed):
            break
    assert world.journal is not None, "without a journal it is unknown what was read"
    reads = Lineage(events, world.journal.records(), planned).find_reads(program)
    reference = ReferenceRun(planned.deeds, planned.tellings, last, None if reads is None else list(reads))
    return encode(_First(_ran(booted, result), reference))


def _slower(booted: Booted, seed: int, program: str) -> bytes:
    for server in booted.world.servers:
        booted.world.sim.network.set_latency(program, server, SLOWER)
    return encode(_ran(booted, booted.go(seed, strategy=PlannedFaults())))


def _run(booted: Booted, seed: int, plan: FaultPlan, expected: ExpectedState) -> bytes:
    booted.expected = expected
    return encode(booted.go(seed, strategy=PlannedFaults([plan.aim])))


def _ran(booted: Booted, result: RunResult) -> _Ran:
    return _Ran(result, booted.sim.run(read_end(booted.world)) if result.is_passed else {})
