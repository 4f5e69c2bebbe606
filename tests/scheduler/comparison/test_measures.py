"""Balance and fragmentation, by hand."""

import pytest

from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.comparison.measures import ResourceMeasure, TypicalPod, find_typical, measure_columns
from mainstay.scheduler.pod_class import pod_to_place
from tests.scheduler.objects import a_node, a_pod


def columns_with(*use: tuple[str, str, str]) -> NodeColumns:
    """Nodes of 4 cores and 8Gi: by name, the CPU and memory that are requested there."""
    columns = NodeColumns()
    for name, cpu, memory in use:
        columns.node_changed(a_node(name), name)
        if cpu != "0":
            columns.pod_changed(None, a_pod(f"on-{name}", node=name, cpu=cpu, memory=memory))
    return columns


def typical(cpu: str, memory: str) -> TypicalPod:
    return find_typical([pod_to_place(a_pod(cpu=cpu, memory=memory))])


def test_a_level_cluster_is_in_balance():
    found = measure_columns(columns_with(("n1", "1", "2Gi"), ("n2", "1", "2Gi")), typical("1", "1Gi"))

    assert found["cpu"] == ResourceMeasure(deviation=0, spread=0, fragmentation=0)


def test_balance_is_how_far_apart_the_nodes_are():
    found = measure_columns(columns_with(("n1", "4", "2Gi"), ("n2", "0", "0")), typical("1", "1Gi"))

    assert (found["cpu"].deviation, found["cpu"].spread) == (50, 100)
    assert (found["memory"].deviation, found["memory"].spread) == (12.5, 25)


def test_what_is_free_in_pieces_too_small_is_fragmented():
    """Three cores are free on each; pods of two cores use two of them."""
    found = measure_columns(columns_with(("n1", "1", "1Gi"), ("n2", "1", "1Gi")), typical("2", "1Gi"))

    assert found["cpu"].fragmentation == pytest.approx(100 / 3)


def test_what_is_free_where_another_resource_is_used_up_is_fragmented():
    found = measure_columns(columns_with(("n1", "4", "1Gi")), typical("1", "1Gi"))

    assert found["memory"].fragmentation == 100
    assert found["cpu"].fragmentation == 0  # Nothing is free.


def test_cordoned_nodes_do_not_count():
    columns = columns_with(("n1", "4", "2Gi"))
    columns.node_changed(a_node("n2", unschedulable=True), "n2")

    assert measure_columns(columns, typical("1", "1Gi"))["cpu"].spread == 0


def test_the_typical_pod_is_the_median_of_those_that_request_something():
    pods = [pod_to_place(a_pod(f"p{number}", cpu=cpu)) for number, cpu in enumerate(("1", "2", "8"))]

    found = dict(find_typical([*pods, pod_to_place(a_pod("idle"))]).requests)

    assert found["memory"] == 0
    assert found["cpu"] == dict(find_typical([pod_to_place(a_pod(cpu="2"))]).requests)["cpu"]
    assert measure_columns(columns_with(("n1", "1", "1Gi")), find_typical(pods))["memory"].fragmentation is None
