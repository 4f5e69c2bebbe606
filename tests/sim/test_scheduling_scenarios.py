"""What the scenarios of the scheduler are about really happens in them, in nearly every run.

A scenario passes also if nothing of interest has happened. So its history is looked at: that answers were lost, that
stale choices were refused, that decisions were made a second time.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.scenarios._schedulers import SchedulingStage
from mainstay.scenarios.policy_scopes import PolicyScopes
from mainstay.sim.cluster.history import RequestReceived, ResponseSent, RevisionCommitted
from mainstay.sim.run.forks import from_booted, run_in_forks
from mainstay.sim.run.run import Booted

pytestmark = pytest.mark.deep

SEEDS = range(1, 10)
Counting = Callable[[Booted], int]


def in_each_run(scenario: str, countings: Sequence[Counting]) -> list[list[int]]:
    """How often each of some things happens, in each of some runs."""

    def one(booted: Booted, seed: int) -> bytes:
        assert booted.go(seed).is_passed
        return msgspec.json.encode([counting(booted) for counting in countings])

    def all_of_them(booted: Booted, send: Callable[[bytes], None]) -> None:
        found = run_in_forks([partial(one, booted, seed) for seed in SEEDS], 2)
        nothing = msgspec.json.encode([0] * len(countings))
        send(b"[%b]" % b",".join(each if isinstance(each, bytes) else nothing for each in found))

    [counts] = from_booted(SCENARIOS[scenario], all_of_them)
    assert isinstance(counts, bytes)
    return msgspec.json.decode(counts, type=list[list[int]])


def bindings_without_an_answer(booted: Booted) -> int:
    """Those that were committed all the same, and that their scheduler asked for again, by the same identity."""
    events = booted.world.history.events
    sent = {
        each.request: set(re.findall(rb'"operation":"([^"]+)"', each.body))
        for each in events
        if isinstance(each, RequestReceived) and each.path.endswith("/bindings")
    }
    answers = [each for each in events if isinstance(each, ResponseSent) and each.request in sent]
    lost = set().union(*[sent[each.request] for each in answers if not each.is_delivered])
    done = set().union(
        *[sent[each.request] for each in events if isinstance(each, RevisionCommitted) and each.request in sent]
    )
    return sum(sum(operation in asked for asked in sent.values()) > 1 for operation in lost & done)


def committed_with(text: bytes, booted: Booted) -> int:
    """How many pods were written that say so."""
    commits = [each for each in booted.world.history.events if isinstance(each, RevisionCommitted)]
    return sum(each.key.startswith("core/pods/") and text in (each.value or b"") for each in commits)


def refused_with(cause: bytes, booted: Booted) -> int:
    return sum(
        cause in each.body
        for each in booted.world.history.events
        if isinstance(each, ResponseSent) and each.status == 200
    )


def refused_under_the_canary(booted: Booted) -> int:
    """Stale choices that were refused after the new version of the policy was active."""
    events = booted.world.history.events
    values = [(each.at_ns, each.value or b"") for each in events if isinstance(each, RevisionCommitted)]
    canary = next((at_ns for at_ns, value in values if b'"v42"' in value and b'"active":true' in value), None)
    return sum(
        canary is not None and each.at_ns > canary and b'"status":"Refused"' in each.body
        for each in events
        if isinstance(each, ResponseSent)
    )


def rechecked(booted: Booted) -> int:
    assert isinstance(booted.stage, SchedulingStage)
    return sum(each.counts.rechecked for each in booted.stage.schedulers.values())


def held_to_the_bound(booted: Booted) -> int:
    """Decisions under a policy that bounds the skew, of which all is known that their scheduler knew."""
    assert isinstance(booted.stage, PolicyScopes)
    return booted.stage.judged


def decided_in_shadow(booted: Booted) -> int:
    assert isinstance(booted.stage, PolicyScopes)
    return booted.stage.shadowed


def held_back(booted: Booted) -> int:
    """How often the autoscaler has said that it asks for no more because of placement, a quota or lag."""
    reasons = (b'"LimitedByPlacement"', b'"LimitedByQuota"', b'"ControlPlaneLag"')
    commits = [each for each in booted.world.history.events if isinstance(each, RevisionCommitted)]
    said = [each.value or b"" for each in commits if each.key.startswith("autoscaling/horizontalpodautoscalers/")]
    return sum(reason in value for value in said for reason in reasons)


HAPPENS: dict[str, dict[str, Counting]] = {
    "bind-without-answer": {
        "bindings without an answer": bindings_without_an_answer,
        "said to be retried": partial(committed_with, b'"type":"SchedulingRetrying","status":"True"'),
        "said to be bound": partial(committed_with, b'"type":"SchedulingRetrying","status":"False","reason":"Bound"'),
    },
    "stale-candidate": {"refused under the canary": refused_under_the_canary},
    "exclusive-devices": {"stale views": partial(refused_with, b'"Stale"')},
    "removed-by-force": {"held by ghosts": partial(refused_with, b'"HeldByGhosts"')},
    "racing-schedulers": {
        "bound by another": partial(refused_with, b'"AlreadyBound"'),
        "room taken by another": partial(refused_with, b'"CapacityChanged"'),
        "rechecked": rechecked,
    },
    "room-comes-back": {"rechecked": rechecked},
    "cure-meanwhile": {"rechecked": rechecked},
    "policy-scopes": {"held to the bound": held_to_the_bound, "decided in shadow": decided_in_shadow},
}


@pytest.mark.parametrize("scenario", HAPPENS)
def test_what_a_scenario_is_about_happens_in_it(scenario: str):
    runs = in_each_run(scenario, list(HAPPENS[scenario].values()))

    for number, what in enumerate(HAPPENS[scenario]):
        counts = [each[number] for each in runs]
        assert sum(count > 0 for count in counts) >= len(SEEDS) // 2, (what, counts)
