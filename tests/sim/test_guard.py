"""The guard finds a run that is not the same in another process, and the line that makes it so."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.sim.forks import run_many
from mainstay.sim.guard import ONE_IN, Guard, is_chosen
from mainstay.sim.other_process import NoAnswer
from mainstay.sim.run import RunResult, Verdict
from mainstay.sim.scenario import Scenario
from tests.sim import leaky


@pytest.fixture(scope="module")
def guard() -> Iterator[Guard]:
    with Guard(one_in=1, hash_seed=3) as guard:
        yield guard


def made(scenario: Scenario) -> list[RunResult]:
    leaky.count()  # This process has done something before, the other one has not.
    results = list(run_many(scenario, [1]))
    assert [result.verdict for result in results] == [Verdict.PASSED]
    return results


def line_of(stage: type[leaky.Leaky]) -> int:
    lines, first = inspect.getsourcelines(stage)
    return first + next(number for number, line in enumerate(lines) if line.endswith("# LEAK\n"))


def test_a_run_that_does_not_leak_is_the_same_run_elsewhere(guard: Guard):
    before = guard.checked

    assert guard.check("tests.sim.leaky:TIGHT", made(leaky.TIGHT)) == []
    assert guard.checked == before + 1


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("SET_ORDER", leaky.SetOrder),
        ("ADDRESS_ORDER", leaky.AddressOrder),
        ("REAL_TIME", leaky.RealTime),
        ("COUNTER", leaky.Counter),
    ],
)
def test_a_leak_is_located_to_its_line_on_both_sides(guard: Guard, name: str, stage: type[leaky.Leaky]):
    (found,) = guard.check(f"tests.sim.leaky:{name}", made(getattr(leaky, name)))

    assert found.verdict is Verdict.DIFFERENT
    assert "the first difference is event " in found.problem
    place = f"tests/sim/leaky.py:{line_of(stage)} {stage.__name__}.leak"
    assert found.problem.count(place) == 2


def test_a_planted_bug_is_planted_elsewhere_as_well(guard: Guard):
    plant = "tests.sim.leaky:greets_a_set_of_people"
    results = list(run_many(leaky.TIGHT, [1], patch=lambda: leaky.greets_a_set_of_people(pytest.MonkeyPatch())))

    (found,) = guard.check("tests.sim.leaky:TIGHT", results, planted=plant)

    assert "SetOrder.leak" in found.problem


def test_a_scenario_that_the_other_process_cannot_find_is_said_to_be_so(guard: Guard):
    with pytest.raises(NoAnswer, match="cannot be found: "):
        guard.check("tests.sim.leaky:NOT_THERE", made(leaky.TIGHT))


def test_a_source_that_is_changed_meanwhile_is_not_taken_for_a_leak(guard: Guard, monkeypatch: pytest.MonkeyPatch):
    assert guard.check("tests.sim.leaky:TIGHT", made(leaky.TIGHT)) == []
    monkeypatch.setattr(guard._other, "_build", "the one of an hour ago")

    with pytest.raises(NoAnswer, match="has changed since this process was started"):
        guard.check("tests.sim.leaky:SET_ORDER", made(leaky.SET_ORDER))


def test_one_run_of_twenty_is_chosen_by_its_seed():
    chosen = [seed for seed in range(20_000) if is_chosen(seed)]

    assert 900 < len(chosen) < 1100
    assert not any(is_chosen(seed, 0) for seed in range(100))
    assert all(is_chosen(seed, 1) for seed in range(100))
    assert ONE_IN == 20


def test_nothing_is_started_if_nothing_is_due():
    with Guard(one_in=0) as guard:
        assert guard.check("no such scenario", made(leaky.TIGHT)) == []


def test_the_other_process_finds_modules_where_this_one_does(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere.py").write_text("from tests.sim.leaky import TIGHT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Guard(one_in=1, hash_seed=5) as fresh:
        assert fresh.check("elsewhere:TIGHT", made(leaky.TIGHT)) == []
        assert fresh.checked == 1


def test_a_leak_has_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "tests.sim.leaky:SET_ORDER", "--seeds", "1", "--check"]) == Exit.DIFFERENT

    said = capsys.readouterr().out
    assert "leaky seed 1: different\n" in said
    assert "run it again: mainstay sim run tests.sim.leaky:SET_ORDER --seeds 1 --first-seed 1 --check\n" in said


def test_nothing_is_made_twice_if_nobody_wants_it(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "tests.sim.leaky:SET_ORDER", "--seeds", "1", "--no-check"]) == Exit.SATISFIED
