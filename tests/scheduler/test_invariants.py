"""What the scheduler checks of itself while it works. Each check is broken here once."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant, find_broken
from mainstay.scheduler.cache.change_log import ChangeLog
from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.pod_class import PodToPlace, pod_to_place
from mainstay.scheduler.settings import CycleSettings
from tests.scheduler.objects import a_node, a_pod, a_reservation
from tests.scheduler.running import SHARED, a_scheduler


def some_columns() -> NodeColumns:
    """Two nodes; on the first a bound pod, an assumed one, a reservation and an unconfirmed charge."""
    columns = NodeColumns()
    for name in ("n1", "n2"):
        columns.node_changed(a_node(name), name)
    columns.pod_changed(None, a_pod("bound", cpu="1", node="n1"))
    columns.assume(pod_to_place(a_pod("assumed", cpu="1")), "n1")
    columns.reservation_changed(None, a_reservation("held", "n1", cpu="1"))
    columns.unconfirmed_changed(
        "n1", {"g": build_unconfirmed_charge({"namespace": "default", "resources": {"cpu": "1"}})}
    )
    return columns


def uses_too_much(columns: NodeColumns) -> None:
    columns.used[0, 0] += 1


def forgets_what_is_unconfirmed(columns: NodeColumns) -> None:
    columns.unconfirmed[0] = 0


def counts_a_pod_on_a_second_node(columns: NodeColumns) -> None:
    uid = "uid-default-bound"
    columns._pods_on[1][uid] = columns._pods_on[0][uid]
    columns.used[1] += columns.vector(columns._pods_on[0][uid])


def loses_a_pod_of_a_node(columns: NodeColumns) -> None:
    columns.used[0] -= columns.vector(columns._pods_on[0].pop("uid-default-assumed"))


def test_sound_columns_pass_every_check():
    columns = some_columns()
    for _ in range(5):
        columns.check_next_node()


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (uses_too_much, "a node's used room is the sum of its charges"),
        (forgets_what_is_unconfirmed, "a node's used room is the sum of its charges"),
        (counts_a_pod_on_a_second_node, "a pod counts on one node"),
        (loses_a_pod_of_a_node, "a pod counts on one node"),
    ],
)
def test_columns_that_do_not_add_up_are_noticed(damage: Callable[[NodeColumns], None], rule: str):
    columns = some_columns()
    damage(columns)

    with pytest.raises(BrokenInvariant, match=rule):
        for _ in range(2):
            columns.check_next_node()


def test_a_node_that_goes_with_room_taken_is_noticed():
    columns = NodeColumns()
    columns.node_changed(a_node("n1"), "n1")
    columns.used[0, 0] = 1

    with pytest.raises(BrokenInvariant, match="nothing is taken on a node without charges: node n1"):
        columns.node_changed(None, "n1")


def test_a_reader_that_is_ahead_of_a_change_log_is_noticed():
    log = ChangeLog()
    log.add(0, 1)

    with pytest.raises(BrokenInvariant, match="positions in a change log only grow"):
        log.since(2)


async def test_a_broken_node_stops_the_scheduler_and_makes_the_process_unready(sim):
    settings = replace(SHARED, cycle=CycleSettings(check_one_in=1))
    async with a_scheduler(sim, settings=settings, starts=False) as running:

        async def break_a_node() -> None:
            await running.add_nodes("n1")
            await running.until(lambda: running.scheduler.is_deciding)
            await running.until(lambda: running.cycle.state.columns.find_row("n1") is not None)
            running.cycle.state.columns.used[:] += 1
            await running.add_pod("web")

        with pytest.raises(BrokenInvariant, match="a node's used room is the sum of its charges: node n1"):
            await tasks.together([running.scheduler.run(), break_a_node()], name="test")

        assert find_broken() is not None


async def test_a_pod_that_is_assumed_and_not_counted_stops_the_scheduler(sim, monkeypatch):
    """And is not taken for the bug of one pod."""

    def counts_nothing(columns: NodeColumns, pod: PodToPlace, node: str) -> tuple[()]:
        return ()

    monkeypatch.setattr(NodeColumns, "assume", counts_nothing)
    async with a_scheduler(sim, starts=False) as running:
        await running.add_nodes("n1")
        await running.add_pod("web")
        with pytest.raises(BrokenInvariant, match="an assumed pod counts on its node: pod default/web"):
            await running.scheduler.run()
