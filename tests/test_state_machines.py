"""The diagrams of state machines in the docs are drawn from the tables that the code goes by."""

from pathlib import Path

import pytest

from mainstay.api.node_health import HealthState
from mainstay.client import reflector
from mainstay.client.reflector import Reflector, ReflectorPhase
from mainstay.controllers.node_health import states
from mainstay.env.invariants import BrokenInvariant

DOCS = Path(__file__).parents[1] / "docs" / "state-machines.md"


@pytest.mark.parametrize("table", [states.STEPS, reflector.STEPS], ids=["node health", "reflector"])
def test_the_diagram_in_the_docs_is_drawn_from_the_table(table):
    assert table.is_current(DOCS.read_text()), f"put this into {DOCS.name}:\n{table.render()}"


def test_every_sign_of_a_node_leads_from_each_state_but_a_permit_only_from_those_that_are_silent():
    for sign in states.Sign:
        before = {state for state, each in states.STEPS.next if each == sign}
        assert before == ({"Unknown", "Released"} if sign is states.Sign.PERMITTED else set(HealthState))


def test_a_step_that_is_not_in_the_table_is_a_bug():
    with pytest.raises(BrokenInvariant, match="waiting to list to watching"):
        Reflector(lambda key: 0)._enter(ReflectorPhase.WATCHING)
