"""What is counted in a run: never too many, in the end as many as wanted, and on a node that is there."""

from typing import Any

import msgspec
import pytest

from mainstay.api.kind import Object
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.count import Count
from mainstay.sim.checkers.placed import PlacedChecker
from mainstay.sim.cluster.history import RevisionCommitted

NO_WORLD: Any = None


def commit(revision: int, key: str, value: Object | None, previous: Object | None = None) -> RevisionCommitted:
    def encoded(obj: Object | None) -> bytes | None:
        return None if obj is None else msgspec.json.encode(obj)

    return RevisionCommitted(0, revision, key, encoded(value), encoded(previous), None)


def a_count() -> Count:
    return Count("parents/", "children/", lambda parent: parent["wants"], lambda child: child["of"])


async def test_as_many_as_wanted_is_right():
    count = a_count()
    count.saw(commit(1, "parents/a", {"wants": {"a": 2}}))
    count.saw(commit(2, "children/1", {"of": ["a"]}))
    count.saw(commit(3, "children/2", {"of": ["a"]}))
    count.saw(commit(4, "children/2", None, {"of": ["a"]}))
    count.saw(commit(5, "children/3", {"of": ["a"]}))

    await count.at_end(NO_WORLD)


async def test_more_than_were_ever_wanted_is_said_at_once():
    count = a_count()
    count.saw(commit(1, "parents/a", {"wants": {"a": 1}}))
    count.saw(commit(2, "children/1", {"of": ["a"]}))

    with pytest.raises(Violated, match="there are 2 of a, but at most 1 were ever wanted"):
        count.saw(commit(3, "children/2", {"of": ["a"]}))


async def test_less_than_wanted_is_said_in_the_end():
    count = a_count()
    count.saw(commit(1, "parents/a", {"wants": {"a": 2}}))
    count.saw(commit(2, "children/1", {"of": ["a"]}))

    with pytest.raises(Violated, match="wants 2 of a, but there are 1 at the end"):
        await count.at_end(NO_WORLD)


async def test_what_is_not_wanted_any_more_has_to_go():
    count = a_count()
    count.saw(commit(1, "parents/a", {"wants": {"a/x": 1, "a/y": 1}}))
    count.saw(commit(2, "children/1", {"of": ["a/x", "a/y"]}))
    count.saw(commit(3, "parents/a", {"wants": {"a/x": 1}}, {"wants": {"a/x": 1, "a/y": 1}}))

    with pytest.raises(Violated, match="wants 0 of a/y, but there are 1 at the end"):
        await count.at_end(NO_WORLD)


async def test_a_parent_that_is_gone_wants_nothing():
    count = a_count()
    count.saw(commit(1, "parents/a", {"wants": {"a": 2}}))
    count.saw(commit(2, "parents/a", None, {"wants": {"a": 2}}))

    await count.at_end(NO_WORLD)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"node": "n", "uid": "1"}, None),
        ({}, "has no node at the end"),
        ({"node": "n", "uid": "0"}, "is on n at the end, but that node does not exist"),
        ({"node": "m", "uid": "1"}, "is on m at the end, but that node does not exist"),
    ],
)
async def test_a_task_is_in_the_end_on_a_node_that_is_there(data: dict[str, str], problem: str | None):
    placed = PlacedChecker("nodes/", "tasks/")
    placed.saw(commit(1, "nodes/n", {"metadata": {"uid": "0"}}))
    placed.saw(commit(2, "nodes/n", None, {"metadata": {"uid": "0"}}))
    placed.saw(commit(3, "nodes/n", {"metadata": {"uid": "1"}}))
    placed.saw(commit(4, "tasks/t", {"data": data}))

    if problem is None:
        await placed.at_end(NO_WORLD)
    else:
        with pytest.raises(Violated, match=problem):
            await placed.at_end(NO_WORLD)
