"""Pods by the zone and the region of their node."""

from mainstay.api.kind_names import NODES
from mainstay.client.cache import Cache
from mainstay.client.indexes import NODE, REGION, ZONE
from mainstay.client.join import Join
from tests.client.objects import a_pod, key, raw
from tests.client.test_cache import a_cache, apply


def a_node(name: str, version: int, zone: str, region: str = "eu"):
    labels = {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": region}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version), "labels": labels}}


def put(nodes: Cache, *objects) -> None:
    for obj in objects:
        nodes.apply(nodes.read(raw(obj)))


def test_a_pod_is_found_in_the_zone_and_region_of_its_node_from_its_binding_on():
    pods, nodes = a_cache(a_pod("a")), Cache(NODES, [ZONE, REGION])
    found = Join(pods, NODE, nodes)
    put(nodes, a_node("n1", 1, "z1"), a_node("n2", 2, "z2"), a_node("n3", 3, "z1"))
    assert (found.by("zone", "z1"), found.count("zone")) == ([], {"z1": 0, "z2": 0})

    apply(pods, a_pod("a", 11, node="n3"))
    apply(pods, a_pod("b", 12, node="n1"))
    apply(pods, a_pod("c", 13, node="n2"))

    assert (found.by("zone", "z1"), found.by("zone", "z2")) == ([key("a"), key("b")], [key("c")])
    assert found.by("region", "eu") == [key("a"), key("b"), key("c")]
    assert found.count("zone") == {"z1": 2, "z2": 1}


def test_a_pod_follows_the_labels_of_its_node_and_is_nowhere_without_it():
    pods, nodes = a_cache(a_pod("a", node="n1")), Cache(NODES, [ZONE, REGION])
    found = Join(pods, NODE, nodes)
    assert (found.by("zone", "z1"), found.count("zone")) == ([], {})

    put(nodes, a_node("n1", 1, "z1"))
    assert found.by("zone", "z1") == [key("a")]
    put(nodes, a_node("n1", 2, "z2", "us"))
    assert (found.by("zone", "z1"), found.by("zone", "z2"), found.by("region", "us")) == ([], [key("a")], [key("a")])
    nodes.apply(nodes.read(raw(a_node("n1", 3, "z2", "us"))), is_deleted=True)
    assert (found.by("zone", "z2"), found.count("region")) == ([], {})
