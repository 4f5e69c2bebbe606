"""A program that is started on the past stays there for a while, also with what its servers had heard of by then."""

import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.sim.cluster.history import FaultInjected, ProgramCrashed, WatchDelivered
from mainstay.sim.faults.old_state import BEHIND
from mainstay.sim.run.plans import Aim, InjectionPoint, PlannedFaults
from mainstay.sim.run.run import Booted

pytestmark = pytest.mark.slow


def test_what_came_after_the_past_is_not_told_before_it_is_over():
    with Booted(SCENARIOS["shrunk-and-grown"]) as booted:
        looking = PlannedFaults()
        assert booted.go(1, strategy=looking).is_passed
    place = [telling.place for telling in looking.tellings if telling.who == "operator"][20]

    with Booted(SCENARIOS["shrunk-and-grown"]) as booted:
        before = len(booted.world.history.events)
        booted.go(
            1, strategy=PlannedFaults([Aim(InjectionPoint(place.who, False, place.what, place.nth), "old-state", 4)])
        )
        events = booted.world.history.events[before:]
    crashed = next(event for event in events if isinstance(event, ProgramCrashed))
    fault = next(event for event in events if isinstance(event, FaultInjected))
    past = int(fault.what.rpartition(" ")[2])
    soon = crashed.at_ns + int(BEHIND.total_seconds() * 0.9e9)
    told = [
        event.revision
        for event in events[events.index(crashed) :]
        if isinstance(event, WatchDelivered) and event.who == "operator" and crashed.at_ns < event.at_ns < soon
    ]

    assert told
    assert max(told) <= past
