"""The guard finds a run that is not the same in another process, and the line that makes it so."""

import inspect
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.sim.checkers import Violated
from mainstay.sim.run.determinism_guard import ONE_IN, DeterminismGuard, SampledRuns
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.repeat_process import RepeatFailed
from mainstay.sim.run.run import RunResult, RunVerdict
from mainstay.sim.run.scenario import Scenario
from tests.sim import leaky

pytestmark = pytest.mark.slow

HASH_SEED = 3


class DiesElsewhere(leaky.Leaky):
    async def check(self) -> None:
        if os.environ.get("PYTHONHASHSEED") == str(HASH_SEED):
            os._exit(7)


class BadAndDifferent(leaky.SetOrder):
    async def check(self) -> None:
        raise Violated("mood", "it is not happy")


DIES_ELSEWHERE = replace(leaky.TIGHT, make=DiesElsewhere)
BAD_AND_DIFFERENT = replace(leaky.TIGHT, make=BadAndDifferent)


@pytest.fixture(scope="module")
def guard() -> Iterator[DeterminismGuard]:
    with DeterminismGuard(one_in=1, hash_seed=HASH_SEED) as guard:
        yield guard


def made(scenario: Scenario) -> list[RunResult]:
    leaky.count()  # This process has done something before, the other one has not.
    results = list(run_many(scenario, [1]))
    assert [result.verdict for result in results] == [RunVerdict.PASSED]
    return results


def line_of(stage: type[leaky.Leaky]) -> int:
    lines, first = inspect.getsourcelines(stage)
    return first + next(number for number, line in enumerate(lines) if line.endswith("# LEAK\n"))


def test_a_run_that_does_not_leak_is_the_same_run_elsewhere(guard: DeterminismGuard):
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
def test_a_leak_is_located_to_its_line_on_both_sides(guard: DeterminismGuard, name: str, stage: type[leaky.Leaky]):
    (found,) = guard.check(f"tests.sim.leaky:{name}", made(getattr(leaky, name)))

    assert found.verdict is RunVerdict.DIFFERENT
    assert "the first difference is event " in found.problem
    place = f"tests/sim/leaky.py:{line_of(stage)} {stage.__name__}.leak"
    assert found.problem.count(place) == 2


def test_a_planted_bug_is_planted_elsewhere_as_well(guard: DeterminismGuard):
    plant = "tests.sim.leaky:greets_a_set_of_people"
    results = list(run_many(leaky.TIGHT, [1], patch=lambda: leaky.greets_a_set_of_people(pytest.MonkeyPatch())))

    (found,) = guard.check("tests.sim.leaky:TIGHT", results, planted=plant)

    assert "SetOrder.leak" in found.problem


def test_a_scenario_that_the_other_process_cannot_find_is_said_to_be_so(guard: DeterminismGuard):
    with pytest.raises(RepeatFailed, match="not found: "):
        guard.check("tests.sim.leaky:NOT_THERE", made(leaky.TIGHT))


def test_a_source_that_is_changed_meanwhile_is_not_taken_for_a_leak(
    guard: DeterminismGuard, monkeypatch: pytest.MonkeyPatch
):
    assert guard.check("tests.sim.leaky:TIGHT", made(leaky.TIGHT)) == []
    monkeypatch.setattr(guard._other, "_build", "the one of an hour ago")

    with pytest.raises(RepeatFailed, match="has changed since this process started"):
        guard.check("tests.sim.leaky:SET_ORDER", made(leaky.SET_ORDER))


def test_a_run_that_is_lost_elsewhere_is_a_different_one(guard: DeterminismGuard):
    before = guard.checked

    (found,) = guard.check(f"{__name__}:DIES_ELSEWHERE", made(DIES_ELSEWHERE))

    assert found.verdict is RunVerdict.DIFFERENT
    assert "its process died, ended with status 7; here the run ended (passed)" in found.problem
    assert guard.checked == before + 1


def test_an_other_process_that_has_died_is_not_asked_for_ever():
    with DeterminismGuard(one_in=1, hash_seed=HASH_SEED) as guard:
        assert guard.check("tests.sim.leaky:TIGHT", made(leaky.TIGHT)) == []
        assert guard._other is not None
        assert guard._other._process is not None
        guard._other._process.kill()

        with pytest.raises(RepeatFailed, match="exited with status -9"):
            guard.check("tests.sim.leaky:TIGHT", made(leaky.TIGHT))

        assert guard.check("tests.sim.leaky:TIGHT", made(leaky.TIGHT)) == []


def due_of(scenario: str, seeds: Sequence[int], one_in: int = ONE_IN) -> list[int]:
    due = SampledRuns(one_in)
    for seed in seeds:
        due.add(RunResult(scenario, seed, RunVerdict.PASSED, "", trace="a", virtual_s=1.0, choices=0))
    return [result.seed for result in due]


def test_one_run_of_twenty_is_chosen():
    assert 900 < len(due_of("it", range(20_000))) < 1100
    assert due_of("it", range(100), one_in=0) == []
    assert due_of("it", range(100), one_in=1) == list(range(100))
    assert ONE_IN == 20


def test_of_few_runs_one_is_chosen_and_not_the_same_seed_in_each_scenario():
    names = [f"scenario-{number}" for number in range(40)]
    chosen = [due_of(name, range(1, 11)) for name in names]

    assert all(chosen)
    assert sum(map(len, chosen)) < 60
    assert {seed for seeds in chosen for seed in seeds} == {*range(1, 11)}
    assert due_of("it", [5]) == [5]


def test_what_is_due_of_those_that_are_due_is_all_of_them():
    for name in ("a", "b", "c", "d"):
        chosen = due_of(name, range(30))

        assert due_of(name, chosen) == chosen


def test_a_run_that_was_lost_here_cannot_be_compared():
    due = SampledRuns(one_in=1)
    due.add(RunResult("it", 1, RunVerdict.STUCK, "lost", trace="", virtual_s=1.0, choices=0))

    assert list(due) == []


def test_nothing_is_started_if_nothing_is_due():
    with DeterminismGuard(one_in=0) as guard:
        assert guard.check("no such scenario", made(leaky.TIGHT)) == []


def test_the_other_process_finds_modules_where_this_one_does(
    guard: DeterminismGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere.py").write_text("from tests.sim.leaky import TIGHT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with DeterminismGuard(one_in=1, hash_seed=5) as fresh:
        assert fresh.check("elsewhere:TIGHT", made(leaky.TIGHT)) == []
        assert fresh.checked == 1


def test_a_leak_has_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "tests.sim.leaky:SET_ORDER", "--seeds", "1", "--check"]) == Exit.DIFFERENT

    said = capsys.readouterr().out
    assert "leaky seed 1: different\n" in said
    assert "repeat with: mainstay sim run tests.sim.leaky:SET_ORDER --seeds 1 --first-seed 1 --check\n" in said


def test_no_run_is_repeated_if_the_check_is_off(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "tests.sim.leaky:SET_ORDER", "--seeds", "1", "--no-check"]) == Exit.SATISFIED

    assert "repeated to check determinism" not in capsys.readouterr().out


def test_one_of_a_few_runs_is_made_twice_and_said_to_be(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "tests.sim.leaky:SET_ORDER", "--seeds", "3"]) == Exit.DIFFERENT

    assert "leaky: 1 of 3 runs failed (1 repeated to check determinism), seeds 1 to 3, " in capsys.readouterr().out


def test_a_run_that_is_bad_and_different_is_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)

    assert run(["sim", "run", f"{__name__}:BAD_AND_DIFFERENT", "--seeds", "1"]) == Exit.VIOLATED

    said = capsys.readouterr().out
    assert "leaky seed 1: violated\n" in said
    assert "leaky seed 1: different\n" in said
    assert "leaky: 1 of 1 run failed (1 repeated to check determinism), seeds 1 to 1, " in said
