"""docs/guides/worked-examples.md is true: its output is that of the commands, but for names and numbers of a run."""

import re
from pathlib import Path

import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.sim.narration.runner import narrate
from mainstay.sim.narration.text import render_narration

PAGE = (Path(__file__).parents[2] / "docs/guides/worked-examples.md").read_text()
OUTPUTS = re.findall(r"^\$ mainstay sim run ([a-z-]+) --narrate( --bug)?\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LEFT = 41  # Columns of what is expected.


def read_left(text: str) -> list[str]:
    """What is expected and whether it happened, and in the last line the verdict."""
    lines = [line[:LEFT].rstrip() for line in text.splitlines()]
    return [line for line in lines if line.startswith(("✓", "✗", " " * 9)) and line.strip()]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bug", "shown"), OUTPUTS, ids=[name + bug.strip() for name, bug, _ in OUTPUTS])
def test_an_output_on_the_page_has_the_steps_and_the_verdict_of_the_run(name: str, bug: str, shown: str):
    told = narrate(SCENARIOS[name], is_weak=bool(bug))
    text = render_narration(told)

    assert read_left(shown) == read_left(text)
    assert f"verdict: {told.verdict}, " in shown


def test_every_worked_example_is_on_the_page():
    narrated = [name for name, scenario in SCENARIOS.items() if scenario.narration is not None]

    assert sorted({name for name, _, _ in OUTPUTS}) == sorted(narrated)
