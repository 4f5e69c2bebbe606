"""Run the plans of the patterns, one in each run, and say in what the end is another than without a fault.

Two runs may differ for reasons that are none of the program's: names, times, who was first. Most of that is taken out
before the comparison (final_state.py). For the rest there is a second run without faults, in which the program is a
little slower: fields that differ between those two are not looked at. What checkers say counts in any case.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.env.processes import Send
from mainstay.sim.differences import Difference, differences, without
from mainstay.sim.final_state import final_objects
from mainstay.sim.forks import Lost, each_in_a_fork, encode, from_booted, lost
from mainstay.sim.history import Committed, Healed
from mainstay.sim.lineage.tracing import Lineage
from mainstay.sim.plans import Planned
from mainstay.sim.run import Booted, Patch, RunResult
from mainstay.sim.scenario import Scenario
from mainstay.sim.sieve.patterns import Pattern, Plan, Reference, plans_of

if TYPE_CHECKING:
    from mainstay.sim.world import World

SLOWER: Final = timedelta(milliseconds=7)
DIFFERENCES_SHOWN: Final = 12


class Sifted(msgspec.Struct, frozen=True, tag=True):
    """One run."""

    plan: Plan | None
    """None: the run without a fault."""
    result: RunResult
    differences: list[Difference]
    """In what it ended otherwise, if it has passed."""
    number: int
    of: int
    idle: int
    """How many plans were left out: what they hide, no decision has looked at."""

    @property
    def is_bad(self) -> bool:
        return not self.result.is_passed or bool(self.differences)

    def __str__(self) -> str:
        lines = [str(self.plan or "without any fault")]
        if not self.result.is_passed:
            lines += [f"{self.result.verdict}: {self.result.problem}"]
        lines += [str(each) for each in self.differences[:DIFFERENCES_SHOWN]]
        if len(self.differences) > DIFFERENCES_SHOWN:
            lines.append(f"and {len(self.differences) - DIFFERENCES_SHOWN} more differences")
        return "\n    ".join(lines)


@dataclass(frozen=True, slots=True)
class SieveReport:
    scenario: str
    program: str
    runs: int
    """With a plan."""
    idle: int
    bad: tuple[Sifted, ...]

    def __str__(self) -> str:
        left_out = f" ({self.idle} more cannot matter: no decision has looked at what they hide)" if self.idle else ""
        if not self.bad:
            return f"{self.scenario}: {self.program} ends as without a fault with each of {self.runs} plans{left_out}"
        lines = [f"  {each}" for each in self.bad]
        return "\n".join(
            [f"{self.scenario}: {self.program} does not bear {len(self.bad)} of {self.runs} plans{left_out}:", *lines]
        )


class _NoProgram(msgspec.Struct, frozen=True, tag=True):
    """There is none of that name in the scenario's world; and which there are."""

    there: list[str]


class _Ran(msgspec.Struct, frozen=True):
    result: RunResult
    final: dict[str, list[dict[str, Any]]]


class _First(msgspec.Struct, frozen=True):
    ran: _Ran
    reference: Reference


_decode_ran = msgspec.msgpack.Decoder(_Ran).decode
_decode_first = msgspec.msgpack.Decoder(_First).decode
_decode_sent = msgspec.msgpack.Decoder(Sifted | _NoProgram).decode


def sieve(
    scenario: Scenario,
    program: str,
    patterns: Sequence[Pattern] = tuple(Pattern),
    *,
    seed: int = 1,
    lasts: timedelta | None = None,
    jobs: int = 1,
    one_in: int = 1,
    patch: Patch | None = None,
) -> SieveReport:
    """All that `sift` finds."""
    runs = idle = 0
    bad = []
    for each in sift(scenario, program, patterns, seed=seed, lasts=lasts, jobs=jobs, one_in=one_in, patch=patch):
        runs += each.plan is not None
        idle = each.idle
        if each.is_bad:
            bad.append(each)
    return SieveReport(scenario.name, program, runs, idle, tuple(bad))


def sift(
    scenario: Scenario,
    program: str,
    patterns: Sequence[Pattern] = tuple(Pattern),
    *,
    seed: int = 1,
    lasts: timedelta | None = None,
    jobs: int = 1,
    one_in: int = 1,
    patch: Patch | None = None,
) -> Iterator[Sifted]:
    """Run the plans of these patterns for a program of the scenario's world; with `one_in`, only each so manieth.

    The first run is without a fault; if it does not pass, it is the only one. Raises `ValueError` if there is no such
    program.
    """
    if lasts is not None:
        scenario = replace(scenario, lasts=lasts)
    work = partial(_sift, seed, jobs, program, tuple(patterns), one_in)
    for sent in from_booted(scenario, work, patch, journal=True):
        if isinstance(sent, Lost):
            yield Sifted(None, lost(scenario, seed, sent), [], 0, 0, 0)
            continue
        match _decode_sent(sent):
            case Sifted() as sifted:
                yield sifted
            case _NoProgram(there):
                raise ValueError(f"there is no program {program!r} in {scenario.name}, but: {', '.join(there)}")


def _sift(
    seed: int, jobs: int, program: str, patterns: Sequence[Pattern], one_in: int, booted: Booted, send: Send
) -> None:
    if program not in booted.world.programs and not booted.has_failed:
        send(encode(_NoProgram([each.name for each in booted.world.targets()])))
        return
    works = [partial(_first, booted, seed, program), partial(_slower, booted, seed, program)]
    first, slower = each_in_a_fork(works, jobs)
    if isinstance(first, Lost):
        send(encode(Sifted(None, lost(booted.scenario, seed, first), [], 0, 0, 0)))
        return
    begun = _decode_first(first)
    wanted = _objects(begun.ran)
    noise = [] if isinstance(slower, Lost) else differences(wanted, _objects(_decode_ran(slower)))
    plans: list[Plan] = []
    idle = 0
    for pattern in patterns:
        more, fewer = plans_of(pattern, begun.reference, program)
        plans, idle = plans + more, idle + fewer
    plans = plans[::one_in]
    send(encode(Sifted(None, begun.ran.result, [], 0, len(plans), idle)))
    if not begun.ran.result.is_passed:
        return
    runs = each_in_a_fork([partial(_run, booted, seed, plan) for plan in plans], jobs)
    for number, (plan, sent) in enumerate(zip(plans, runs, strict=True), 1):
        if isinstance(sent, Lost):
            result, found = lost(booted.scenario, seed, sent), []
        else:
            ran = _decode_ran(sent)
            result = ran.result
            found = without(differences(wanted, _objects(ran)), noise) if result.is_passed else []
        send(encode(Sifted(plan, result, found, number, len(plans), idle)))


def _first(booted: Booted, seed: int, program: str) -> bytes:
    planned, world = Planned(), booted.world
    before = len(world.history.events)
    result = booted.go(seed, strategy=planned)
    events = world.history.events[before:]
    last: dict[str, int] = {}
    for event in events:
        if isinstance(event, Committed):
            last[event.key] = event.revision
        elif isinstance(event, Healed):
            break
    assert world.journal is not None, "without a journal nobody knows what was looked at"
    reads = Lineage(events, world.journal.records(), planned).reads_of(program)
    reference = Reference(planned.deeds, planned.tellings, last, None if reads is None else list(reads))
    return encode(_First(_ran(booted, result), reference))


def _slower(booted: Booted, seed: int, program: str) -> bytes:
    for server in booted.world.servers:
        booted.world.sim.network.set_latency(program, server, SLOWER)
    return encode(_ran(booted, booted.go(seed, strategy=Planned())))


def _run(booted: Booted, seed: int, plan: Plan) -> bytes:
    return encode(_ran(booted, booted.go(seed, strategy=Planned([plan.aim]))))


def _ran(booted: Booted, result: RunResult) -> _Ran:
    if not result.is_passed:
        return _Ran(result, {})
    # It may be one to be made again, even so.
    result = msgspec.structs.replace(result, tape=[choice for choice in booted.tape if choice.chosen])
    return _Ran(result, booted.sim.run(_final(booted.world)))


async def _final(world: "World") -> dict[str, list[Object]]:
    return final_objects((await world.store.range("")).entries)


def _objects(ran: _Ran) -> dict[str, list[Object]]:
    return ran.final
