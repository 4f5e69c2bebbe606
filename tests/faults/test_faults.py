"""`why` names the root cause of at least 36 of 40 planted faults, and the page of faults is true."""

import re
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, SERVICES
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.dispatch import why
from mainstay.registry import REGISTRY
from mainstay.sim.cluster.cluster import whole_cluster
from mainstay.sim.simulation import Simulation
from tests.faults.bed import Bed
from tests.faults.bystanders import bystanders
from tests.faults.catalogue import FAULTS, HELD_OUT, HELD_OUT_NAMED_AT_FIRST, WANTED
from tests.faults.fault import TWO_NODES, Ask, Fault
from tests.faults.judging import Result, judged, tried
from tests.faults.objects import a_deployment
from tests.faults.placing import taint
from tests.faults.real import REAL

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
ROW = re.compile(r"\| (\d+) \| `([a-z-]+)` \|.*\| (●?) ?\|")


def shown(results: list[Result]) -> str:
    return "\n".join(f"{each.fault.name}: {each.why_not}\n    {each.sentence}" for each in results)


def test_why_names_the_planted_root_cause_of_nearly_all_faults():
    results = [tried(fault) for fault in FAULTS]

    not_asked = [each for each in results if each.not_planted or each.error]
    assert not not_asked, shown(not_asked)
    misses = [each for each in results if not each.is_hit]
    sys.stdout.write(f"{len(results) - len(misses)} of {len(results)} are named; not:\n{shown(misses)}\n")
    assert len(results) - len(misses) >= WANTED, shown(misses)


@pytest.mark.deep
def test_why_names_most_of_what_was_in_no_list():
    results = [tried(fault) for fault in HELD_OUT]

    not_asked = [each for each in results if each.not_planted or each.error]
    assert not not_asked, shown(not_asked)
    misses = [each for each in results if not each.is_hit]
    assert len(results) - len(misses) >= HELD_OUT_NAMED_AT_FIRST, shown(misses)


async def test_where_nothing_is_wrong_nothing_is_blamed(sim: Simulation):
    async with whole_cluster(sim, nodes=TWO_NODES) as cluster, AsyncExitStack() as closing:
        bed = Bed(cluster, closing)
        await bed.until_all_is_well()
        await closing.enter_async_context(bystanders(bed.client))
        await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await bed.client.create(SERVICES, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        pods = await bed.must_have_ready("web", 2)
        await bed.rest(30)

        moment = await Moment.now(cluster.journal)
        asked = [(DEPLOYMENTS, "web"), (SERVICES, "web"), (NODES, "node-a"), (PODS, pods[0]["metadata"]["name"])]
        answers = {str(kind): await why(moment, REGISTRY, kind, name, _namespace(kind)) for kind, name in asked}

    assert {kind: answer.verdict for kind, answer in answers.items()} == dict.fromkeys(answers, Verdict.SATISFIED)


def _namespace(kind: KindName) -> str:
    return "default" if kind.namespaced else ""


def test_the_page_has_the_faults_that_are_planted_in_their_order():
    rows = [match.groups() for match in map(ROW.match, PAGE.read_text().splitlines()) if match is not None]

    assert [(int(number), name) for number, name, _ in rows] == [(n + 1, each.name) for n, each in enumerate(FAULTS)]
    assert sorted(name for _, name, is_real in rows if is_real) == sorted(REAL)
    assert len(FAULTS) == 40
    assert len(REAL) == 10


def test_each_word_that_must_be_named_stands_on_the_page_too():
    rows = {match[2]: match[0].replace("\\|", "|") for match in map(ROW.match, PAGE.read_text().splitlines()) if match}

    missing = [(each.name, word) for each in FAULTS for word in each.words if f"`{word}`" not in rows[each.name]]
    assert missing == []


def a_fault(*words: str) -> Fault:
    return replace(taint, codes=(Cause.UNTOLERATED_TAINT,), words=words)


@pytest.mark.parametrize(
    ("code", "sentence", "is_hit"),
    [
        (Cause.UNTOLERATED_TAINT, "both nodes have the taint Dedicated=batch", True),
        (Cause.UNTOLERATED_TAINT, "both nodes have a taint", False),
        (Cause.NODE_CORDONED, "both nodes are dedicated", False),
    ],
)
def test_a_hit_needs_the_code_and_the_words(code: Cause, sentence: str, is_hit: bool):
    result = judged(a_fault("dedicated", "node|machine"), "pod/web", code, sentence)

    assert result.is_hit is is_hit
    assert bool(result.why_not) is not is_hit


def test_a_fault_that_has_made_sure_of_nothing_is_not_planted():
    async def nothing(bed: Bed) -> Ask:
        return Ask(PODS, "web")

    result = tried(replace(taint, plant=nothing))

    assert result.not_planted
    assert not result.is_hit


def test_a_fault_whose_trouble_does_not_come_is_not_planted():
    async def runs_well(bed: Bed) -> Ask:
        await bed.must_be_pending("web")
        return Ask(PODS, "web")

    assert "web waits for a node" in tried(replace(taint, plant=runs_well)).not_planted
