"""What is remembered about the specs of pods must never show, except in the time it takes."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import conform as conforming
from mainstay.api import field_sets, managed_fields, memo
from mainstay.api.conform import conform
from mainstay.api.errors import StatusCause
from mainstay.api.field_shapes import find_shape
from mainstay.api.kinds import pod_spec
from mainstay.api.kinds.pod_defaults import default_pod_spec
from mainstay.api.kinds.pod_spec import check_pod_spec
from mainstay.api.memo import COUNT_MAX, KEY_BYTES_MAX, Memo
from tests.api.owned_objects import POD, pods, specs

POD_SPEC = "k8s.io.api.core.v1.PodSpec"


def test_what_was_put_is_found_by_the_same_bytes_and_no_others():
    known: Memo[int] = Memo()
    known.put(b"a", 1)

    assert (known.get(b"a"), known.get(b"b")) == (1, None)


def test_the_first_answer_stays():
    known: Memo[int] = Memo()
    known.put(b"a", 1)
    known.put(b"a", 2)

    assert known.get(b"a") == 1


def test_when_there_are_too_many_the_oldest_goes():
    known: Memo[int] = Memo()
    for number in range(COUNT_MAX + 1):
        known.put(str(number).encode(), number)

    assert (len(known), known.get(b"0"), known.get(b"1")) == (COUNT_MAX, None, 1)


def test_when_there_are_too_many_bytes_the_oldest_goes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memo, "BYTES_MAX", 10)
    known: Memo[int] = Memo()
    for number, key in enumerate((b"a" * 4, b"b" * 4, b"c" * 4, b"d" * 10)):
        known.put(key, number)

    assert (len(known), known.get(b"d" * 10)) == (1, 3)


def test_a_very_long_key_is_not_kept():
    known: Memo[int] = Memo()
    known.put(b"a" * (KEY_BYTES_MAX + 1), 1)

    assert len(known) == 0


# Conforming

_odd = st.sampled_from(
    [None, "", 0, {}, [], "x", 1, True, {"name": "a", "foo": 1}, [None], [{"name": "c", "image": 1}]]
)
_odd_specs = st.builds(lambda spec, more: {**spec, **more}, specs, st.dictionaries(
    st.sampled_from(["containers", "hostNetwork", "nodeName", "priority", "foo", "activeDeadlineSeconds"]),
    _odd, max_size=2,
))  # fmt: skip


def outcome(spec: Any, walk: Any) -> Any:
    """What comes out of a check: the words of a refusal, or the spec afterwards and what it may not have."""
    value, unknown = copy.deepcopy(spec), list[str]()
    try:
        walk(value, (None, "spec"), unknown)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
        return type(error), str(error)
    return repr(value), unknown


_remembering = conforming._check_of_one(POD_SPEC, "Pod")


@given(_odd_specs)
def test_a_spec_that_comes_again_is_put_right_as_the_first_time(spec: Any):
    plain = outcome(spec, conforming._walker(POD_SPEC).walk)

    assert outcome(spec, _remembering) == plain
    assert outcome(spec, _remembering) == plain


def test_an_unknown_field_is_reported_every_time():
    for _ in range(3):
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}], "foo": 1}}
        assert conform(pod, POD) == ["spec.foo"]
        assert "foo" not in pod["spec"]


# Who owns what


@given(pods())
def test_the_fields_of_a_spec_that_comes_again_are_those_of_the_first_time(pod: Any):
    plain = field_sets.begun(pod.get("spec", {}), find_shape(POD_SPEC))

    for _ in range(2):
        assert field_sets.begun(copy.deepcopy(pod), find_shape(POD)).get("f:spec", {}) == plain


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["x", "y"]), pods()), min_size=2, max_size=5))
def test_shared_fields_are_not_changed(writes: Any):
    shared = {key: copy.deepcopy(found) for key, found in field_sets._known_specs._found.items()}
    old: Any = None
    for second, (manager, new) in enumerate(writes):
        entries = managed_fields.updated(
            old, new, manager=manager, api_version="v1", now=f"2026-01-01T00:00:0{second}Z", message=POD
        )
        old = {**new, "metadata": {**new["metadata"], "managedFields": entries}}

    now = field_sets._known_specs._found
    assert all(now[key] == found for key, found in shared.items() if key in now)


# Whether it is valid


@given(specs, st.sampled_from([("Always",), ("Always", "OnFailure", "Never")]))
def test_a_spec_that_comes_again_has_the_same_problems(spec: Any, policies: tuple[str, ...]):
    default_pod_spec(spec)
    plain: list[StatusCause] = []
    pod_spec._check_spec(spec, "spec", plain, policies)

    for _ in range(2):
        causes: list[StatusCause] = []
        check_pod_spec(spec, "spec", causes, policies)
        assert causes == plain


def test_a_spec_that_is_valid_in_one_place_may_not_be_in_another():
    spec: Any = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    default_pod_spec(spec)
    in_pod: list[StatusCause] = []
    in_set: list[StatusCause] = []
    check_pod_spec(spec, "spec", in_pod)
    check_pod_spec(spec, "spec", in_set, ("Always",))

    assert (in_pod, [cause.field for cause in in_set]) == ([], ["spec.restartPolicy"])
