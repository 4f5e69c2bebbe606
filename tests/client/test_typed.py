"""Objects with types, and what the types do not know."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_name import KindName
from mainstay.client.typed import Metadata, OwnerReference, Part, Resource, Unreadable


class Port(Part, kw_only=True):
    name: str = ""
    container_port: int


class Container(Part):
    name: str
    image: str = ""
    ports: list[Port] | None = None


class Named(Part):
    weight: int = 1
    inner: "Named | None" = None


class WidgetSpec(Part):
    replicas: int = 1
    pod_ip: str = msgspec.field(name="podIP", default="")
    containers: list[Container] = msgspec.field(default_factory=list)
    by_name: dict[str, Named] | None = None
    free: dict[str, object] | None = None


class WidgetStatus(Part):
    ready: bool = False
    ratio: float | None = None


class Widget(Resource):
    KIND = KindName("example.com", "v1", "Widget", "widgets", True)

    spec: WidgetSpec = msgspec.field(default_factory=WidgetSpec)
    status: WidgetStatus | None = None


# Objects of that form, with other fields anywhere.

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
unknown_names = st.sampled_from(["x", "managedFields", "foo-bar", "container_port", "source_", "__source", ""])


def objects(required: dict[str, st.SearchStrategy], optional: dict[str, st.SearchStrategy]) -> st.SearchStrategy:
    known = st.fixed_dictionaries(required, optional={name: st.none() | each for name, each in optional.items()})
    return st.builds(lambda extra, given: {**extra, **given}, st.dictionaries(unknown_names, values, max_size=2), known)


ports = objects({"containerPort": st.integers(0, 65535)}, {"name": st.text(max_size=3)})
containers = objects(
    {"name": st.text(max_size=3)}, {"image": st.text(max_size=3), "ports": st.lists(ports, max_size=2)}
)
named = objects({}, {"weight": st.integers(0, 5), "inner": objects({}, {"weight": st.integers(0, 5)})})
specs = objects(
    {},
    {
        "replicas": st.integers(0, 5),
        "podIP": st.text(max_size=3),
        "containers": st.lists(containers, max_size=3),
        "byName": st.dictionaries(st.text(max_size=3), named, max_size=2),
        "free": st.dictionaries(st.text(max_size=3), values, max_size=2),
    },
)
metadata = objects(
    {"name": st.text(max_size=3)},
    {"labels": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2), "generation": st.integers(0, 9)},
)
widgets = objects(
    {"metadata": metadata, "kind": st.just("Widget"), "apiVersion": st.just("example.com/v1")},
    {"spec": specs, "status": objects({}, {"ready": st.booleans(), "ratio": st.integers(0, 3)})},
)


@given(widgets)
def test_what_is_read_is_written_as_it_was_whatever_else_is_in_it(obj):
    before = msgspec.json.encode(obj)

    assert Widget.from_object(obj).to_object() == obj
    assert msgspec.json.encode(obj) == before  # And the object itself was left alone.
    assert Widget.from_bytes(before).to_object() == obj


@given(widgets, st.integers(0, 9))
def test_what_is_changed_is_changed_and_everything_else_stays(obj, replicas):
    widget = Widget.from_object(obj)
    widget.spec.replicas = replicas

    written = widget.to_object()

    spec = dict(obj.get("spec") or {})
    if replicas != 1 or spec.get("replicas") is not None:
        spec["replicas"] = replicas
    expected = {**obj, "spec": spec}
    if not spec and obj.get("spec") is None:
        expected = obj
    assert written == expected


@given(widgets)
def test_elements_of_lists_keep_what_is_theirs_wherever_they_go(obj):
    widget = Widget.from_object(obj)
    widget.spec.containers.reverse()
    del widget.spec.containers[2:]
    widget.spec.containers.append(Container(name="new", ports=[Port(container_port=80)]))

    before = list(reversed((obj.get("spec") or {}).get("containers") or []))[:2]
    added = {"name": "new", "ports": [{"containerPort": 80}]}
    assert widget.to_object()["spec"]["containers"] == [*before, added]


def test_what_is_made_here_says_only_what_it_has():
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid="u", controller=True)
    widget = Widget(metadata=Metadata(name="one", owner_references=[owner]), spec=WidgetSpec(pod_ip="10.0.0.1"))

    assert widget.to_object() == {
        "kind": "Widget",
        "apiVersion": "example.com/v1",
        "metadata": {
            "name": "one",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
        },
        "spec": {"podIP": "10.0.0.1"},
    }
    assert Widget.from_bytes(widget.to_bytes()) == widget


def test_a_field_that_is_set_to_none_is_left_out():
    widget = Widget.from_object({"metadata": {"name": "one", "labels": {"a": "b"}}, "status": {"ready": True, "x": 1}})
    widget.metadata.labels = None
    widget.status = None

    assert widget.to_object() == {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "one"}}


def test_a_field_that_is_set_to_its_default_is_still_said():
    widget = Widget.from_object({"metadata": {"name": "one"}, "spec": {"replicas": 5}})
    widget.spec.replicas = 1

    assert widget.to_object()["spec"] == {"replicas": 1}


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        ({"metadata": {}, "spec": {"replicas": "5"}}, r"^spec\.replicas: Expected `int`, got `str`"),
        ({"metadata": {}, "spec": {"containers": [{"name": "a"}, {}]}}, r"^spec\.containers\[1\]\.name: it is missing"),
        ({"metadata": {}, "spec": {"containers": {}}}, r"^spec\.containers: expected a list, got an object"),
        ({"metadata": {}, "spec": {"byName": {"k": 5}}}, r"^spec\.byName\.k: expected an object, got a number"),
        ({"metadata": {}, "spec": []}, r"^spec: expected an object, got a list"),
        ({}, r"^metadata: it is missing"),
        ({"kind": "Pod", "apiVersion": "v1", "metadata": {}}, "it is Pod of v1, not Widget of example.com/v1"),
    ],
)
def test_what_does_not_have_the_form_is_refused_with_its_place(obj, words):
    with pytest.raises(Unreadable, match=words):
        Widget.from_object(obj)


@pytest.mark.parametrize("data", [b"{", b"[]", b"5", b"\xff"])
def test_bytes_that_are_no_object_are_refused(data):
    with pytest.raises(Unreadable):
        Widget.from_bytes(data)


def test_equal_is_what_is_written_the_same():
    one = Widget.from_object({"metadata": {"name": "one"}, "spec": {"replicas": 5, "x": 1}})
    two = Widget.from_object({"metadata": {"name": "one"}, "spec": {"replicas": 4, "x": 1}})
    assert one != two
    two.spec.replicas = 5

    assert one == two
    two.spec = WidgetSpec(replicas=5)
    assert one != two


def test_a_copy_with_a_change_keeps_the_rest():
    spec = WidgetSpec.from_object({"replicas": 5, "x": 1})

    assert msgspec.structs.replace(spec, replicas=6).to_object() == {"replicas": 6, "x": 1}


def test_a_type_that_could_lose_something_is_refused_when_it_is_used():
    class Odd(Part):
        pairs: tuple[Port, Port] | None = None

    with pytest.raises(TypeError, match="unknown fields"):
        Odd.from_object({})
