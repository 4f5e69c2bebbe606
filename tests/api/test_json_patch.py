"""JSON patch, by the examples of its RFC, by what the real server answers, and by its laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import json_patch as module
from mainstay.api.errors import StatusError
from mainstay.api.json_patch import OPERATIONS_MAX, json_patch
from mainstay.api.json_values import DEPTH_MAX
from mainstay.api.kind import Object


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Object:
    return {"op": "remove", "path": path}


def replace(path: str, value: Any) -> Object:
    return {"op": "replace", "path": path, "value": value}


def move(source: str, path: str) -> Object:
    return {"op": "move", "from": source, "path": path}


def copy_of(source: str, path: str) -> Object:
    return {"op": "copy", "from": source, "path": path}


def is_equal(path: str, value: Any) -> Object:
    return {"op": "test", "path": path, "value": value}


def test_operations_are_carried_out_in_order():
    patch = [is_equal("/a", 1), add("/b", [1]), add("/b/-", 2), copy_of("/b", "/c"), remove("/a"), move("/b/0", "/d")]

    assert json_patch({"a": 1}, patch) == {"b": [2], "c": [1, 2], "d": 1}


@pytest.mark.parametrize(
    ("original", "operation", "patched"),
    [
        ({"foo": "bar"}, add("/baz", "qux"), {"foo": "bar", "baz": "qux"}),
        ({"foo": "bar"}, add("/foo", {}), {"foo": {}}),
        ({"foo": [1, 2]}, add("/foo/1", 3), {"foo": [1, 3, 2]}),
        ({"foo": [1]}, add("/foo/1", 3), {"foo": [1, 3]}),
        ({"foo": [1]}, add("/foo/-", [2]), {"foo": [1, [2]]}),
        ({"foo": [1]}, add("", {"a": 1}), {"a": 1}),
        ({}, add("/", 1), {"": 1}),
        ({}, add("/-", 1), {"-": 1}),
        ({"foo": {"01": 1}}, remove("/foo/01"), {"foo": {}}),
        ({"foo": [1, 2, 3]}, remove("/foo/1"), {"foo": [1, 3]}),
        ({"foo": [1, 2]}, replace("/foo/0", None), {"foo": [None, 2]}),
        ({"foo": 1}, replace("", {}), {}),
        ({"a/b": 1, "c~d": 2, "~1": 3}, remove("/a~1b"), {"c~d": 2, "~1": 3}),
        ({"a/b": 1, "c~d": 2, "~1": 3}, remove("/c~0d"), {"a/b": 1, "~1": 3}),
        ({"a/b": 1, "c~d": 2, "~1": 3}, remove("/~01"), {"a/b": 1, "c~d": 2}),
        ({"a": {"b": 1}}, move("/a/b", "/b"), {"a": {}, "b": 1}),
        ({"a": [1, 2, 3]}, move("/a/0", "/a/2"), {"a": [2, 3, 1]}),
        ({"a": 1}, move("/a", "/a"), {"a": 1}),
        ({"a": {"b": 1}}, copy_of("/a", "/a/c"), {"a": {"b": 1, "c": {"b": 1}}}),
        ({"a": [1, {"b": "x"}]}, is_equal("/a", [1.0, {"b": "x"}]), {"a": [1, {"b": "x"}]}),
        ({"a": None}, is_equal("/a", None), {"a": None}),
        ({}, is_equal("/a", None), {}),
        ({}, {"op": "test", "path": "/a"}, {}),
        ({"a": 1}, {**add("/b", 2), "other": "ignored"}, {"a": 1, "b": 2}),
    ],
)
def test_every_operation_does_what_the_rfc_says(original, operation, patched):
    assert json_patch(original, [operation]) == patched


@pytest.mark.parametrize(
    ("original", "operation"),
    [
        ({"a": 1}, is_equal("/a", 2)),
        ({"a": 1}, is_equal("/a", True)),
        ({"a": 0}, is_equal("/a", False)),
        ({"a": "1"}, is_equal("/a", 1)),
        ({"a": 1}, is_equal("/a", None)),
        ({"a": [1]}, is_equal("/a", [1, 2])),
        ({"a": {"b": 1}}, is_equal("/a", {"b": 1, "c": 2})),
        ({"a": 1}, is_equal("/b", 2)),
        ({"a": [1]}, is_equal("/a/1", None)),
        ({}, remove("/zzz")),
        ({}, remove("/a/b")),
        ({"a": "text"}, remove("/a/0")),
        ({"a": [1]}, remove("/a/1")),
        ({"a": [1]}, remove("/a/-")),
        ({"a": [1]}, remove("/a/-1")),
        ({"a": [1]}, remove("/a/00")),
        ({"a": [1]}, remove("/a/+0")),
        ({"a": [1]}, remove("/a/٠")),
        ({"a": [1]}, remove("/a/" + "9" * 5000)),
        ({"a": [1]}, add("/a/2", 1)),
        ({"a": [1]}, add("/a/x", 1)),
        ({"a": 1}, add("/a/b", 1)),
        ({}, add("/a/b", 1)),
        ({}, replace("/a", 1)),
        ({"a": [1]}, replace("/a/-", 1)),
        ({"a": {"b": 1}}, move("/a", "/a/b")),
        ({"a": 1}, move("/b", "/c")),
        ({"a": 1}, copy_of("/b", "/c")),
        ({"a": 1}, remove("a")),
        ({"a": 1}, remove("")),
        ({"a": 1}, add("", [])),
        ({"a": 1}, {"op": "add", "path": "/b"}),
        ({"a": 1}, {"op": "move", "path": "/b"}),
        ({"a": 1}, {"op": "add", "value": 1}),
        ({"a": 1}, {"op": "increment", "path": "/a", "value": 1}),
        ({"a": 1}, {}),
    ],
)
def test_what_cannot_be_carried_out_is_rejected_as_a_whole(original, operation):
    before = copy.deepcopy(original)

    with pytest.raises(StatusError) as refusal:
        json_patch(original, [add("/new", 1), operation])

    assert refusal.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }
    assert original == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"op": "x"}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("x", "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([1], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            [{"op": "add", "path": []}],
            "json: cannot unmarshal array into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_what_is_no_patch_is_a_bad_request(patch, message):
    with pytest.raises(StatusError) as refusal:
        json_patch({}, patch)

    assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")
    assert refusal.value.message == f"error decoding patch: {message}"


def test_nothing_to_do_is_a_patch():
    assert json_patch({"a": 1}, []) == json_patch({"a": 1}, None) == {"a": 1}


def test_there_is_a_limit_to_the_number_of_operations():
    assert json_patch({}, [add("/a", 1)] * OPERATIONS_MAX) == {"a": 1}

    with pytest.raises(StatusError) as refusal:
        json_patch({}, [add("/a", 1)] * (OPERATIONS_MAX + 1))

    assert (refusal.value.code, refusal.value.reason) == (413, "RequestEntityTooLarge")
    assert "The allowed maximum operations in a JSON patch is 10000, got 10001" in refusal.value.message


def test_copying_cannot_make_an_object_grow_without_bound(monkeypatch):
    monkeypatch.setattr(module, "COPIED_MAX", 1000)
    doubling = [copy_of("/a", "/a/-")] * 20

    with pytest.raises(StatusError) as refusal:
        json_patch({"a": ["some text"]}, doubling)

    assert refusal.value.code == 422


def test_what_is_nested_too_deeply_is_refused():
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    below = "/a" * DEPTH_MAX
    cases: list[tuple[Object, list[Object]]] = [
        ({}, [add("/a", deep)]),
        ({"a": deep}, []),
        ({}, [add("/a" * depth, {}) for depth in range(1, 200)]),
        ({"a": {}}, [copy_of("/a", "/a" * (2**power + 1)) for power in range(10)]),
        ({"b": [[[]]], **_chain(DEPTH_MAX - 1)}, [move("/b", below)]),
    ]
    for original, patch in cases:
        with pytest.raises(StatusError, match="too deeply") as refusal:
            json_patch(original, patch)
        assert refusal.value.code == 400


def _chain(levels: int) -> Object:
    value: Object = {}
    for _ in range(levels):
        value = {"a": value}
    return value


NAMES = st.sampled_from(["a", "b", "~", "/", "0", "-"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
PATHS = st.lists(st.sampled_from(["a", "b", "~0", "~1", "0", "1", "-"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
OPERATIONS = st.one_of(
    st.builds(add, PATHS, VALUES),
    st.builds(remove, PATHS),
    st.builds(replace, PATHS, VALUES),
    st.builds(move, PATHS, PATHS),
    st.builds(copy_of, PATHS, PATHS),
    st.builds(is_equal, PATHS, VALUES),
)


@given(OBJECTS, st.lists(OPERATIONS, max_size=5))
def test_a_patch_works_or_is_refused_and_never_touches_what_it_was_given(original, patch):
    before = copy.deepcopy((original, patch))

    code = 200
    try:
        patched = json_patch(original, patch)
        for value in patched.values():
            if isinstance(value, list | dict):
                value.clear()
        patched.clear()
    except StatusError as refusal:
        code = refusal.code

    assert code in (200, 422)
    assert repr((original, patch)) == repr(before)


@given(OBJECTS, OPERATIONS, OPERATIONS)
def test_two_patches_one_after_the_other_are_one_patch(original, first, second):
    try:
        together = json_patch(original, [first, second])
    except StatusError:
        together = None
    try:
        apart = json_patch(json_patch(original, [first]), [second])
    except StatusError:
        apart = None

    # Only a document that is no object for a moment makes a difference, and moves to and from the top can do that.
    if "" not in (first.get("path"), first.get("from")):
        assert together == apart


def pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


@given(OBJECTS, OBJECTS)
def test_removing_all_and_adding_others_makes_one_object_out_of_another(old, new):
    patch = [remove(pointer(name)) for name in old] + [add(pointer(name), value) for name, value in new.items()]

    assert json_patch(old, patch) == new
