"""A run is kept in a file, and made again from it."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from mainstay.env.processes import TOO_LONG
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.expected_state import ExpectedState
from mainstay.sim.cluster.final_state import expect_end
from mainstay.sim.cluster.world import World
from mainstay.sim.run.bundle import BadRunBundle, RunBundle, can_be_kept
from mainstay.sim.run.forks import LostFork, report_lost_fork, run_many
from mainstay.sim.run.run import RunResult, RunVerdict, run
from mainstay.sim.run.scenario import Scenario, Stage

pytestmark = pytest.mark.slow


class Unlucky(Stage):
    """Fails if the network was ever cut."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")
        world.add_node("node-1")

    async def check(self) -> None:
        if cuts := [event for event in self.world.history.events if "is partitioned" in str(event)]:
            raise Violated("luck", "it was partitioned", cuts[:1])


UNLUCKY = Scenario("unlucky", "Cuts are bad.", Unlucky, list, faults=("cut", "pause"), lasts=timedelta(seconds=30))


class Same(Stage):
    """Is compared with what it should end with."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")


SAME = Scenario("same", "Ends as it should.", Same, list, faults=(), lasts=timedelta(seconds=1))


@pytest.fixture(scope="module")
def failing() -> RunResult:
    return next(result for result in run_many(UNLUCKY, range(1, 50)) if not result.is_passed)


def test_a_run_that_fails_has_the_choices_that_were_not_benign_and_says_who_waits(failing: RunResult):
    assert failing.verdict is RunVerdict.VIOLATED
    assert all(choice.chosen for choice in failing.tape)
    assert any(choice.label == "fault/cut" for choice in failing.tape)
    assert "server-1/0: " in failing.waiting
    assert failing.drawn.startswith("strategy random; faults: cut")


def test_a_bundle_makes_the_same_run_again(failing: RunResult, tmp_path: Path):
    path = tmp_path / "unlucky.run.json"
    RunBundle.of(failing, scenario=f"{__name__}:UNLUCKY").save(path)

    bundle = RunBundle.load(path)
    again = run(bundle.the_scenario(), bundle.seed, tape=bundle.the_tape())

    assert bundle.is_of_this_build
    assert bundle.result == failing
    assert (again.verdict, again.problem, again.trace) == (failing.verdict, failing.problem, failing.trace)


def test_there_is_no_bundle_of_what_no_choices_make_again(failing: RunResult):
    assert can_be_kept(failing)
    assert not can_be_kept(report_lost_fork(UNLUCKY, 1, LostFork(TOO_LONG)))
    assert not can_be_kept(msgspec.structs.replace(failing, verdict=RunVerdict.DIFFERENT, tape=[]))


def test_a_run_that_ended_otherwise_than_it_should_does_so_again():
    ended = run(expect_end(SAME, ExpectedState({"nothing/else": [{}]})), seed=1)

    again = run(RunBundle.of(ended, scenario=f"{__name__}:SAME").the_scenario(), seed=1)

    assert ended.problem.startswith("final state: the final state differs from that of the run without the fault")
    assert (again.verdict, again.problem, again.trace) == (ended.verdict, ended.problem, ended.trace)


@pytest.mark.parametrize(
    ("content", "problem"),
    [("not JSON", "is not a run bundle"), ('{"format": "other-1"}', "is not a run bundle")],
)
def test_another_file_is_refused(content: str, problem: str, tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_text(content)

    with pytest.raises(BadRunBundle, match=problem):
        RunBundle.load(path)


def test_a_file_that_is_not_there_is_said():
    with pytest.raises(BadRunBundle, match=r"cannot read bundle /nowhere: No such file"):
        RunBundle.load(Path("/nowhere"))
