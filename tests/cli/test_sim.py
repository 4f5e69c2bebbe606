"""`mainstay sim` as people and scripts use it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.cli.main import run
from mainstay.sim import scenarios
from mainstay.sim.checkers import Violated
from mainstay.sim.scenario import Scenario, Stage
from mainstay.sim.world import World


class Small(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")


class Unhappy(Small):
    async def check(self) -> None:
        if self.world.sim.seed == 3:
            raise Violated("mood", "it is not happy")


def a_scenario(name: str, stage: type[Stage]) -> Scenario:
    return Scenario(
        name, f"About {name}.", stage, checkers=list, faults=(), lasts=timedelta(seconds=1), ids=("T1", "7")
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two scenarios that take no time; the second fails with seed 3. Bundles go to a directory of the test's own."""
    monkeypatch.chdir(tmp_path)
    known = [a_scenario("fine", Small), a_scenario("unhappy", Unhappy)]
    monkeypatch.setattr(scenarios, "SCENARIOS", {scenario.name: scenario for scenario in known})


def test_scenarios_are_listed(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "list"]) == 0

    assert capsys.readouterr().out.splitlines() == ["fine     T1 7  About fine.", "unhappy  T1 7  About unhappy."]


def test_scenarios_are_listed_for_programs(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "list", "--json"]) == 0

    assert [json.loads(line)["scenario"] for line in capsys.readouterr().out.splitlines()] == ["fine", "unhappy"]


def test_runs_that_pass_are_summed_up(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "fine", "--seeds", "3", "--jobs", "2"]) == 0

    output = capsys.readouterr()
    assert output.out.startswith("fine: 3 runs, all passed, seeds 1 to 3, ")
    assert "fine: 3 runs, 2 at once" in output.err


def test_each_run_is_an_object_for_programs(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "fine", "--seeds", "2", "--first-seed", "7", "--json"]) == 0

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert sorted(first) == ["choices", "drawn", "problem", "scenario", "seed", "trace", "verdict", "virtual_s"]
    assert (first["scenario"], first["seed"], first["verdict"], first["problem"]) == ("fine", 7, "passed", "")
    assert second["seed"] == 8
    assert len(first["trace"]) == 32
    assert first["trace"] != second["trace"]


def test_a_run_that_fails_says_how_to_run_it_again(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "unhappy", "--seeds", "5"]) == 10

    output = capsys.readouterr().out
    assert "unhappy seed 3: violated\n  mood: it is not happy\n" in output
    assert "  drawn: strategy random; faults: none\n" in output
    assert "  run it again: mainstay sim run unhappy --seeds 1 --first-seed 3\n" in output
    assert "  its story: mainstay sim replay sim-failures/unhappy-3.run.json --story\n" in output
    assert Path("sim-failures/unhappy-3.run.json").exists()
    assert "unhappy: 5 runs, 1 not passed" in output


def test_a_run_that_fails_says_so_to_programs_too(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "unhappy", "--seeds", "1", "--first-seed", "3", "--json", "--bundles", "kept"]) == 10

    output = capsys.readouterr()
    said = json.loads(output.out)
    assert (said["verdict"], said["problem"]) == ("violated", "mood: it is not happy")
    assert said["again"] == "mainstay sim run unhappy --seeds 1 --first-seed 3"
    assert said["bundle"] == "kept/unhappy-3.run.json"
    assert said["again"] in output.err


def test_all_scenarios_are_run_even_if_one_fails(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "run", "--all", "--seeds", "3", "--json"]) == 10

    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["scenario"], each["seed"]) for each in said] == [
        ("fine", 1),
        ("fine", 2),
        ("fine", 3),
        ("unhappy", 1),
        ("unhappy", 2),
        ("unhappy", 3),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "Which scenario?"),
        (["run", "nope"], "There is no scenario 'nope'"),
        (["run", "fine", "--all"], "Either one scenario, or --all"),
        (["run", "fine", "--seeds", "0"], "--seeds"),
        (["run", "fine", "--jobs", "many"], "--jobs"),
        (["walk"], "No such command"),
    ],
)
def test_wrong_usage_is_told_from_a_run_that_fails(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]):
    assert run(["sim", *arguments]) == 64

    assert says in capsys.readouterr().err
