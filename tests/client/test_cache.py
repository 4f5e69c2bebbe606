"""What a cache holds, what it is asked, and what it says has changed."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NODES, PODS
from mainstay.client.cache import Cache, CacheStopped, MalformedObject
from mainstay.client.entry import Change, ChangeType
from mainstay.client.indexes import (
    NAMESPACE,
    NODE,
    OWNER,
    PRIORITY_CLASS,
    REGION,
    ZONE,
    Index,
    field,
    label,
)
from mainstay.client.partial import reader, values_at
from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from tests.client.objects import a_pod, key, raw

INDEXES = (NAMESPACE, NODE, OWNER, label("app"))


def a_cache(*pods: dict[str, Any], revision: int = 10, indexes: tuple[Index, ...] = INDEXES) -> Cache:
    """One that has been filled."""
    cache = Cache(PODS, indexes)
    cache.replace([cache.read(raw(pod)) for pod in pods], revision)
    return cache


def apply(cache: Cache, pod: dict[str, Any], *, is_deleted: bool = False) -> list[Change]:
    return list(cache.apply(cache.read(raw(pod)), is_deleted=is_deleted))


def told(changes: list[Change]) -> list[tuple[str, str, int]]:
    return [(change.type.value, change.key.name, change.revision) for change in changes]


# Looking.


def test_an_object_is_found_by_its_key_as_it_was_sent():
    pod = a_pod("a", 7, node="n1")
    cache = a_cache(pod)

    assert cache.get(key("a")) == pod
    assert cache.raw(key("a")) == raw(pod)
    entry = cache.entry(key("a"))
    assert entry is not None
    assert (entry.key, entry.uid, entry.revision, entry.object()) == (key("a"), "uid-a", 7, pod)
    assert (cache.get(key("b")), cache.raw(key("b")), cache.entry(key("b"))) == (None, None, None)


def test_what_is_read_belongs_to_the_reader():
    cache = a_cache(a_pod("a", labels={"app": "web"}))

    mine = cache.get(key("a"))
    assert mine is not None
    mine["metadata"]["labels"]["app"] = "mine"

    assert cache.get(key("a")) == a_pod("a", labels={"app": "web"})


def test_keys_come_sorted_by_namespace_and_name():
    cache = a_cache(a_pod("b"), a_pod("a"), a_pod("z", namespace="alpha"))
    apply(cache, a_pod("aa", 11))

    assert cache.keys() == (key("z", "alpha"), key("a"), key("aa"), key("b"))
    assert [entry.key for entry in cache.entries()] == list(cache.keys())
    assert (len(cache), key("aa") in cache, key("c") in cache) == (4, True, False)


def test_objects_are_found_by_each_index_and_sorted():
    cache = a_cache(
        a_pod("b", node="n1", owners=["rs-1"], labels={"app": "web"}),
        a_pod("a", node="n1", owners=["rs-1", "rs-2"]),
        a_pod("c", labels={"app": "db", "tier": "x"}),
    )

    assert cache.by("node", "n1") == (key("a"), key("b"))
    assert cache.by("owner", "rs-2") == (key("a"),)
    assert cache.by("label:app", "db") == (key("c"),)
    assert cache.by("namespace", "default") == (key("a"), key("b"), key("c"))
    assert cache.by("node", "elsewhere") == ()
    assert cache.values("owner") == ["rs-1", "rs-2"]


def test_an_index_follows_every_change():
    cache = a_cache(a_pod("a"))
    assert cache.by("node", "n1") == ()

    apply(cache, a_pod("a", 11, node="n1"))
    assert cache.by("node", "n1") == (key("a"),)
    apply(cache, a_pod("b", 12, node="n1"))
    assert cache.by("node", "n1") == (key("a"), key("b"))
    apply(cache, a_pod("a", 13, node="n2"))
    assert (cache.by("node", "n1"), cache.by("node", "n2")) == ((key("b"),), (key("a"),))
    apply(cache, a_pod("b", 14, node="n1"), is_deleted=True)
    assert (cache.by("node", "n1"), cache.values("node")) == ((), ["n2"])


def test_several_indexes_together_find_what_each_of_them_finds():
    cache = a_cache(
        a_pod("a", node="n1", labels={"app": "web"}),
        a_pod("b", node="n1", labels={"app": "db"}),
        a_pod("c", node="n2", labels={"app": "web"}),
        a_pod("d", labels={"app": "web"}),
    )

    assert cache.by_all({"node": ["n2", "n1"], "label:app": ["web"]}) == [key("a"), key("c")]
    assert cache.by_all({"node": ["n3"], "label:app": ["web"]}) == []
    assert cache.by_all({"node": ["n1"]}) == list(cache.by("node", "n1"))
    assert cache.by_all({}) == list(cache.keys())
    with pytest.raises(KeyError, match="no index 'zone'"):
        cache.by_all({"zone": ["a"]})


def test_what_an_object_is_found_under_is_told_without_decoding_it():
    cache = a_cache(a_pod("a", node="n1"), a_pod("b"))

    assert cache.find_values(key("a"), "node") == ("n1",)
    assert cache.find_values(key("b"), "node") == cache.find_values(key("gone"), "node") == ()


def test_an_index_that_is_not_there_is_named():
    with pytest.raises(KeyError, match=r"pods has no index 'zone', only \['label:app', 'namespace', 'node', 'owner'\]"):
        a_cache().by("zone", "a")


@pytest.mark.parametrize(
    ("index", "obj", "values"),
    [
        (NAMESPACE, {"metadata": {"namespace": "team-a"}}, ["team-a"]),
        (NODE, {"spec": {"nodeName": "n1"}}, ["n1"]),
        (NODE, {"spec": {"nodeName": ""}}, []),
        (ZONE, {"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}}, ["z1"]),
        (REGION, {"metadata": {"labels": {"topology.kubernetes.io/region": "r1"}}}, ["r1"]),
        (PRIORITY_CLASS, {"spec": {"priorityClassName": "batch"}}, ["batch"]),
        (OWNER, {"metadata": {"ownerReferences": [{"uid": "u1"}, {"uid": "u2"}]}}, ["u1", "u2"]),
        (label("app"), {"metadata": {"labels": {"app": ""}}}, [""]),
        (field("spec", "ports"), {"spec": {"ports": [80, 443, True, None, {}]}}, ["80", "443", "true"]),
        (Index("both", (), lambda obj: [f"{obj['a']}/{obj['b']}"]), {"a": 1, "b": 2}, ["1/2"]),
    ],
)
def test_the_ready_indexes_find_what_they_are_for(index: Index, obj: dict[str, Any], values: list[str]):
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", **obj.get("metadata", {})}
    cache = Cache(KindName("", "v1", "Thing", "things", False), [index])
    cache.replace([cache.read(raw({**obj, "metadata": metadata}))], 10)

    assert cache.values(index.name) == sorted(values)


@pytest.mark.parametrize("spec", [None, "text", 7, [], {"nodeName": None}, {"nodeName": {"a": 1}}])
def test_objects_of_unexpected_form_are_kept_and_not_indexed(spec: Any):
    cache = a_cache({**a_pod("a"), "spec": spec})

    assert (cache.keys(), cache.values("node")) == ((key("a"),), [])


def test_an_index_can_be_added_later_and_finds_what_is_there():
    cache = a_cache(a_pod("a", node="n1"), a_pod("b", node="n2"), indexes=())
    gathered = cache.read(raw(a_pod("c", 12, node="n1")))

    cache.add_indexes([NODE, NODE])
    cache.replace([gathered], 12)

    assert (cache.by("node", "n1"), cache.values("node")) == ((key("c"),), ["n1"])
    with pytest.raises(ValueError, match="another index named 'node'"):
        cache.add_indexes([field("spec", "other", name="node")])


# Being fed.


def test_each_change_says_what_was_and_what_is():
    cache = a_cache()

    (added,) = apply(cache, a_pod("a", 11))
    (modified,) = apply(cache, a_pod("a", 12, node="n1"))
    (deleted,) = apply(cache, a_pod("a", 13, node="n1"), is_deleted=True)

    first, second = cache.read(raw(a_pod("a", 11))), cache.read(raw(a_pod("a", 12, node="n1")))
    assert added == Change(PODS, key("a"), ChangeType.ADDED, None, first, 11)
    assert modified == Change(PODS, key("a"), ChangeType.MODIFIED, first, second, 12)
    assert deleted == Change(PODS, key("a"), ChangeType.DELETED, second, None, 13)
    assert cache.revision == 13


def test_a_delete_of_what_is_not_there_changes_only_the_revision():
    cache = a_cache()

    assert apply(cache, a_pod("a", 11), is_deleted=True) == []
    assert cache.revision == 11


def test_replacing_says_what_is_different():
    cache = a_cache(a_pod("same", 3), a_pod("changed", 4), a_pod("gone", 5, node="n1"))

    changes = cache.replace(
        [cache.read(raw(pod)) for pod in (a_pod("new", 15), a_pod("same", 3), a_pod("changed", 14))], 20
    )

    assert told(list(changes)) == [("DELETED", "gone", 20), ("MODIFIED", "changed", 20), ("ADDED", "new", 20)]
    assert [change.is_inferred for change in changes] == [True, False, False]
    assert (cache.keys(), cache.by("node", "n1")) == ((key("changed"), key("new"), key("same")), ())


def test_another_object_of_the_same_name_is_a_delete_and_an_add():
    cache = a_cache(a_pod("a", 3, uid="first", node="n1"))

    changes = list(cache.replace([cache.read(raw(a_pod("a", 15, uid="second", node="n2")))], 20))
    changes += apply(cache, a_pod("a", 21, uid="third"))

    assert told(changes) == [("DELETED", "a", 20), ("ADDED", "a", 20), ("DELETED", "a", 21), ("ADDED", "a", 21)]
    assert [(change.old and change.old.uid, change.new and change.new.uid) for change in changes] == [
        ("first", None), (None, "second"), ("second", None), (None, "third"),
    ]  # fmt: skip
    assert (cache.values("node"), cache.by("namespace", "default")) == ([], (key("a"),))


def test_it_never_goes_back_unless_the_store_did():
    cache = a_cache(a_pod("a", 9))
    apply(cache, a_pod("b", 12), is_deleted=True)

    with pytest.raises(BrokenInvariant, match="grows with each change: pods: cache=12, change=11"):
        cache.replace([], 11)
    with pytest.raises(BrokenInvariant, match="grows with each change"):
        cache.reached(11)
    with pytest.raises(BrokenInvariant, match="pods default/c: cache=12, change=12"):
        apply(cache, a_pod("c", 12))
    changes = cache.replace([cache.read(raw(a_pod("a", 5)))], 6, is_rewind=True)

    assert (told(list(changes)), cache.revision, len(cache.tombstones)) == ([("MODIFIED", "a", 6)], 6, 0)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_index_that_does_not_match_its_objects_is_noticed(monkeypatch: pytest.MonkeyPatch, is_deleted: bool):
    monkeypatch.setattr("mainstay.client.cache._CHECKED_ONE_IN", 2)
    monkeypatch.setattr("mainstay.client.cache._Table.remove", lambda self, key, values: None)
    cache = Cache(PODS, [NODE])
    apply(cache, a_pod("a", 2, node="n1"))

    with pytest.raises(BrokenInvariant, match="default/a in index node: found=\\['n1'"):
        apply(cache, a_pod("a", 3, node="n2"), is_deleted=is_deleted)


def test_after_going_back_a_revision_is_not_what_it_was():
    cache = a_cache(a_pod("a", 9, node="n1"), a_pod("b", 8))

    changes = cache.replace(
        [cache.read(raw(pod)) for pod in (a_pod("a", 9, node="n2"), a_pod("b", 8))], 9, is_rewind=True
    )

    assert (told(list(changes)), cache.values("node")) == ([("MODIFIED", "a", 9)], ["n2"])


def test_what_is_listed_again_and_has_not_changed_is_kept_once():
    cache = a_cache(a_pod("a", 9, node="n1"))

    assert cache.read(raw(a_pod("a", 9, node="n1"))) is cache.entry(key("a"))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"metadata":{"name":"a","uid":"u"}}',
        b'{"metadata":{"name":"a","uid":"u","resourceVersion":"x"}}',
        b'{"metadata":{"name":"","uid":"u","resourceVersion":"1"}}',
        b'{"metadata":{"name":7,"uid":"u","resourceVersion":"1"}}',
        b'{"metadata":{"name":["a"],"uid":"u","resourceVersion":"1"}}',
        b'{"metadata":{"name":"\xff","uid":"u","resourceVersion":"1"}}',
        b'{"metadata":{"name":"a","resourceVersion":"1"}}',
        b'{"metadata":{"name":"a","namespace":7,"uid":"u","resourceVersion":"1"}}',
    ],
)
def test_what_is_no_object_is_refused(text: bytes):
    with pytest.raises(MalformedObject, match="pods"):
        a_cache().read(text)
    with pytest.raises(MalformedObject, match="pods"):
        a_cache().read_item(text)


def test_an_item_of_a_list_is_kept_like_an_object_of_a_watch():
    cache = a_cache()
    item = {name: value for name, value in a_pod("a", node="n1").items() if name not in ("kind", "apiVersion")}

    assert (
        cache.read_item(raw(item))
        == cache.read_item(raw(a_pod("a", node="n1")))
        == cache.read(raw(a_pod("a", node="n1")))
    )


def test_unchanged_values_are_kept_once():
    cache = a_cache(a_pod("a", 9, node="n1", owners=["rs"]))
    before = cache.entry(key("a"))
    apply(cache, a_pod("a", 11, node="n1", owners=["rs"], image="new"))
    after = cache.entry(key("a"))

    assert before is not None
    assert after is not None
    assert (after.key is before.key, after.uid is before.uid, after.values is before.values) == (True, True, True)


# What is gone.


def test_a_deleted_object_leaves_its_last_state():
    cache = a_cache(a_pod("told", 3), a_pod("inferred", 4, node="n1"))
    apply(cache, a_pod("told", 12, node="n2"), is_deleted=True)
    cache.replace([], 20)

    told_of, inferred = cache.tombstones.get(key("told")), cache.tombstones.get(key("inferred"))

    assert told_of is not None
    assert inferred is not None
    assert (told_of.last.object(), told_of.revision, told_of.is_inferred) == (a_pod("told", 12, node="n2"), 12, False)
    assert (inferred.last.object(), inferred.revision, inferred.is_inferred) == (
        a_pod("inferred", 4, node="n1"),
        20,
        True,
    )
    assert [cache.known_at(key(name)) for name in ("told", "inferred", "never-heard-of")] == [12, 20, 0]


def test_the_oldest_tombstones_go_first():
    cache = Cache(PODS, tombstones_max=2)
    cache.replace([cache.read(raw(a_pod(name))) for name in "abc"], 10)
    for revision, name in enumerate("abc", 11):
        apply(cache, a_pod(name, revision), is_deleted=True)

    assert [cache.tombstones.get(key(name)) is not None for name in "abc"] == [False, True, True]


# Waiting.


async def test_a_waiter_for_a_revision_continues_when_it_is_complete():
    cache = Cache(PODS)
    order: list[int] = []

    async def wait(revision: int) -> None:
        await cache.wait_until(revision)
        order.append(revision)

    waiting = asyncio.gather(*(wait(revision) for revision in (12, 11, 0, 30)))
    await asyncio.sleep(0)
    assert order == []
    cache.replace([], 10)
    await asyncio.sleep(1)
    assert order == [0]
    cache.reached(12)
    await asyncio.sleep(1)
    assert order == [0, 11, 12]
    cache.close()
    with pytest.raises(CacheStopped, match="pods stopped at 12, before 30"):
        await waiting
    await cache.wait_until(12)
    with pytest.raises(CacheStopped):
        await cache.wait_until(13)


async def test_a_cancelled_waiter_is_forgotten():
    cache = a_cache()
    with pytest.raises(TimeoutError):
        async with tasks.timeout(timedelta(seconds=5)):
            await cache.wait_until(99)

    assert cache._waiting == []


# For all inputs.

CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["n1", "n2", ""]),
        st.lists(st.sampled_from(["o1", "o2"]), max_size=2),
        st.booleans(),
    ),
    max_size=40,
)


@given(CHANGES, st.integers(0, 40))
def test_indexes_are_what_reading_everything_would_give(changes, replaced_at: int):
    cache = a_cache()
    for number, (name, node, owners, is_deleted) in enumerate(changes):
        pod = a_pod(name, 11 + number, uid=f"{name}{number // 5}", node=node, owners=owners)
        if number == replaced_at:
            cache.replace([cache.read(raw(pod))], 11 + number)
        else:
            apply(cache, pod, is_deleted=is_deleted)

    fresh = a_cache(*(entry.object() for entry in cache.entries()), revision=100)
    for index in INDEXES:
        expected = {value: fresh.by(index.name, value) for value in fresh.values(index.name)}
        assert {value: cache.by(index.name, value) for value in cache.values(index.name)} == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", "b"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("abcd"), below, max_size=3),
    max_leaves=12,
)
PATHS = st.lists(st.lists(st.sampled_from("abcd"), max_size=3).map(tuple), min_size=1, max_size=5)


@given(PATHS, JSON)
def test_reading_some_fields_gives_what_reading_everything_gives(paths, obj):
    assert reader(paths)(raw(obj)) == values_at(paths, obj)


def test_a_cluster_wide_object_has_no_namespace():
    cache = Cache(NODES, [NAMESPACE])
    metadata = {"name": "n1", "uid": "u", "resourceVersion": "7"}
    cache.replace([cache.read(raw({"metadata": metadata}))], 7)

    assert (cache.keys(), cache.values("namespace")) == ((key("n1", ""),), [])
