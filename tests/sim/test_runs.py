"""Runs of scenarios: their verdicts, that the same seed is the same run anywhere, and that bugs are found."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from mainstay.env import Env, tasks
from mainstay.scenarios import SCENARIOS
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, FaultsHealed
from mainstay.sim.cluster.world import World
from mainstay.sim.run import forks
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.run import Booted, RunResult, RunVerdict, run
from mainstay.sim.run.scenario import Scenario, Stage
from tests.twins import sim as twins

pytestmark = pytest.mark.slow

CACHE_FOLLOWS = SCENARIOS["cache-follows"]
ONE_LEADER = SCENARIOS["one-leader"]


@pytest.fixture(scope="module")
def here() -> RunResult:
    return run(CACHE_FOLLOWS, 5)


# The same seed


@pytest.mark.parametrize("seeds", [[1], pytest.param([2], marks=pytest.mark.deep)], ids=["first", "more"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_passes(name: str, seeds: list[int]):  # `make sim-long` has thousands.
    results = list(run_many(SCENARIOS[name], seeds, jobs=2))

    assert [(result.verdict, result.problem) for result in results] == [(RunVerdict.PASSED, "")] * len(seeds)
    assert [result.seed for result in results] == seeds
    assert len({result.trace for result in results}) == len(seeds)


def test_a_fork_of_a_booted_world_makes_the_same_run_as_a_process_of_its_own(here: RunResult):
    forked = list(run_many(CACHE_FOLLOWS, [4, 5, 6], jobs=2))

    assert forked[1] == here


def test_a_second_run_in_the_same_process_makes_no_difference(here: RunResult):
    assert run(CACHE_FOLLOWS, 5) == here


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_another_process_and_hash_seed_make_no_difference(here: RunResult, hash_seed: str):
    command = "sim run cache-follows --seeds 1 --first-seed 5 --no-check --json"
    done = subprocess.run(
        [sys.executable, "-m", "mainstay.cli.main", *command.split()],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        check=True,
    )

    said = json.loads(done.stdout)
    assert (said["seed"], said["verdict"], said["trace"]) == (5, "passed", here.trace)


def test_a_tape_makes_the_same_run_again(here: RunResult):
    with Booted(CACHE_FOLLOWS) as booted:
        booted.go(5)
        tape = booted.tape

    assert run(CACHE_FOLLOWS, 5, tape=tape) == here


def test_an_empty_tape_is_a_run_without_faults():
    with Booted(CACHE_FOLLOWS) as booted:
        result = booted.go(5, Tape())
        events = [type(event).__name__ for event in booted.world.history.events]

    assert result.verdict is RunVerdict.PASSED
    assert "Fault" not in events
    assert "Crashed" not in events


def test_faults_do_happen():
    with Booted(CACHE_FOLLOWS) as booted:
        booted.go(5)
        events = [type(event).__name__ for event in booted.world.history.events]

    assert "FaultInjected" in events


# Verdicts


class Idle(Stage):
    """One server, and a program that has nothing to do."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")
        world.add_program("idle", self.main)

    async def main(self, env: Env) -> None:
        await asyncio.Event().wait()


class Unhappy(Idle):
    async def check(self) -> None:
        raise Violated("mood", "it is not happy")


class Waiting(Idle):
    async def check(self) -> None:
        while True:
            await tasks.sleep(timedelta(seconds=1))


class Broken(Idle):
    async def main(self, env: Env) -> None:
        await tasks.sleep(timedelta(seconds=3))
        raise RuntimeError("a bug")


class NeverReady(Idle):
    async def ready(self) -> None:
        raise RuntimeError("it cannot begin")


class Confused:
    """A checker with a bug of its own."""

    name = "confusion"

    def saw(self, event: Event) -> None:
        if isinstance(event, FaultsHealed):
            raise KeyError("where was I?")

    async def at_end(self, world: World) -> None:
        raise AssertionError("the run goes on")


class Spinning(Idle):
    """Never yields to the loop, so that no limit of virtual time ends it."""

    async def check(self) -> None:
        while True:
            pass


class Vanishing(Idle):
    async def check(self) -> None:
        os._exit(3)


def a_scenario(stage: type[Stage]) -> Scenario:
    return Scenario("small", "A small one.", stage, checkers=list, faults=(), lasts=timedelta(seconds=5))


@pytest.mark.parametrize(
    ("stage", "verdict", "problem"),
    [
        (Idle, RunVerdict.PASSED, ""),
        (Unhappy, RunVerdict.VIOLATED, "mood: it is not happy"),
        (Waiting, RunVerdict.STUCK, "the run has not ended"),
        (Broken, RunVerdict.FAILED, "RuntimeError: a bug"),
        (NeverReady, RunVerdict.FAILED, "it cannot begin"),
    ],
)
def test_a_run_has_a_verdict_and_a_problem(stage: type[Stage], verdict: RunVerdict, problem: str):
    alone = run(a_scenario(stage), 1)
    (forked,) = run_many(a_scenario(stage), [1])

    assert alone.verdict is verdict
    assert problem in alone.problem
    assert forked == alone


def test_a_checker_that_fails_ends_the_run_and_not_the_program_it_looks_at():
    result = run(replace(a_scenario(Idle), checkers=lambda: [Confused()]), 1)

    assert result.verdict is RunVerdict.FAILED
    assert "the checker of confusion: KeyError: 'where was I?'" in result.problem


def test_a_scenario_that_does_not_boot_is_tried_once():
    results = list(run_many(a_scenario(NeverReady), range(100)))

    assert [result.verdict for result in results] == [RunVerdict.FAILED]


def test_a_run_whose_process_never_answers_is_stuck(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forks, "WALL_MAX", timedelta(milliseconds=200))
    (result,) = run_many(a_scenario(Spinning), [1])

    assert (result.verdict, result.problem) == (RunVerdict.STUCK, "the process of the run died: it took too long")


def test_a_run_that_takes_its_process_with_it_is_a_failure_and_the_others_go_on():
    results = list(run_many(a_scenario(Vanishing), [1, 2]))

    assert [result.problem for result in results] == ["the process of the run died: ended with status 3"] * 2


# A core


class Paired(Idle):
    """Two programs, of which one is enough."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_program("other", self.main)

    def spares(self) -> list[list[str]]:
        return [["idle", "other"]]

    async def check(self) -> None:
        programs = self.world.programs.values()
        self.told = " ".join(program.name for program in programs if program.is_running)


def test_when_the_faults_are_over_a_random_core_lives_and_the_rest_stays_dead():
    results = list(run_many(replace(a_scenario(Paired), faults=("crash", "pause")), range(1, 41)))

    assert {result.told for result in results} == {"idle other", "idle", "other"}
    assert all(("permanently dead: " in result.drawn) == (result.told != "idle other") for result in results)


def test_without_a_choice_all_are_healed():
    assert run(a_scenario(Paired), 1, tape=Tape()).told == "idle other"


# Bugs


def found_by(scenario: Scenario, twin: twins.Twin, seeds: int) -> list[RunResult]:
    """The runs with a planted bug that do not pass. The bug is planted in forks, and nowhere else."""
    results = run_many(scenario, range(1, seeds + 1), jobs=2, patch=lambda: twin(pytest.MonkeyPatch()))
    return [result for result in results if not result.is_passed]


@pytest.mark.parametrize(
    ("scenario", "twin", "seeds", "problem"),
    [
        (CACHE_FOLLOWS, twins.forgets_deletes_when_a_watch_resumes, 24, "watch contract: "),
        pytest.param(
            CACHE_FOLLOWS,
            twins.keeps_what_a_new_list_lacks,
            24,
            "cache follows: the cache of writer-",
            marks=pytest.mark.deep,
        ),
        pytest.param(
            CACHE_FOLLOWS,
            twins.does_an_operation_each_time_it_is_asked,
            24,
            "acknowledged writes: operation ",
            marks=pytest.mark.deep,
        ),
        pytest.param(
            ONE_LEADER, twins.does_not_look_at_terms, 24, "one acting leader: a write of term ", marks=pytest.mark.deep
        ),
        (CACHE_FOLLOWS, twins.never_stops_writing, 1, "quiescence: 300 s after healing, writes still go on: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_bug_is_found(scenario: Scenario, twin: twins.Twin, seeds: int, problem: str):
    found = found_by(scenario, twin, seeds)

    assert [result for result in found if result.verdict is RunVerdict.VIOLATED and result.problem.startswith(problem)]
