"""What the scenarios of the scheduler are about really happens in them, in nearly every run.

A scenario passes also if nothing of interest has happened. So its history is looked at: that answers were lost, that
stale choices were refused, that decisions were made a second time.
"""

import re
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from mainstay.sim.forks import each_in_a_fork, from_booted
from mainstay.sim.history import Answered, Asked, Committed
from mainstay.sim.run import Booted
from mainstay.sim.scenarios import SCENARIOS
from mainstay.sim.scenarios._scheduling import SchedulingStage

SEEDS = range(1, 13)
Counting = Callable[[Booted], int]


def in_each_run(scenario: str, counting: Counting) -> list[int]:
    """How often something happens, in each of some runs."""

    def one(booted: Booted, seed: int) -> bytes:
        assert booted.go(seed).is_passed
        return msgspec.json.encode(counting(booted))

    def all_of_them(booted: Booted, send: Callable[[bytes], None]) -> None:
        found = each_in_a_fork([partial(one, booted, seed) for seed in SEEDS], 2)
        send(b"[%b]" % b",".join(each if isinstance(each, bytes) else b"0" for each in found))

    [counts] = from_booted(SCENARIOS[scenario], all_of_them)
    assert isinstance(counts, bytes)
    return msgspec.json.decode(counts, type=list[int])


def bindings_without_an_answer(booted: Booted) -> int:
    """Those that were committed all the same, and that their scheduler asked for again, by the same identity."""
    events = booted.world.history.events
    sent = {
        each.request: set(re.findall(rb'"operation":"([^"]+)"', each.body))
        for each in events
        if isinstance(each, Asked) and each.path.endswith("/bindings")
    }
    answers = [each for each in events if isinstance(each, Answered) and each.request in sent]
    lost = set().union(*[sent[each.request] for each in answers if not each.is_delivered])
    done = set().union(*[sent[each.request] for each in events if isinstance(each, Committed) and each.request in sent])
    return sum(sum(operation in asked for asked in sent.values()) > 1 for operation in lost & done)


def committed_with(text: bytes, booted: Booted) -> int:
    """How many pods were written that say so."""
    commits = [each for each in booted.world.history.events if isinstance(each, Committed)]
    return sum(each.key.startswith("core/pods/") and text in (each.value or b"") for each in commits)


def refused_with(cause: bytes, booted: Booted) -> int:
    return sum(
        cause in each.body for each in booted.world.history.events if isinstance(each, Answered) and each.status == 200
    )


def refused_under_the_canary(booted: Booted) -> int:
    """Stale choices that were refused after the new version of the policy was there."""
    events = booted.world.history.events
    canary = next(
        (each.at_ns for each in events if isinstance(each, Committed) and b'"v42"' in (each.value or b"")), None
    )
    return sum(
        canary is not None and each.at_ns > canary and b'"status":"Refused"' in each.body
        for each in events
        if isinstance(each, Answered)
    )


def rechecked(booted: Booted) -> int:
    assert isinstance(booted.stage, SchedulingStage)
    return sum(each.counts.rechecked for each in booted.stage.schedulers.values())


@pytest.mark.parametrize(
    ("scenario", "counting"),
    [
        ("bind-without-answer", bindings_without_an_answer),
        ("bind-without-answer", partial(committed_with, b'"type":"SchedulingRetrying","status":"True"')),
        (
            "bind-without-answer",
            partial(committed_with, b'"type":"SchedulingRetrying","status":"False","reason":"Bound"'),
        ),
        ("stale-candidate", refused_under_the_canary),
        ("removed-by-force", partial(refused_with, b'"HeldByGhosts"')),
        ("racing-schedulers", partial(refused_with, b'"AlreadyBound"')),
        ("racing-schedulers", partial(refused_with, b'"CapacityChanged"')),
        ("racing-schedulers", rechecked),
        ("room-comes-back", rechecked),
        ("cure-meanwhile", rechecked),
    ],
)
def test_what_a_scenario_is_about_happens_in_it(scenario: str, counting: Counting):
    counts = in_each_run(scenario, counting)

    assert sum(count > 0 for count in counts) >= len(SEEDS) * 2 // 3, counts
