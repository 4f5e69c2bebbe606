"""Every test is in a lane: `make quick` is a part of `make test`, and with `make test-deep` that is all there is."""

import ast
import re
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"
LANE = re.compile(r"^([a-z-]+): setup.*\n\t\$\(PYTEST\).* -m (\"[^\"]+\"|\w+) \$\(ARGS\)$", re.MULTILINE)
LANES = {name: Expression.compile(marks.strip('"')) for name, marks in LANE.findall((ROOT / "Makefile").read_text())}


def lanes_of(marks: tuple[str, ...]) -> set[str]:
    return {name for name, lane in LANES.items() if lane.evaluate(lambda mark, /, **_: mark in marks)}


def test_the_lanes_are_those_of_the_makefile():
    assert sorted(LANES) == ["quick", "test", "test-deep"]


@pytest.mark.parametrize("marks", [(), ("slow",), ("deep",), ("slow", "deep")])
def test_a_test_is_in_one_of_the_two_lanes_that_are_everything_whatever_its_marks(marks: tuple[str, ...]):
    lanes = lanes_of(marks)

    assert len(lanes & {"test", "test-deep"}) == 1
    assert "quick" not in lanes or "test" in lanes


def test_ci_runs_both():
    steps = (ROOT / ".ci" / "run").read_text().splitlines()

    assert [step for step in steps if step.startswith("step make test")] == ["step make test", "step make test-deep"]


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(TESTS.rglob("*.py")) if not path.name.startswith("test_")],
    ids=lambda path: str(path.relative_to(TESTS)),
)
def test_a_file_that_pytest_does_not_collect_has_no_tests(path: Path):
    tree = ast.parse(path.read_text())

    assert [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ] == []


def test_a_directory_with_tests_is_a_package():
    # Two test files of the same name would otherwise hide each other.
    directories = {path.parent for path in TESTS.rglob("test_*.py")}

    assert [str(each) for each in sorted(directories) if not (each / "__init__.py").exists()] == []
