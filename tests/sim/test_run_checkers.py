"""All checkers of a run: who is told what, what a backup undoes, and what is always checked."""

from datetime import timedelta
from typing import Any

import msgspec

from mainstay.scenarios import SCENARIOS
from mainstay.sim.checkers import Checker, Violated
from mainstay.sim.checkers.always import always
from mainstay.sim.checkers.run_checkers import RunCheckers
from mainstay.sim.cluster.history import Event, History, RevisionCommitted, StoreRestored, WatchDelivered
from mainstay.sim.cluster.world import World
from mainstay.sim.run.run import RunVerdict, run
from mainstay.sim.run.scenario import Scenario, Stage
from mainstay.store.interface import Put


class Keeps:
    """Remembers the keys that were committed, and what else it was told."""

    name = "keeps"

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.others: list[type[Any]] = []

    def saw(self, event: Event) -> None:
        if isinstance(event, RevisionCommitted):
            self.keys.append(event.key)
        else:
            self.others.append(type(event))

    async def at_end(self, world: object) -> None:
        raise Violated(self.name, f"{self.keys} {[each.__name__ for each in self.others]}")


class Stays(Keeps):
    name = "stays"
    hears_restores = True


class Hears(Keeps):
    name = "hears"
    hears_deliveries = True


async def said_by(checker: Checker, *events: Event) -> str:
    history = History()
    checking = RunCheckers([checker], history, lambda _, error: None)
    for event in events:
        history.add(event)
    try:
        await checking.at_end(None)  # type: ignore[arg-type]  # These look at no world.
    except Violated as error:
        return error.message
    raise AssertionError("it says what it knows")


def a_commit(key: str, revision: int) -> RevisionCommitted:
    return RevisionCommitted(revision, revision, key, b"{}", None, None)


DELIVERED = WatchDelivered(3, 1, "a", "ADDED", "a", 1, False)


async def test_a_restore_undoes_commits_for_checkers_that_go_by_commits():
    past: list[Event] = [
        a_commit("a", 1),
        a_commit("b", 2),
        StoreRestored(5, 1),
        a_commit("c", 2),
        a_commit("d", 3),
        StoreRestored(9, 2),
    ]

    assert await said_by(Keeps(), *past) == "['a', 'c'] ['StoreRestored', 'StoreRestored']"
    assert await said_by(Stays(), *past) == "['a', 'b', 'c', 'd'] ['StoreRestored', 'StoreRestored']"


async def test_deliveries_are_told_to_those_who_want_to_hear_of_them_also_after_a_backup():
    assert await said_by(Keeps(), DELIVERED) == "[] []"
    assert (
        await said_by(Hears(), DELIVERED, StoreRestored(5, 1), DELIVERED)
        == "[] ['WatchDelivered', 'StoreRestored', 'WatchDelivered']"
    )


class TwoNodes(Stage):
    """A client binds a pod to one node and then to another, past all servers."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")

    async def begin(self) -> None:
        for node in ("node-1", "node-2"):
            pod = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"nodeName": node}}
            await self.world.store.commit([], [Put("core/pods/default/web", msgspec.json.encode(pod))])


def test_what_holds_in_every_run_is_checked_whatever_a_scenario_names():
    two_nodes = Scenario("two-nodes", "A pod moves.", TwoNodes, list, faults=(), lasts=timedelta(seconds=2))
    allowed = Scenario(
        "allowed",
        "A pod moves.",
        TwoNodes,
        list,
        (),
        timedelta(seconds=2),
        unchecked=("capacity",),
    )

    found = run(two_nodes, 1)

    assert (found.verdict, found.problem.partition(":")[0]) == (RunVerdict.VIOLATED, "capacity")
    assert run(allowed, 1).verdict is RunVerdict.PASSED


def test_a_scenario_leaves_out_only_what_there_is():
    names = [each.name for each in always()]

    assert all(left in names for scenario in SCENARIOS.values() for left in scenario.unchecked)
