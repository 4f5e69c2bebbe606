from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.field_sets import (
    begun,
    compare_fields,
    difference,
    fields_in,
    intersection,
    is_field_set,
    ordered,
    paths,
    union,
    whole,
)
from mainstay.api.field_shapes import find_shape
from tests.api.owned_objects import POD, pods

SHAPE = find_shape(POD)

_steps = st.sampled_from(["f:a", "f:b", 'k:{"name":"a"}', 'v:"a"'])
_trees: st.SearchStrategy[Any] = st.recursive(
    st.just({}),
    lambda below: st.builds(
        lambda steps, is_self: {**steps, **({".": {}} if is_self and steps else {})},
        st.dictionaries(_steps, below, max_size=3),
        st.booleans(),
    ),
    max_leaves=8,
)
sets = st.dictionaries(_steps, _trees, max_size=3)


@given(sets, sets, sets)
def test_union_and_intersection_are_those_of_sets(a: Any, b: Any, c: Any) -> None:
    assert union(a, a) == a == intersection(a, a)
    assert union(a, {}) == a
    assert intersection(a, {}) == {}
    assert union(a, b) == union(b, a)
    assert intersection(a, b) == intersection(b, a)
    assert union(a, union(b, c)) == union(union(a, b), c)
    assert intersection(a, union(b, c)) == union(intersection(a, b), intersection(a, c))


@given(sets, sets)
def test_difference_is_that_of_sets(a: Any, b: Any) -> None:
    assert difference(a, a) == {}
    assert difference(a, {}) == a
    assert intersection(difference(a, b), b) == {}
    assert union(difference(a, b), intersection(a, b)) == a
    assert union(difference(a, b), b) == union(a, b)


@given(sets, sets)
def test_the_algebra_agrees_with_sets_of_paths(a: Any, b: Any) -> None:
    left, right = set(paths(a)), set(paths(b))
    assert set(paths(union(a, b))) == left | right
    assert set(paths(intersection(a, b))) == left & right
    assert set(paths(difference(a, b))) == left - right


@given(sets, sets)
def test_the_algebra_leaves_its_arguments_alone_and_makes_proper_sets(a: Any, b: Any) -> None:
    before = msgspec.json.encode([a, b])
    for made in (union(a, b), difference(a, b), intersection(a, b)):
        assert is_field_set(made)
    assert msgspec.json.encode([a, b]) == before


@given(pods())
def test_a_set_survives_being_sent(pod: Any) -> None:
    fields = begun(pod, SHAPE)
    assert msgspec.json.decode(msgspec.json.encode(fields)) == fields
    assert is_field_set(fields)
    assert list(ordered(fields)) == sorted(fields)
    assert msgspec.json.encode(ordered(fields)) == msgspec.json.encode(fields), "made in that order"


@given(pods())
def test_what_is_made_is_what_differs_from_nothing(pod: Any) -> None:
    assert compare_fields({}, pod, SHAPE) == (begun(pod, SHAPE), {})
    assert compare_fields(pod, {}, SHAPE) == ({}, begun(pod, SHAPE))
    assert compare_fields(pod, pod, SHAPE) == ({}, {})


@given(pods(), pods())
def test_what_changes_on_the_way_goes_on_the_way_back(old: Any, new: Any) -> None:
    there, gone = compare_fields(old, new, SHAPE)
    back, lost = compare_fields(new, old, SHAPE)
    assert intersection(there, gone) == {}
    assert difference(there, lost) == difference(back, gone), "what is there both times, with other values"
    assert difference(there, begun(new, SHAPE)) == {}
    assert difference(gone, begun(old, SHAPE)) == {}


@given(pods())
def test_what_is_said_is_part_of_what_is_made(pod: Any) -> None:
    assert difference(fields_in(pod, SHAPE), whole(pod, SHAPE)) == {}


def test_fields_are_owned_as_their_markers_say() -> None:
    pod = {
        "metadata": {
            "labels": {"app": "web"},
            "finalizers": ["example.com/x"],
            "ownerReferences": [{"uid": "1", "name": "web"}],
        },
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "x"}],
            "containers": [
                {
                    "name": "c",
                    "args": ["-v"],
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": 'a"b', "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                    "resources": {},
                }
            ],
        },
    }
    assert begun(pod, SHAPE) == {
        "f:metadata": {
            "f:labels": {".": {}, "f:app": {}},
            "f:finalizers": {".": {}, 'v:"example.com/x"': {}},
            "f:ownerReferences": {".": {}, 'k:{"uid":"1"}': {}},
        },
        "f:spec": {
            "f:nodeSelector": {},
            "f:tolerations": {},
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:name": {},
                    "f:args": {},
                    "f:ports": {
                        ".": {},
                        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}},
                    },
                    "f:env": {
                        ".": {},
                        'k:{"name":"a\\"b"}': {".": {}, "f:name": {}, "f:valueFrom": {".": {}, "f:fieldRef": {}}},
                    },
                    "f:resources": {},
                }
            },
        },
    }


def test_saying_something_does_not_claim_what_is_around_it() -> None:
    said = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    assert fields_in(said, SHAPE) == {
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}}}},
    }


def test_an_empty_map_is_said_and_an_empty_list_is_not() -> None:
    assert fields_in({"metadata": {"labels": {}}, "spec": {"containers": [], "tolerations": []}}, SHAPE) == {
        "f:metadata": {"f:labels": {}},
        "f:spec": {"f:tolerations": {}},
    }


def test_of_a_custom_kind_objects_are_owned_singly_and_lists_as_a_whole() -> None:
    custom = {"metadata": {"finalizers": ["x"]}, "spec": {"size": 3, "parts": [{"name": "a"}], "deep": {"er": {}}}}
    assert begun(custom, find_shape("")) == {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"x"': {}}},
        "f:spec": {".": {}, "f:size": {}, "f:parts": {}, "f:deep": {".": {}, "f:er": {}}},
    }


def test_paths_are_shown_in_the_words_of_kubernetes() -> None:
    fields = {
        "f:spec": {
            "f:ports": {".": {}, 'k:{"protocol":"TCP","port":80}': {"f:name": {}}},
            "f:replicas": {},
        },
        "f:metadata": {"f:finalizers": {'v:"x"': {}}},
    }
    assert paths(fields) == [
        '.metadata.finalizers[="x"]',
        ".spec.ports",
        ".spec.replicas",
        '.spec.ports[port=80,protocol="TCP"].name',
    ]


def test_what_is_no_set_is_told() -> None:
    assert is_field_set({"f:a": {".": {}, "f:b": {}}})
    nested: Any = {}
    for _ in range(200):
        nested = {"f:a": nested}
    others: list[Any] = [None, [], "f:a", {".": {}}, {"a": {}}, {"f:a": None}, {"f:a": {".": {"f:b": {}}}}]
    for wrong in (*others, nested):
        assert not is_field_set(wrong)
