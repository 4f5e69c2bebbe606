"""What differs between two versions of an object is found field by field, whatever moves or has free names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.explain.fields import (
    NOTHING,
    BadPath,
    FieldChange,
    at,
    differences,
    is_below,
    leaves,
    parse_path,
    path_text,
    shown,
)


def test_a_field_that_changed_is_named_by_its_path():
    before = {"metadata": {"name": "web"}, "spec": {"replicas": 6, "paused": True}}
    after = {"metadata": {"name": "web"}, "spec": {"replicas": 8}}

    assert differences(before, after) == [
        FieldChange(("spec", "paused"), True, NOTHING),
        FieldChange(("spec", "replicas"), 6, 8),
    ]


def test_entries_of_a_list_are_told_apart_by_name_and_not_by_place():
    before = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]}}
    after = {"spec": {"containers": [{"name": "b", "image": "y:2"}, {"name": "a", "image": "x:1"}]}}

    assert differences(before, after) == [FieldChange(("spec", "containers", "[b]", "image"), "y:1", "y:2")]


def test_what_a_server_keeps_about_versions_is_no_difference():
    before = {"metadata": {"name": "web", "resourceVersion": "1", "managedFields": [{"manager": "x"}]}}
    after = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "resourceVersion": "2"}}

    assert differences(before, after) == []


def test_names_with_dots_stand_in_brackets():
    [change] = differences({"metadata": {"labels": {}}}, {"metadata": {"labels": {"example.com/tier": "front"}}})

    assert path_text(change.path) == "metadata.labels[example.com/tier]"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec.replicas", ("spec", "replicas")),
        (".spec.replicas", ("spec", "replicas")),
        ("spec.template.spec.containers[main].image", ("spec", "template", "spec", "containers", "[main]", "image")),
        ("spec.containers[name=main]", ("spec", "containers", "[main]")),
        ("metadata.labels[example.com/tier]", ("metadata", "labels", "[example.com/tier]")),
        ("metadata.annotations['a.b/c']", ("metadata", "annotations", "[a.b/c]")),
    ],
)
def test_a_path_is_read_as_people_write_it(text: str, path: tuple[str, ...]):
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "spec.", "spec..x", "spec[", "spec[]", "a b", "[]"])
def test_what_is_no_path_is_refused_with_an_example(text: str):
    with pytest.raises(BadPath, match=r"spec\.replicas"):
        parse_path(text)


def test_a_field_is_below_what_it_is_a_part_of():
    path = ("spec", "containers", "[main]", "image")

    assert is_below(path, ("spec",))
    assert is_below(path, ("spec", "containers", "main"))
    assert not is_below(path, ("spec", "containers", "[other]"))
    assert not is_below(("spec",), path)


def test_what_is_at_a_path_is_found_by_name():
    obj = {"spec": {"containers": [{"name": "main", "image": "x:1"}]}}

    assert at(obj, parse_path("spec.containers[main].image")) == "x:1"
    assert at(obj, parse_path("spec.containers[other].image")) is NOTHING


def test_a_value_is_shown_in_one_line():
    assert shown("a\nb  c") == "a b c"
    assert shown(None) == shown(NOTHING) == "none"
    assert shown({"b": 1, "a": [2]}) == '{"a":[2],"b":1}'
    assert len(shown("x" * 1000)) == 80


_values = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2) | st.booleans(),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "name", "labels", "spec"]), below, max_size=3)
    ),
    max_leaves=12,
)
_objects = st.dictionaries(st.sampled_from(["spec", "status", "data"]), _values, max_size=3)


@given(_objects, _objects)
def test_there_are_differences_exactly_if_something_differs(before, after):
    assert bool(differences(before, after)) == (before != after)


@given(_objects)
def test_every_leaf_is_at_its_path(obj):
    found = list(leaves((), obj))

    assert len({path for path, _ in found}) == len(found)
    for path, value in found:
        assert at(obj, path) == value
