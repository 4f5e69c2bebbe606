"""Who depends on whom: whatever the order of changes, the graph is what the objects say."""

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, NODES, PODS, REPLICASETS, SERVICE_ACCOUNTS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.garbage.graph import Graph
from mainstay.controllers.garbage.vertices import Nodes, Reference, Vertex

KINDS = {"c": CONFIG_MAPS, "s": SERVICE_ACCOUNTS, "n": NODES}


class Fed:
    """A graph, and the caches that it is fed by."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.caches = {kind: Nodes(kind) for kind in KINDS.values()}
        for cache in self.caches.values():
            cache.replace((), 0)
        self.revision = 0

    def put(self, kind: KindName, name: str, uid: str, owners: Sequence[Any] = (), **metadata: Any) -> list[str]:
        self.revision += 1
        given = {"name": name, "uid": uid, "resourceVersion": str(self.revision), **metadata}
        if kind.namespaced:
            given["namespace"] = metadata.get("namespace", "default")
        if owners:
            given["ownerReferences"] = list(owners)
        cache = self.caches[kind]
        changes = cache.apply(cache.read(json.dumps({"metadata": given}).encode()))
        return [uid for change in changes for uid in self.graph.changed(change)]

    def remove(self, kind: KindName, name: str, namespace: str = "default") -> list[str]:
        self.revision += 1
        cache = self.caches[kind]
        entry = cache.entry(ObjectKey(namespace if kind.namespaced else "", name))
        assert entry is not None
        last = {"name": name, "namespace": entry.key.namespace, "uid": entry.uid, "resourceVersion": str(self.revision)}
        changes = cache.apply(cache.read(json.dumps({"metadata": last}).encode()), is_deleted=True)
        return [uid for change in changes for uid in self.graph.changed(change)]


def to(kind: KindName, name: str, uid: str, *, blocks: bool = True) -> dict[str, Any]:
    reference = {"apiVersion": kind.group_version, "kind": kind.kind, "name": name, "uid": uid}
    return {**reference, "blockOwnerDeletion": blocks}


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
WAITING = {**LEAVING, "finalizers": ["foregroundDeletion"]}
LETTING_GO = {**LEAVING, "finalizers": ["orphan"]}


# Who is looked at.


def test_a_dependent_is_looked_at_when_its_owner_is_not_known_or_goes():
    fed = Fed()
    assert fed.put(CONFIG_MAPS, "child", "1", [to(CONFIG_MAPS, "owner", "0")]) == ["1"]
    assert fed.put(CONFIG_MAPS, "owner", "0") == []
    assert fed.put(CONFIG_MAPS, "child", "1", [to(CONFIG_MAPS, "owner", "0")]) == []
    assert fed.remove(CONFIG_MAPS, "owner") == ["1"]
    assert list(fed.graph.gone) == ["0"]
    assert fed.remove(CONFIG_MAPS, "child") == []
    assert fed.graph.gone == {}


def test_dependents_are_looked_at_when_their_owner_begins_to_wait_and_the_owner_when_they_go():
    fed = Fed()
    fed.put(CONFIG_MAPS, "owner", "0")
    fed.put(CONFIG_MAPS, "child", "1", [to(CONFIG_MAPS, "owner", "0")])
    assert fed.put(CONFIG_MAPS, "owner", "0", **WAITING) == ["0", "1"]
    assert fed.put(CONFIG_MAPS, "owner", "0", labels={"a": "b"}, **WAITING) == ["0"]
    assert fed.put(CONFIG_MAPS, "child", "1", [to(CONFIG_MAPS, "owner", "0")], **LEAVING) == ["0"]
    assert fed.remove(CONFIG_MAPS, "child") == ["0"]
    assert fed.remove(CONFIG_MAPS, "owner") == []


def test_an_owner_that_lets_go_is_looked_at_when_a_dependent_names_it_no_more():
    fed = Fed()
    fed.put(CONFIG_MAPS, "owner", "0")
    fed.put(CONFIG_MAPS, "child", "1", [to(CONFIG_MAPS, "owner", "0")])
    assert fed.put(CONFIG_MAPS, "owner", "0", **LETTING_GO) == ["0"]
    assert fed.put(CONFIG_MAPS, "child", "1") == ["0"]
    assert fed.graph.dependents(fed.graph.nodes["0"]) == []


def test_a_name_that_comes_again_is_another_object():
    fed = Fed()
    fed.put(CONFIG_MAPS, "owner", "0")
    fed.put(CONFIG_MAPS, "child", "1", [to(CONFIG_MAPS, "owner", "0")])
    assert fed.put(CONFIG_MAPS, "owner", "new") == ["1"]  # That the first one went was not told.
    assert sorted(fed.graph.nodes) == ["1", "new"]
    assert fed.graph.needs_look(fed.graph.nodes["1"])


def test_a_reference_must_be_right_in_all_its_parts():
    fed = Fed()
    fed.put(CONFIG_MAPS, "owner", "0")
    fed.put(NODES, "node", "9")
    wrong = [
        to(SERVICE_ACCOUNTS, "owner", "0"),
        to(CONFIG_MAPS, "other", "0"),
        to(CONFIG_MAPS, "owner", "1"),
        to(REPLICASETS, "owner", "0"),
    ]
    for number, reference in enumerate(wrong):
        fed.put(CONFIG_MAPS, f"wrong-{number}", f"w{number}", [reference])
    fed.put(CONFIG_MAPS, "elsewhere", "e", [to(CONFIG_MAPS, "owner", "0")], namespace="else")
    fed.put(CONFIG_MAPS, "on-node", "n", [to(NODES, "node", "9")], namespace="else")
    fed.put(CONFIG_MAPS, "right", "r", [to(CONFIG_MAPS, "owner", "0")])
    assert [each.uid for each in fed.graph.dependents(fed.graph.nodes["0"])] == ["r"]
    assert [each.uid for each in fed.graph.dependents(fed.graph.nodes["9"])] == ["n"]
    assert [uid for uid, node in fed.graph.nodes.items() if fed.graph.needs_look(node)] == ["w0", "w1", "w2", "w3", "e"]


def test_who_waits_in_a_circle_does_not_block_it():
    fed = Fed()
    fed.put(CONFIG_MAPS, "a", "a", [to(CONFIG_MAPS, "c", "c")], **WAITING)
    fed.put(CONFIG_MAPS, "b", "b", [to(CONFIG_MAPS, "a", "a")], **WAITING)
    fed.put(CONFIG_MAPS, "c", "c", [to(CONFIG_MAPS, "b", "b")])
    fed.put(CONFIG_MAPS, "loose", "l", [to(CONFIG_MAPS, "a", "a", blocks=False)])
    nodes = fed.graph.nodes
    blocker = fed.graph.blocker(nodes["a"])
    assert blocker is not None
    assert blocker.uid == "b"  # It waits for c, which waits for none.
    fed.put(CONFIG_MAPS, "c", "c", [to(CONFIG_MAPS, "b", "b")], **WAITING)
    assert fed.graph.blocker(nodes["a"]) is None
    fed.put(CONFIG_MAPS, "d", "d", [to(CONFIG_MAPS, "a", "a")], **WAITING)
    blocker = fed.graph.blocker(nodes["a"])
    assert blocker is not None
    assert blocker.uid == "d"


def test_when_a_kind_is_not_served_any_more_its_objects_are_gone_or_unknown():
    for are_gone in (True, False):
        fed = Fed()
        fed.put(SERVICE_ACCOUNTS, "owner", "0")
        fed.put(CONFIG_MAPS, "child", "1", [to(SERVICE_ACCOUNTS, "owner", "0")])
        assert fed.graph.forget(SERVICE_ACCOUNTS, are_gone=are_gone) == ["1"]
        assert list(fed.graph.gone) == (["0"] if are_gone else [])
        assert list(fed.graph.nodes) == ["1"]


# Whatever the order.

UIDS = [f"{letter}{number}" for letter in KINDS for number in range(4)]
STEPS = st.tuples(
    st.sampled_from(UIDS),
    st.sampled_from(["put", "put", "remove", "again", "wait"]),
    st.lists(st.sampled_from(UIDS), max_size=3),
)


@given(st.lists(STEPS, max_size=40))
def test_the_graph_is_what_the_objects_say_whatever_the_order_of_changes(steps):
    fed = Fed()
    there: dict[str, tuple[str, list[str], bool]] = {}
    for name, step, owners in steps:
        kind = KINDS[name[0]]
        uid, _, _ = there.get(name, (name, [], False))
        references = [to(KINDS[each[0]], each, there[each][0] if each in there else each) for each in owners]
        if step == "remove":
            if name in there:
                fed.remove(kind, name)
                del there[name]
            continue
        if step == "again":
            uid += "'"
        woken = fed.put(kind, name, uid, references, **(WAITING if step == "wait" else {}))
        there[name] = (uid, [each["uid"] for each in references], step == "wait")
        node = fed.graph.nodes[uid]
        assert (uid in woken) == fed.graph.needs_look(node)
    graph = fed.graph
    assert sorted(graph.nodes) == sorted(uid for uid, _, _ in there.values())
    for name, (uid, _, _) in there.items():
        expected = []
        for other, (other_uid, owner_uids, _) in there.items():
            is_allowed = KINDS[name[0]].namespaced is False or KINDS[other[0]].namespaced
            if uid in owner_uids and is_allowed:
                expected.append(other_uid)
        assert sorted(each.uid for each in graph.dependents(graph.nodes[uid])) == sorted(expected)
    named = {uid for _, owner_uids, _ in there.values() for uid in owner_uids}
    assert set(graph._named_by) == named
    assert set(graph.gone) <= named - set(graph.nodes)


# What it costs.


def test_an_object_takes_less_than_six_hundred_bytes():
    # So fifty thousand take less than 30 MB. Most of it is their names.
    count, replicas = 10_000, 10
    sent: list[tuple[KindName, bytes]] = []
    for number in range(count):
        owner, slot = divmod(number, replicas)
        metadata: dict[str, Any] = {
            "name": f"risk-api-7c9d8f6b5-{number:05}",
            "namespace": "payments",
            "uid": f"9fe70e75-58c1-414f-898f-{number:012}",
            "resourceVersion": str(number + 1),
            "labels": {"app": "risk-api", "pod-template-hash": "7c9d8f6b5"},
            "managedFields": [{"manager": "x", "operation": "Update", "fieldsV1": {"f:metadata": {}}}],
        }
        if slot:
            uid = f"9fe70e75-58c1-414f-898f-{owner * replicas:012}"
            metadata["ownerReferences"] = [to(REPLICASETS, f"risk-api-7c9d8f6b5-{owner * replicas:05}", uid)]
        sent.append((PODS if slot else REPLICASETS, json.dumps({"metadata": metadata}).encode()))
    caches, graph = {kind: Nodes(kind) for kind in (REPLICASETS, PODS)}, Graph()
    for cache in caches.values():
        cache.replace((), 0)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for kind, raw in sent:
        cache = caches[kind]
        for change in cache.apply(cache.read(raw)):
            graph.changed(change)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(graph.nodes) == count
    assert (after - before) / count < 600, f"{(after - before) / count:.0f} bytes for each"


def test_siblings_share_how_they_name_their_owner():
    fed = Fed()
    for number in range(2):
        fed.put(CONFIG_MAPS, f"child-{number}", str(number), [to(CONFIG_MAPS, "owner", "0x")])
    first, second = fed.graph.nodes["0"], fed.graph.nodes["1"]
    assert isinstance(first, Vertex)
    assert first.owners is second.owners
    assert first.owners == (Reference("", "ConfigMap", "owner", "0x", True),)
