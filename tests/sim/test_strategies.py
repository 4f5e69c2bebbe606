"""However faults are chosen: the same seed is the same run, and its tape makes it again without knowing how."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial

import msgspec
import pytest

from mainstay.env.processes import Send
from mainstay.scenarios import SCENARIOS
from mainstay.sim.cluster.history import FaultInjected
from mainstay.sim.faults.schedule import TIMED
from mainstay.sim.loop.trace import Choice
from mainstay.sim.net.links import LATENCY_NS_BETWEEN_HOSTS
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.forks import LostFork, encode, from_booted, run_in_forks
from mainstay.sim.run.run import Booted
from mainstay.sim.strategies.table import STRATEGIES

pytestmark = pytest.mark.slow

SCENARIO = replace(SCENARIOS["one-leader"], lasts=timedelta(seconds=15))
RUNS = [
    *[("random", 1), ("near-writes", 2), ("near-writes", 3), ("priorities", 2)],
    *[("mixed", 2), ("mixed", 5), ("mixed", 8)],  # Of which each draws another one.
]


class Ran(msgspec.Struct):
    strategy: str
    seed: int
    trace: str
    drawn: str
    choices: list[Choice]
    """Those that are not benign."""
    faults: list[str]
    late: list[str]
    """Links that are slower than usual in the end."""


def all_runs(tapes: dict[tuple[str, int], list[Choice]] | None = None) -> list[Ran]:
    """One of each strategy and seed, each in a fork. With `tapes`, as these say, and by no strategy in particular."""
    decode = msgspec.msgpack.Decoder(Ran).decode

    def work(booted: Booted, send: Send) -> None:
        works = [partial(_run, booted, name, seed, tapes) for name, seed in RUNS]
        for sent in run_in_forks(works, 2):
            send(b"" if isinstance(sent, LostFork) else sent)

    return [decode(sent) for sent in from_booted(SCENARIO, work) if not isinstance(sent, LostFork)]


def _run(booted: Booted, name: str, seed: int, tapes: dict[tuple[str, int], list[Choice]] | None) -> bytes:
    tape = None if tapes is None else Tape(tapes[(name, seed)])
    result = booted.go(seed, tape, strategy=STRATEGIES[name if tape is None else "random"])
    faults = [event.what for event in booted.world.history.events if isinstance(event, FaultInjected)]
    chosen = [choice for choice in booted.tape if choice.chosen]
    world = booted.world
    links = [world.sim.network.link(who, server) for who in world.programs for server in world.servers]
    late = [str(link) for link in links if link.transit_ns_min != LATENCY_NS_BETWEEN_HOSTS]
    return encode(Ran(name, seed, result.trace, result.drawn, chosen, faults, late))


@pytest.fixture(scope="module")
def ran() -> list[Ran]:
    return all_runs()


def test_a_tape_makes_the_same_run_again_whatever_strategy_once_drew_it(ran: list[Ran]):
    again = all_runs({(each.strategy, each.seed): each.choices for each in ran})

    assert [each.trace for each in again] == [each.trace for each in ran]
    assert [each.drawn for each in again] == [each.drawn for each in ran]


def test_another_process_and_hash_seed_make_no_difference(ran: list[Ran]):
    code = "from tests.sim.test_strategies import all_runs; print(*[each.trace for each in all_runs()])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "3"}, stdout=subprocess.PIPE, check=True
    )

    assert done.stdout.decode().split() == [each.trace for each in ran]


def test_a_run_near_writes_has_at_most_four_faults_and_none_by_the_clock(ran: list[Ran]):
    near = [each for each in ran if each.strategy == "near-writes"]

    for each in near:
        assert not [choice for choice in each.choices if choice.label in {f"fault/{name}" for name in TIMED}]
        begun = [what for what in each.faults if not what.startswith("over: ")]
        assert len(begun) <= 4
    assert any(each.faults for each in near)


def test_priorities_give_each_program_a_rank(ran: list[Ran]):
    ranked = {
        choice.label
        for each in ran
        if each.strategy == "priorities"
        for choice in each.choices
        if "/rank/" in choice.label
    }

    assert len(ranked) >= 2
    assert all(label.startswith("strategy/priorities/rank/") for label in ranked)


def test_when_all_is_healed_no_program_is_delayed(ran: list[Ran]):
    assert [each.late for each in ran] == [[]] * len(RUNS)


def test_mixed_draws_all_of_them(ran: list[Ran]):
    marks = {
        choice.label
        for each in ran
        if each.strategy == "mixed"
        for choice in each.choices
        if choice.label.count("/") == 1 and choice.label.startswith("strategy/")
    }

    assert marks == {"strategy/mixed", "strategy/near-writes", "strategy/priorities"}


def test_a_fault_at_a_write_stays_when_all_else_is_taken_from_the_tape(ran: list[Ran]):
    at_write = ("fault/crash-after/", "fault/crash-before/", "fault/answer-lost/", "fault/request-lost/")
    with_one = [
        (each, choice)
        for each in ran
        if each.strategy == "near-writes"
        for choice in each.choices
        if choice.label.startswith(at_write) and not choice.label.endswith(("/duration", "/is-on"))
    ]
    assert with_one
    each, choice = with_one[0]

    def work(booted: Booted, send: Send) -> None:
        result = booted.go(each.seed, Tape([choice]))
        send(
            encode(
                [
                    result.drawn,
                    *(event.what for event in booted.world.history.events if isinstance(event, FaultInjected)),
                ]
            )
        )

    (sent,) = from_booted(SCENARIO, work)
    assert isinstance(sent, bytes)
    drawn, *faults = msgspec.msgpack.decode(sent)
    assert drawn.startswith("strategy random; faults: ")
    assert choice.label.split("/")[1] in drawn
    assert len(faults) == 1 or choice.label.startswith(("fault/answer", "fault/request"))
