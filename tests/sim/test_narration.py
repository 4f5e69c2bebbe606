"""A narrated run shows what was recorded, step by step, and what did not happen."""

import pkgutil
import re
import subprocess
import sys

import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.sim.cluster.history import ProgramCrashed, ProgramStarted
from mainstay.sim.narration.facts import RunFact
from mainstay.sim.narration.matchers import match_program
from mainstay.sim.narration.runner import NotNarrated, narrate
from mainstay.sim.narration.steps import NarratedFact, NarratedRun, NarratedStep, StepOutcome, follow_steps
from mainstay.sim.narration.text import WIDTH, render_narration
from mainstay.sim.run.lookup import find_patch
from mainstay.sim.run.patcher import AttributePatcher

EXAMPLES = [name for name, scenario in SCENARIOS.items() if scenario.narration is not None]


def a_fact(at_s: float, program: str, *, crashes: bool = False) -> RunFact:
    kind = ProgramCrashed if crashes else ProgramStarted
    return RunFact(int(at_s * 1e9), kind(int(at_s * 1e9), program, 0))


STARTS = NarratedStep("00:01", "it starts", match_program(ProgramStarted, ("scheduler",)))
CRASHES = NarratedStep("00:02", "it crashes", match_program(ProgramCrashed, ("scheduler",)))


def test_steps_are_found_in_order_with_what_was_recorded_of_them():
    facts = [a_fact(11, "scheduler"), a_fact(12, "other", crashes=True), a_fact(13, "scheduler", crashes=True)]

    assert follow_steps([STARTS, CRASHES], facts, began_ns=10**10) == [
        StepOutcome("00:01", "it starts", False, True, NarratedFact(1.0, "scheduler", "starts")),
        StepOutcome("00:02", "it crashes", False, True, NarratedFact(3.0, "scheduler", "crashes")),
    ]


def test_a_step_that_happened_too_early_did_not_happen():
    facts = [a_fact(11, "scheduler", crashes=True), a_fact(12, "scheduler")]

    assert [step.is_kept for step in follow_steps([STARTS, CRASHES], facts, 0)] == [True, False]


def test_a_step_may_be_declared_to_happen_at_any_time():
    facts = [a_fact(11, "scheduler", crashes=True), a_fact(12, "scheduler")]
    anytime = NarratedStep(CRASHES.at, CRASHES.text, CRASHES.match, is_anytime=True)

    assert [step.is_kept for step in follow_steps([STARTS, anytime], facts, 0)] == [True, True]


@pytest.mark.parametrize("crashes", [False, True])
def test_a_forbidden_step_is_kept_if_it_does_not_happen(crashes: bool):
    forbidden = NarratedStep("", "it crashes", CRASHES.match, is_forbidden=True)
    facts = [a_fact(11, "scheduler"), *([a_fact(12, "scheduler", crashes=True)] if crashes else [])]

    _, last = follow_steps([STARTS, forbidden], facts, 0)

    assert (last.is_kept, last.happened is not None) == (not crashes, crashes)


def test_the_text_marks_what_did_not_happen_and_stays_in_its_width():
    happened = NarratedFact(
        83.25, "scheduler", "w " * 80, "Pod a/" + "x" * 40, 2, 17, {"pods": 9, "nodes.x": 8}, ["p@3"]
    )
    steps = [StepOutcome("00:01", "it starts", False, True, happened), StepOutcome("", "y " * 60, True, False)]

    lines = render_narration(NarratedRun("s", "t", "F7", 5, "a bug", "violated", "bad: x", steps)).splitlines()

    assert lines[:2] == ["s: t (F7), seed 5", "planted weak design: a bug"]
    assert any(line.startswith("✓  00:01 it starts") and "+01:23.250 scheduler" in line for line in lines)
    assert any("generation 2; revision 17; policy p@3; saw pods@9," in line for line in lines)
    assert any(line.startswith("✗") and "never: y y" in line and "did not happen" in line for line in lines)
    assert lines[-1] == "verdict: violated, 1 of 2 steps as in the text: bad: x"
    assert max(map(len, lines)) <= WIDTH


def test_a_scenario_without_a_narration_is_refused():
    with pytest.raises(NotNarrated, match="cache-follows has no narration"):
        narrate(SCENARIOS["cache-follows"])


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_step_of_a_worked_example_happens(name: str):
    told = narrate(SCENARIOS[name])

    assert [step.expected for step in told.steps if not step.is_kept] == []
    assert (told.verdict, told.problem) == ("passed", "")
    assert max(map(len, render_narration(told).splitlines())) <= WIDTH


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_weak_design_of_a_worked_example_departs_from_it_and_fails(name: str):
    told = narrate(SCENARIOS[name], is_weak=True)

    assert [step.expected for step in told.steps if not step.is_kept]
    assert told.verdict == "violated"
    assert told.weak_design
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-|#\d|^ +\d", told.problem, re.MULTILINE), told.problem


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_same_narration_twice_is_the_same(name: str):
    assert narrate(SCENARIOS[name], seed=7) == narrate(SCENARIOS[name], seed=7)


# Planting without pytest.


def test_a_patcher_replaces_an_attribute_by_its_path_and_refuses_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mainstay.sim.narration.text.WIDTH", WIDTH)  # Put back in the end.

    AttributePatcher().setattr("mainstay.sim.narration.text.WIDTH", 7)

    assert pkgutil.resolve_name("mainstay.sim.narration.text.WIDTH") == 7
    with pytest.raises(AttributeError):
        AttributePatcher().setattr("mainstay.sim.narration.text.HEIGHT", 7)


@pytest.mark.slow
def test_weak_designs_can_be_planted_where_pytest_is_not_installed():
    names = [SCENARIOS[name].narration for name in EXAMPLES]
    plants = [f"{each.weak_design.__module__}:{each.weak_design.__name__}" for each in names if each is not None]
    assert all(map(find_patch, plants))
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from mainstay.sim.run.lookup import find_patch\n"
        f"for plant in {plants!r}: find_patch(plant)()\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
