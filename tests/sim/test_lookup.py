"""Scenarios and bugs are found by name, also those of users; what is not there is said with what to do."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.lookup import UnknownScenario, find_patch, find_scenario, name_scenario
from mainstay.sim.run.scenario import Stage

MINE = SCENARIOS["one-leader"]
NO_SCENARIO = "a text"
WHAT_IT_SAYS = "the truth"


def lies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{__name__}.WHAT_IT_SAYS", "a lie")


def test_a_scenario_of_mainstay_is_found_by_its_name():
    assert find_scenario("one-leader") is SCENARIOS["one-leader"]


def test_a_scenario_of_a_user_is_found_by_module_and_attribute():
    assert find_scenario(f"{__name__}:MINE") is MINE


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("two-leaders", "`mainstay sim list` shows all names"),
        ("no.such.module:MINE", "No module named 'no'"),
        (f"{__name__}:YOURS", "has no attribute 'YOURS'"),
        (f"{__name__}:NO_SCENARIO", "is a str, not a mainstay.sim.run.scenario.Scenario"),
        (f"{__name__}:", "write module:attribute"),
    ],
)
def test_what_is_no_scenario_is_said_with_what_to_do(name: str, problem: str):
    with pytest.raises(UnknownScenario, match=problem):
        find_scenario(name)


class Own(Stage):
    pass


OWN = replace(MINE, make=Own)
WITH_OWN_CHECKERS = replace(MINE, checkers=lambda: [WatchContract()])


@pytest.mark.parametrize("attribute", ["OWN", "WITH_OWN_CHECKERS"])
def test_a_scenario_is_named_by_the_module_that_makes_it(attribute: str, monkeypatch: pytest.MonkeyPatch):
    importing = ModuleType("test_of_a_user")
    importing.__dict__[attribute] = globals()[attribute]
    monkeypatch.setattr(sys, "modules", {"test_of_a_user": importing, **sys.modules})

    assert name_scenario(globals()[attribute]) == f"{__name__}:{attribute}"


def test_a_scenario_of_mainstay_has_its_own_name_and_one_that_is_nowhere_has_none():
    assert name_scenario(MINE) == "one-leader"
    with pytest.raises(UnknownScenario, match="is not an attribute of a module"):
        name_scenario(replace(MINE, name="another"))


def test_a_bug_is_planted_when_it_is_called_and_not_before():
    patch = find_patch(f"{__name__}:lies")
    assert WHAT_IT_SAYS == "the truth"

    patch()

    assert WHAT_IT_SAYS == "a lie"


def test_what_cannot_be_called_plants_nothing():
    with pytest.raises(UnknownScenario, match="not a function that plants a bug"):
        find_patch(f"{__name__}:NO_SCENARIO")
