"""Whatever has happened in a cluster, `why` has an answer about every object, at every moment, and on one screen."""

import random
from collections import Counter
from datetime import timedelta

import pytest

from mainstay.api.kind_names import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    RESOURCE_QUOTAS,
    SERVICES,
    ZONE_QUOTAS,
)
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import LinkState, Verdict, WhyAnswer
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.dispatch import why
from mainstay.explain.why.text import LINES_MAX, render_answer
from mainstay.journal.keys import parse_object_key
from mainstay.registry import REGISTRY
from mainstay.sim.simulation import Simulation
from tests.explain.agreement import churned

pytestmark = pytest.mark.slow

KINDS = (
    PODS,
    DEPLOYMENTS,
    REPLICASETS,
    JOBS,
    NODES,
    NAMESPACES,
    SERVICES,
    RESOURCE_QUOTAS,
    ZONE_QUOTAS,
    DISRUPTION_BUDGETS,
)


def check(answer: WhyAnswer) -> None:
    assert answer.sentence.endswith((".", "…"))
    assert "\n" not in answer.sentence
    assert answer.chain
    assert len(render_answer(answer).splitlines()) <= LINES_MAX
    assert render_answer(answer, wide=True).startswith(answer.sentence)
    assert answer.as_object()["cause"] in set(Cause)
    is_broken = any(link.state in (LinkState.BROKEN, LinkState.WAITING, LinkState.UNKNOWN) for link in answer.chain)
    assert is_broken or answer.verdict is Verdict.SATISFIED, answer.sentence
    if answer.verdict is Verdict.INCOMPLETE:
        assert answer.gaps


@pytest.mark.parametrize("seconds", [60, pytest.param(120, marks=pytest.mark.deep)])
async def test_there_is_an_answer_about_everything_that_ever_was(sim: Simulation, seconds: int):
    journal = await churned(sim, timedelta(seconds=seconds))
    now = await Moment.now(journal)
    causes: Counter[Cause] = Counter()
    asked = 0
    for kind in KINDS:
        changes = await journal.changes(kind=kind.text)
        for key in dict.fromkeys(parse_object_key(each.key) for each in changes.records):
            answer = await why(now, REGISTRY, kind, key.name, key.namespace)
            check(answer)
            causes[answer.cause] += 1
            asked += 1
    assert asked > 50
    assert causes[Cause.NOT_RECORDED] <= asked // 100, causes
    assert len(causes) >= 8, causes


async def test_there_is_an_answer_at_any_moment(sim: Simulation):
    journal = await churned(sim, timedelta(seconds=60))
    reached = (await journal.extent()).reached
    chance = random.Random(3)
    changes = [each for each in (await journal.changes()).records if each.key.startswith(("core/pods/", "apps/"))]
    for _ in range(80):
        change = chance.choice(changes)
        at = await Moment.at_revision(journal, min(reached, change.revision + chance.choice((0, 1, 20))))
        kind = next(each for each in KINDS if change.key.startswith((f"core/{each.plural}/", f"apps/{each.plural}/")))
        key = parse_object_key(change.key)
        check(await why(at, REGISTRY, kind, key.name, key.namespace))
