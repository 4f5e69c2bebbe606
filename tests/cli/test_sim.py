"""`mainstay sim` as people and scripts use it."""

import json
import os
import re
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay import scenarios
from mainstay.cli.main import run
from mainstay.cli.sim.report import RunOptions
from mainstay.cli.sim.run import run_all
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage

pytestmark = pytest.mark.slow


class Small(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")


class Vanishing(Small):
    async def check(self) -> None:
        os._exit(3)


class Unhappy(Small):
    async def check(self) -> None:
        if self.world.sim.seed == 3:
            raise Violated("mood", "it is not happy")


def a_scenario(name: str, stage: type[Stage]) -> Scenario:
    return Scenario(
        name, f"About {name}.", stage, checkers=list, faults=(), lasts=timedelta(seconds=1), ids=("T1", "7")
    )


FINE = a_scenario("fine", Small)
VANISHING = a_scenario("vanishing", Vanishing)
ONCE = "--no-check"  # The other process does not know those that the fixture names.


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two scenarios that take no time; the second fails with seed 3. Bundles go to a directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    known = [FINE, a_scenario("unhappy", Unhappy)]
    monkeypatch.setattr(scenarios, "SCENARIOS", {scenario.name: scenario for scenario in known})


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "list"]) == 0

    assert capsys.readouterr().out.splitlines() == ["fine     T1 7  About fine.", "unhappy  T1 7  About unhappy."]


def test_scenarios_are_listed_for_programs(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "list", "--json"]) == 0

    assert [json.loads(line)["scenario"] for line in capsys.readouterr().out.splitlines()] == ["fine", "unhappy"]


def test_runs_that_pass_are_summed_up(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", f"{__name__}:FINE", "--seeds", "3", "--jobs", "2"]) == 0

    output = capsys.readouterr()
    assert output.out.startswith("fine: 3 runs passed (1 repeated to check determinism), seeds 1 to 3, ")
    assert "fine: 3 runs, 2 in parallel" in output.err


def test_runs_that_are_made_once_only_are_summed_up_without_more(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "fine", "--seeds", "3", "--no-check"]) == 0

    assert re.fullmatch(r"fine: 3 runs passed, seeds 1 to 3, [\d.]+ s\n", capsys.readouterr().out)


def test_each_run_is_an_object_for_programs(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "fine", "--seeds", "2", "--first-seed", "7", "--json", ONCE]) == 0

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert sorted(first) == ["choices", "drawn", "problem", "scenario", "seed", "trace", "verdict", "virtual_s"]
    assert (first["scenario"], first["seed"], first["verdict"], first["problem"]) == ("fine", 7, "passed", "")
    assert second["seed"] == 8
    assert len(first["trace"]) == 32
    assert first["trace"] != second["trace"]


def test_a_run_that_fails_says_how_to_run_it_again(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "unhappy", "--seeds", "5", ONCE]) == 10

    output = capsys.readouterr().out
    assert "unhappy seed 3: violated\n  mood: it is not happy\n" in output
    assert "  setup: strategy random; faults: none\n" in output
    assert "  repeat with: mainstay sim run unhappy --seeds 1 --first-seed 3\n" in output
    assert "  story and waiting tasks: mainstay sim replay sim-failures/unhappy-3.run.json --story\n" in output
    assert Path("sim-failures/unhappy-3.run.json").exists()
    assert "unhappy: 1 of 5 runs failed" in output


def test_a_run_that_fails_says_so_to_programs_too(capsys: pytest.CaptureFixture[str]):
    only = ["--seeds", "1", "--first-seed", "3", ONCE]
    assert run(["sim", "run", "unhappy", *only, "--json", "--bundles", "kept"]) == 10

    output = capsys.readouterr()
    said = json.loads(output.out)
    assert (said["verdict"], said["problem"]) == ("violated", "mood: it is not happy")
    assert said["again"] == "mainstay sim run unhappy --seeds 1 --first-seed 3"
    assert said["bundle"] == "kept/unhappy-3.run.json"
    assert said["again"] in output.err


def test_all_scenarios_are_run_even_if_one_fails(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "--all", "--seeds", "3", "--json", ONCE]) == 10

    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["scenario"], each["seed"]) for each in said] == [
        ("fine", 1),
        ("fine", 2),
        ("fine", 3),
        ("unhappy", 1),
        ("unhappy", 2),
        ("unhappy", 3),
    ]


def test_a_run_whose_process_is_lost_has_no_bundle_and_says_how_to_run_it_again(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", f"{__name__}:VANISHING", "--seeds", "1"]) == 12

    said = capsys.readouterr().out
    assert "vanishing seed 1: failed\n  the process of the run died: ended with status 3\n" in said
    assert f"  repeat with: mainstay sim run {__name__}:VANISHING --seeds 1 --first-seed 1\n" in said
    assert "  no bundle: the process of the run died, and its choices with it\n" in said
    assert not Path("sim-failures").exists()


def test_a_run_without_a_bundle_says_where_to_see_who_waits(capsys: pytest.CaptureFixture[str]):
    run_all("unhappy", scenarios.SCENARIOS["unhappy"], [3], RunOptions(jobs=1), again="mainstay sim continue it")

    said = capsys.readouterr().out
    assert "  waiting tasks: mainstay sim continue it --seeds 1 --first-seed 3 --json\n" in said


def test_runs_that_cannot_be_made_twice_are_said_and_not_taken_for_good(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "fine", "--seeds", "3"]) == 1

    output = capsys.readouterr()
    assert output.out.startswith("fine: 3 runs passed (0 repeated to check determinism), seeds 1 to 3, ")
    assert "mainstay: cannot repeat runs of fine: unknown scenario 'fine'" in output.err


def test_runs_that_cannot_be_made_twice_do_not_end_what_else_is_done(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "--all", "--seeds", "3"]) == 10

    output = capsys.readouterr()
    assert "fine: 3 runs passed " in output.out
    assert "unhappy: 1 of 3 runs failed " in output.out
    assert output.err.count("cannot repeat runs") == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "missing argument SCENARIO"),
        (["run", "nope"], "nknown scenario 'nope'"),
        (["run", "fine", "--all"], "exclude each other"),
        (["run", "fine", "--seeds", "0"], "--seeds"),
        (["run", "fine", "--jobs", "many"], "--jobs"),
        (["run", "fine", "--narrate", "--seeds", "5"], "--seeds excludes --narrate, which makes one run"),
        (["walk"], "unknown command 'walk'"),
    ],
)
def test_wrong_usage_is_told_from_a_run_that_fails(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]):
    assert run(["sim", *arguments]) == 64

    assert says in capsys.readouterr().err
