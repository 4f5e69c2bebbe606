"""JSON merge patch, by the examples of its RFC and by its laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.errors import StatusError
from mainstay.api.json_values import DEPTH_MAX
from mainstay.api.kind import Object
from mainstay.api.merge_patch import merge_patch


@pytest.mark.parametrize(
    ("original", "patch", "patched"),
    [  # From the appendix of RFC 7386, as far as both are objects.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "text"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ],
)
def test_fields_are_set_merged_and_removed(original, patch, patched):
    assert merge_patch(original, patch) == patched


@pytest.mark.parametrize(
    ("patch", "kind"), [([], "array"), ("x", "string"), (1, "number"), (True, "bool"), (None, "null")]
)
def test_a_patch_must_be_an_object(patch, kind):
    with pytest.raises(StatusError) as refusal:
        merge_patch({}, patch)

    assert refusal.value.code == 400
    assert refusal.value.message == (
        f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    )


def nested(levels: int, innermost: int = 1) -> Any:
    value: Any = innermost
    for _ in range(levels):
        value = {"a": value}
    return value


def test_what_is_nested_too_deeply_is_refused():
    assert merge_patch(nested(DEPTH_MAX), nested(DEPTH_MAX, 2)) == nested(DEPTH_MAX, 2)
    for original, patch in [
        ({}, nested(DEPTH_MAX + 1)),
        (nested(DEPTH_MAX + 1), {"b": 1}),
        (nested(5_000), nested(5_000)),
        ({}, {"a": [nested(5_000)]}),
    ]:
        with pytest.raises(StatusError, match="too deeply") as refusal:
            merge_patch(original, patch)
        assert refusal.value.code == 400


NAMES = st.sampled_from("abc")
SCALARS = st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"])


def objects(scalars: st.SearchStrategy[Any] = SCALARS) -> st.SearchStrategy[Object]:
    values: st.SearchStrategy[Any] = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    )
    return st.dictionaries(NAMES, values, max_size=3)


def difference(old: Object, new: Object) -> Object:
    """The patch that makes one out of the other."""
    patch: Object = dict.fromkeys(name for name in old if name not in new)
    for name, value in new.items():
        if isinstance(value, dict):
            inner = difference(old[name] if isinstance(old.get(name), dict) else {}, value)
            if inner or not isinstance(old.get(name), dict):
                patch[name] = inner
        elif name not in old or old[name] != value or type(old[name]) is not type(value):
            patch[name] = value
    return patch


@given(objects(), objects())
def test_the_difference_of_two_objects_makes_one_out_of_the_other(old, new):
    assert merge_patch(old, difference(old, new)) == new


@given(objects(SCALARS | st.none()), objects(SCALARS | st.none()))
def test_a_patch_is_as_good_twice_as_once_and_changes_nothing_else(original, patch):
    before = copy.deepcopy((original, patch))

    once = merge_patch(original, patch)

    assert merge_patch(once, patch) == once
    assert (original, patch) == before


@given(objects())
def test_the_result_shares_nothing_with_what_it_was_made_from(original):
    patch: Object = {"p": {"q": [{}]}}
    before = copy.deepcopy((original, patch))

    scribble(merge_patch(original, patch))

    assert (original, patch) == before


def scribble(value: Any) -> None:
    """Change everything that can be changed."""
    for each in list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()):
        scribble(each)
    if isinstance(value, dict):
        value["scribble"] = 1
    elif isinstance(value, list):
        value.append("scribble")
