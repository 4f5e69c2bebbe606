"""The two worlds: what of them is drawn and said, that users do what was drawn, and who may stay dead."""

from dataclasses import replace
from datetime import timedelta

import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.scenarios._swarm import REPLICAS_MAX, TEMPOS, SwarmOptions, UserAction, draw_options
from mainstay.scenarios.core_world import CoreWorld
from mainstay.scenarios.full_world import FullWorld
from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.world import World
from mainstay.sim.run.run import Booted, RunVerdict

pytestmark = pytest.mark.slow

CORE = SCENARIOS["core-world"]


async def nothing(*_: object) -> None:
    """Not even that."""


KNOWN = {
    "user": [UserAction("first", 2, nothing), UserAction("second", 3, nothing)],
    "operator": [UserAction("third", 1, nothing)],
}


def test_what_is_benign_is_the_least_of_everything():
    options = draw_options(lambda what, count: 0, KNOWN)

    assert options == SwarmOptions({"user": ("first",), "operator": ("third",)})
    assert str(options) == "user: first; operator: third; every 6 s, up to 2 replicas"


def test_all_that_is_drawn_is_said():
    options = draw_options(lambda what, count: count - 1, KNOWN)

    assert options == SwarmOptions(
        {"user": ("first", "second"), "operator": ("third",)}, TEMPOS[-1], REPLICAS_MAX[-1], True, True
    )
    assert str(options) == (
        "user: first, second; operator: third; every 2 s, up to 4 replicas, priorities, lost machines are reported"
    )


def test_a_deed_is_done_as_often_as_it_weighs():
    options = SwarmOptions({"user": ("second",), "operator": ()})

    assert [each.name for each in options.list_actions("user", KNOWN["user"])] == ["second"] * 3


@pytest.mark.parametrize("stage", [CoreWorld, FullWorld])
def test_every_deed_has_a_name_of_its_own(stage: type[CoreWorld] | type[FullWorld]):
    names = [deed.name for deeds in stage.users.values() for deed in deeds]

    assert len(names) == len(set(names))


def test_of_servers_schedulers_and_controllers_one_is_enough_and_of_the_nodes_most_stay():
    assert "spares" in vars(FullWorld)
    groups = FullWorld.spares(FullWorld.__new__(FullWorld))

    assert [group[0].rpartition("-")[0] for group in groups] == ["server", "scheduler", "controllers", "node", "node"]
    assert sum(len(group) - 1 for group in groups if group[0].startswith("node")) == 2  # Of five.


def no_faults(world: World) -> None:
    """All goes well."""


def test_a_short_run_without_faults_does_what_was_drawn_and_comes_to_rest():
    with Booted(replace(CORE, lasts=timedelta(seconds=20))) as booted:
        before = len(booted.world.history.events)
        result = booted.go(1, disturb=no_faults)
        events = booted.world.history.events[before:]

    assert (result.verdict, result.problem) == (RunVerdict.PASSED, "")
    assert result.told.startswith("user: scale, ")
    by = [event.who for event in events if isinstance(event, RequestReceived) and event.is_write]
    assert "user" in by
    assert "operator" in by
