"""docs/coverage.md is true: each requirement has modules, tests, a scenario, a twin of it and a page that are there."""

import ast
import re
from pathlib import Path

import pytest

from mainstay.scenarios import SCENARIOS
from tests.sim.test_scenarios import TWINS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COUNTS = {"F": 8, "R": 6, "O": 8, "W": 9, "T": 9}
ABOUT_THE_SIMULATOR = ("T5", "T8")
"""Their scenario is a file of tests, and their twin a test that plants the bug."""
ROWS = {
    cells[0]: cells[1:]
    for line in (DOCS / "coverage.md").read_text().splitlines()
    if re.match(rf"\| [{''.join(COUNTS)}]\d \|", line)
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
"""By id: requirement, status, modules, tests, scenarios, twins, page."""
FOUND_BY = {(name, f"{twin.__module__.rpartition('.')[2]}.{twin.__name__}") for name, twin, _ in TWINS}


def read_code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def read_anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_all_forty_requirements_are_there_with_all_columns():
    assert list(ROWS) == [f"{letter}{number}" for letter in COUNTS for number in range(1, COUNTS[letter] + 1)]
    assert [id_ for id_, cells in ROWS.items() if len(cells) != 7 or not all(cells)] == []


@pytest.mark.parametrize("id_", ROWS)
def test_its_modules_and_tests_are_there(id_):
    _, _, modules, tests, _, _, _ = ROWS[id_]

    implemented, proven = (
        [each for each in read_code(cell) if each.startswith(("mainstay/", "tests/", "examples/"))]
        for cell in (modules, tests)
    )
    assert implemented
    assert any(each.startswith("tests/") for each in proven)
    assert [each for each in (*implemented, *proven) if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("id_", [id_ for id_ in ROWS if id_ not in ABOUT_THE_SIMULATOR])
def test_its_first_scenario_is_about_it_and_each_twin_is_one_of_its_scenarios(id_):
    scenarios, twins = (read_code(cell) for cell in ROWS[id_][4:6])

    assert [name for name in scenarios if name not in SCENARIOS] == []
    assert id_ in SCENARIOS[scenarios[0]].ids
    assert (scenarios[0], twins[0]) in FOUND_BY
    assert [twin for twin in twins if not any((name, twin) in FOUND_BY for name in scenarios)] == []


@pytest.mark.parametrize("id_", ABOUT_THE_SIMULATOR)
def test_a_planted_bug_in_the_simulator_has_a_test_that_finds_it(id_):
    scenarios, twins = (read_code(cell) for cell in ROWS[id_][4:6])

    assert [each for each in scenarios if not (ROOT / each).is_file()] == []
    assert twins
    for path, _, test in (each.partition("::") for each in twins):
        written = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if hasattr(node, "name")}
        assert test in written


@pytest.mark.parametrize("id_", ROWS)
def test_its_page_and_the_heading_on_it_are_there(id_):
    (target,) = re.findall(r"\]\(([^)]+)\)", ROWS[id_][6])
    name, _, anchor = target.partition("#")

    assert (DOCS / name).is_file()
    assert not anchor or anchor in read_anchors(DOCS / name)
