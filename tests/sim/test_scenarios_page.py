"""docs/scenarios.md is true: what it names is there, and it names all scenarios, with their ids."""

import re
from pathlib import Path

from mainstay.scenarios import SCENARIOS
from tests.sim.test_scenarios import TWINS

PAGE = (Path(__file__).parents[2] / "docs/scenarios.md").read_text()
LINES = re.findall(r"^\|([^|]*)\|[^|]*\| `([a-z-]+)` \| `(\w+\.\w+)` \|$", PAGE, re.MULTILINE)
"""Ids, scenario, twin."""


def test_every_scenario_is_on_the_page():
    named = re.findall(r"`([a-z]+(?:-[a-z]+)*)`", PAGE)

    assert sorted(set(SCENARIOS) - set(named)) == []


def test_every_twin_on_the_page_is_one_of_its_scenario():
    there = {(name, f"{twin.__module__.rpartition('.')[2]}.{twin.__name__}") for name, twin, _ in TWINS}

    assert [line for line in LINES if line[1:] not in there] == []
    assert len(LINES) > 50


def test_every_scenario_has_the_ids_of_its_lines():
    on_the_page = {
        name: {id_ for ids, of, _ in LINES if of == name for id_ in re.findall(r"\w+", ids)} for name in SCENARIOS
    }

    assert on_the_page == {name: set(scenario.ids) for name, scenario in SCENARIOS.items()}


def test_the_catalogue_is_whole():
    numbers = {int(number) for ids, _, _ in LINES for number in re.findall(r"\b\d+", ids)}

    assert numbers == {*range(1, 33)}


def test_the_failure_modes_are_all_there():
    for id_, count in (("F8", 6), ("R6", 6)):
        modes = {re.split("[:,]", mode)[0] for mode in re.findall(rf"^\| {id_} \| ([^|]+) \|", PAGE, re.MULTILINE)}
        modes = {mode.removesuffix(" of readers").strip() for mode in modes}
        assert len(modes) == count, modes
