"""What a decision may read."""

from datetime import UTC, datetime

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.indexes import NAMESPACE, NODE
from mainstay.loop.view import Look, Undeclared, View, ViewClosed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_pod(name: str, node: str, version: int):
    metadata = {"name": name, "namespace": "default", "resourceVersion": str(version), "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"nodeName": node}}


def test_a_view_names_the_revision_of_each_kind_and_notes_what_was_looked_at():
    view = View.of(
        {PODS: [a_pod("b", "n1", 7), a_pod("a", "n1", 9), a_pod("c", "n2", 8)], CONFIG_MAPS: []},
        NOON,
        indexes={PODS: [NODE]},
    )

    assert [pod["metadata"]["name"] for pod in view.by(PODS, "node", "n1")] == ["a", "b"]
    assert view.get(PODS, ObjectKey("default", "c")) is not None
    assert view.get(CONFIG_MAPS, ObjectKey("default", "c")) is None

    assert view.revisions == {PODS: 9, CONFIG_MAPS: 0}
    assert view.looks == [
        Look(PODS, revision=9, index="node", value="n1", count=2),
        Look(PODS, "default", "c", revision=8),
        Look(CONFIG_MAPS, "default", "c", revision=0),
    ]


def test_what_several_indexes_find_together_is_one_look_and_a_value_of_an_index_is_a_look_at_its_object():
    view = View.of(
        {PODS: [a_pod("b", "n1", 7), a_pod("a", "n1", 9), a_pod("c", "n2", 8), a_pod("d", "n3", 6)]},
        NOON,
        indexes={PODS: [NODE, NAMESPACE]},
    )

    found = view.by_all(PODS, {"node": ["n2", "n1"], "namespace": ["default", "risk"]})
    assert [pod["metadata"]["name"] for pod in found] == ["a", "b", "c"]
    assert view.find_values(PODS, ObjectKey("default", "c"), "node") == ("n2",)
    assert view.find_values(PODS, ObjectKey("default", "gone"), "node") == ()

    assert view.looks == [
        Look(PODS, revision=9, index="namespace;node", value="namespace=default,risk;node=n1,n2", count=3),
        Look(PODS, "default", "c", revision=8),
        Look(PODS, "default", "gone", revision=0),
    ]


def test_what_a_view_gives_can_be_changed_without_changing_the_view():
    view = View.of({PODS: [a_pod("a", "n1", 1)]}, NOON)
    pod = view.get(PODS, ObjectKey("default", "a"))
    assert pod is not None
    pod["spec"]["nodeName"] = "elsewhere"
    again = view.get(PODS, ObjectKey("default", "a"))
    assert again is not None
    assert again["spec"] == {"nodeName": "n1"}


def test_what_is_not_declared_cannot_be_read():
    with pytest.raises(Undeclared, match=r"configmaps is not declared; declared are pods"):
        View.of({PODS: []}, NOON).all(CONFIG_MAPS)


def test_a_view_is_over_when_the_decision_is_made():
    view = View.of({PODS: []}, NOON)
    view.close()
    with pytest.raises(ViewClosed):
        view.all(PODS)
