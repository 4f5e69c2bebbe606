"""A failing run becomes small, and what is left is what matters."""

from datetime import timedelta

import pytest

from mainstay.env import tasks
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World
from mainstay.sim.failure.choice_units import Unit, group_choices, make_tape, weigh
from mainstay.sim.failure.shrinker import DoesNotFail, ShrinkStep, find_symptom, shrink
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Choice
from mainstay.sim.run.run import RunResult, RunVerdict, run
from mainstay.sim.run.scenario import Scenario, Stage
from tests.sim.failing_run import LOST, failing_run

pytestmark = pytest.mark.slow


class Picky(Stage):
    """Works in thirty steps. It minds the fifth and the twentieth, and the latter only if it is large."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")

    async def check(self) -> None:
        chosen = []
        for _ in range(30):
            chosen.append(self.world.sim.choices.choose("work/step", 9))
            await tasks.sleep(timedelta(milliseconds=1))
        if chosen[4] and chosen[19] >= 5:
            raise Violated("taste", f"{chosen[4]} and {chosen[19]} do not go together")
        if chosen[4]:
            raise Violated("decency", "another promise")


PICKY = Scenario("picky", "Minds two of its steps.", Picky, list, faults=(), lasts=timedelta(seconds=1))


def a_bundle(seed: int = 1) -> RunBundle:
    tape = [Choice("work/step", place, 9, 8 - place % 3) for place in range(30)]
    result = run(PICKY, seed, tape=make_tape([Unit((choice,)) for choice in tape]))
    return RunBundle.of(result, scenario=f"{__name__}:PICKY")


def test_what_does_not_matter_is_taken_away_and_what_does_becomes_as_small_as_it_can():
    bundle = a_bundle()
    assert bundle.result.problem == "taste: 7 and 7 do not go together"
    steps: list[ShrinkStep] = []

    small = shrink(bundle, jobs=2, say=steps.append)

    assert [(each.first.ordinal, each.first.chosen) for each in small.units] == [(4, 1), (19, 5)]
    assert (small.before, small.after, small.is_done) == (30, 2, True)
    assert small.bundle.result.problem == "taste: 1 and 5 do not go together"
    assert steps[-1].choices == 2
    assert small.runs == pytest.approx(40, abs=25)


@pytest.mark.deep
def test_how_many_are_tried_at_once_makes_no_difference():
    assert shrink(a_bundle(), jobs=1).bundle == shrink(a_bundle(), jobs=3).bundle


def test_the_bundle_of_the_small_run_makes_that_run():
    small = shrink(a_bundle()).bundle

    again = run(small.the_scenario(), small.seed, tape=small.the_tape())

    assert (again.problem, again.trace) == (small.result.problem, small.result.trace)


def test_of_faults_and_work_that_came_along_one_lost_answer_is_left():
    small = shrink(failing_run(), jobs=2)

    assert small.bundle.tape == [LOST]
    assert small.bundle.result.problem.startswith("acknowledged writes: operation deliver.")


def test_when_there_is_no_time_what_was_found_so_far_is_given():
    small = shrink(a_bundle(), within=timedelta(0))

    assert not small.is_done
    assert small.bundle.result.problem.startswith("taste: ")


def test_a_run_that_passes_here_cannot_be_shrunk():
    bundle = a_bundle()
    other = RunBundle(**{**{name: getattr(bundle, name) for name in bundle.__struct_fields__}, "tape": []})

    with pytest.raises(DoesNotFail, match="the run does not repeat here: passed"):
        shrink(other)


def test_a_run_that_has_passed_is_not_shrunk():
    passed = RunBundle.of(run(PICKY, 1, tape=make_tape([])), scenario=f"{__name__}:PICKY")

    with pytest.raises(DoesNotFail, match="the run of this bundle passed"):
        shrink(passed)


# What belongs together


def test_a_fault_goes_with_all_that_says_how_it_happens():
    tape = [
        Choice("fault/crash/is-on", 0, 2, 1),
        Choice("fault/crash", 0, 2, 1),
        Choice("fault/crash/who", 0, 3, 2),
        Choice("fault/crash/duration", 0, 7, 0),
        Choice("work/what", 0, 4, 3),
        Choice("fault/crash", 1, 2, 0),
        Choice("fault/crash", 2, 2, 1),
        Choice("fault/crash/who", 1, 3, 1),
        Choice("fault/crash/duration", 1, 7, 4),
        Choice("fault/answer-lost/clerk", 7, 2, 1),
    ]

    units = group_choices(tape, {"clerk": None})

    assert [unit.group for unit in units] == ["fault/crash", "work/what", "fault/crash", "fault/answer-lost"]
    assert [unit.weight for unit in units] == [2, 1, 3, 1]
    assert weigh(units) == 7
    assert make_tape(units).choices == [choice for choice in tape[1:] if choice.chosen]


def test_what_users_do_at_all_in_a_run_is_part_of_it():
    tape = [Choice("users/drain/is-on", 0, 2, 1), Choice("work/what", 0, 4, 3)]

    assert make_tape(group_choices(tape, {})).choices == tape


def test_without_the_first_of_two_faults_the_second_still_hits_whom_it_hit():
    tape = [
        Choice("fault/crash", 0, 2, 1),
        Choice("fault/crash/who", 0, 3, 2),
        Choice("fault/crash", 5, 2, 1),
        Choice("fault/crash/who", 1, 3, 1),
    ]

    first, second = group_choices(tape, {})

    assert make_tape([second]).choices == [Choice("fault/crash", 5, 2, 1), Choice("fault/crash/who", 0, 3, 1)]
    assert make_tape([first.plainly(), second]).choices == [tape[0], *tape[2:]]


@pytest.mark.parametrize(
    ("verdict", "problem", "symptom"),
    [
        (RunVerdict.VIOLATED, "count: there are 3\n  12.5 revision 7", "count"),
        (RunVerdict.STUCK, "the run is not over after 900 s: it waits", "the run is not over after  s"),
        (RunVerdict.FAILED, "ValueError: 7\n  a.py:3 f\n  b.py:44 g", "b.py g"),
    ],
)
def test_a_failure_is_known_again_by_its_checker_or_its_place(verdict: RunVerdict, problem: str, symptom: str):
    assert find_symptom(RunResult("any", 1, verdict, problem, "", 0.0, 0)) == (verdict, symptom)
