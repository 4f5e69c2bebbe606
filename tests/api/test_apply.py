from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from mainstay.api.apply import Application
from mainstay.api.errors import StatusError
from mainstay.api.field_sets import fields_in
from mainstay.api.field_shapes import find_shape
from mainstay.api.json_values import copied
from mainstay.api.kind import STATUS, Kind
from tests.api.owned_objects import POD, pods

CONFIG_MAP = Kind(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    singular="configmap",
    namespaced=True,
    message="k8s.io.api.core.v1.ConfigMap",
)
PODS = Kind(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    singular="pod",
    namespaced=True,
    message=POD,
    subresources=(STATUS,),
)
SERVICES = Kind(
    group="",
    version="v1",
    kind="Service",
    plural="services",
    singular="service",
    namespaced=True,
    message="k8s.io.api.core.v1.Service",
)
WIDGETS = Kind(
    group="example.com", version="v1", kind="Widget", plural="widgets", singular="widget", namespaced=True,
    is_custom=True, subresources=(STATUS,),
)  # fmt: skip


def apply(
    live: Any, manager: str, kind: Kind = CONFIG_MAP, *, second: int = 0, force: bool = False, **said: Any
) -> Any:
    subresource = said.pop("subresource", "")
    patch = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": {"name": "x"}, **said}
    now = f"2026-01-01T00:00:{second:02}Z"
    application = Application(kind, "d", "x", patch, manager, now, force=force, subresource=subresource)
    return application.applied(copied(live))


def owned(obj: Any) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


def refusal(live: Any, manager: str, kind: Kind = CONFIG_MAP, **said: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        apply(live, manager, kind, **said)
    return caught.value


def test_what_is_applied_to_nothing_is_made_and_owned() -> None:
    assert apply(None, "m1", data={"a": "1", "b": "1"}) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "x",
            "managedFields": [
                {
                    "manager": "m1",
                    "operation": "Apply",
                    "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
                }
            ],
        },
        "data": {"a": "1", "b": "1"},
    }


def test_another_value_of_an_owned_field_is_a_conflict() -> None:
    error = refusal(apply(None, "m1", data={"a": "1", "b": "1"}), "m2", data={"a": "2"})
    assert error.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "m1": .data.a',
        "reason": "Conflict",
        "details": {
            "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.a"}]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_manager() -> None:
    live = apply(None, "m1", data={"a": "1", "b": "1"})
    live["metadata"]["managedFields"].append(
        {"manager": "m0", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {".": {}, "f:a": {}}}}
    )
    error = refusal(live, "m2", data={"a": "2", "b": "2"})
    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "m0" using v1:\n- .data.a\n'
        'conflicts with "m1":\n- .data.a\n- .data.b'
    )


def test_force_takes_what_is_applied_from_its_owners() -> None:
    live = apply(None, "m1", data={"a": "1", "b": "1"})
    forced = apply(live, "m2", data={"a": "2"}, force=True)
    assert forced["data"] == {"a": "2", "b": "1"}
    assert owned(forced) == {"m1": {"f:data": {"f:b": {}}}, "m2": {"f:data": {"f:a": {}}}}


def test_the_same_value_is_shared_and_stays_until_the_last_owner_leaves_it_out() -> None:
    shared = apply(apply(None, "m1", data={"a": "1", "b": "1"}), "m2", data={"a": "1"})
    assert owned(shared) == {"m1": {"f:data": {"f:a": {}, "f:b": {}}}, "m2": {"f:data": {"f:a": {}}}}
    left = apply(shared, "m1", data={"b": "1"})
    assert left["data"] == {"a": "1", "b": "1"}
    assert "a" not in apply(left, "m2").get("data", {})


def test_what_was_applied_and_is_left_out_goes_away() -> None:
    live = apply(None, "m1", data={"a": "1"})
    live["data"]["other"] = "x"  # No manager owns it.
    assert apply(live, "m1", data={})["data"] == {"other": "x"}


def test_emptied_objects_leave_no_shell() -> None:
    live = apply(None, "m1", metadata={"name": "x", "labels": {"a": "1"}}, data={"a": "1"})
    new = apply(live, "m1")
    assert new == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def test_lists_merge_by_their_keys_and_keep_the_order_of_the_patch() -> None:
    live = apply(None, "m1", PODS, spec={"containers": [{"name": "a"}, {"name": "b", "image": "1"}, {"name": "c"}]})
    new = apply(live, "m2", PODS, spec={"containers": [{"name": "x"}, {"name": "c", "tty": True}, {"name": "a"}]})
    assert new["spec"]["containers"] == [
        {"name": "b", "image": "1"},
        {"name": "x"},
        {"name": "c", "tty": True},
        {"name": "a"},
    ]


def test_one_port_number_is_there_for_each_protocol_and_left_out_it_means_tcp() -> None:
    live = apply(None, "m1", SERVICES, spec={"ports": [{"port": 53, "protocol": "TCP"}]})
    new = apply(live, "m2", SERVICES, spec={"ports": [{"port": 53, "name": "t"}, {"port": 53, "protocol": "UDP"}]})
    assert new["spec"]["ports"] == [{"port": 53, "protocol": "TCP", "name": "t"}, {"port": 53, "protocol": "UDP"}]


def test_an_element_that_another_needs_stays_without_what_was_taken_out() -> None:
    live = apply(None, "m1", PODS, spec={"containers": [{"name": "c", "image": "1", "tty": True}]})
    live = apply(live, "m2", PODS, spec={"containers": [{"name": "c", "image": "1"}]})
    assert apply(live, "m1", PODS)["spec"]["containers"] == [{"name": "c", "image": "1"}]


def test_sets_merge_and_atomic_lists_are_replaced() -> None:
    meta = {"name": "x", "finalizers": ["a/a", "b/b"]}
    live = apply(None, "m1", PODS, metadata=meta, spec={"tolerations": [{"key": "a"}]})
    meta = {"name": "x", "finalizers": ["c/c", "b/b"]}
    new = apply(live, "m2", PODS, metadata=meta, spec={"tolerations": [{"key": "b"}]}, force=True)
    assert new["metadata"]["finalizers"] == ["a/a", "c/c", "b/b"]
    assert new["spec"]["tolerations"] == [{"key": "b"}]
    assert owned(new)["m1"] == {"f:metadata": {"f:finalizers": {'v:"a/a"': {}, 'v:"b/b"': {}}}}


def test_fields_from_before_managed_fields_belong_to_their_writer() -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "1"}, "data": {"a": "1"}}
    assert refusal(live, "m1", data={"a": "2"}).message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    )
    assert owned(apply(live, "m1", data={"a": "1"})) == {
        "before-first-apply": {"f:data": {".": {}, "f:a": {}}},
        "m1": {"f:data": {"f:a": {}}},
    }


def test_a_status_is_applied_only_where_it_can_be_written() -> None:
    live = apply(None, "m1", PODS, spec={"nodeName": "n"}, status={"phase": "Running"})
    assert "status" not in live
    assert owned(live) == {"m1": {"f:spec": {"f:nodeName": {}}}}
    new = apply(live, "m2", PODS, subresource="status", status={"phase": "Failed"}, spec={"nodeName": "other"})
    assert new["spec"] == {"nodeName": "n"}
    assert new["status"] == {"phase": "Failed"}
    assert owned(new)["m2"] == {"f:status": {"f:phase": {}}}


def test_custom_objects_merge_and_their_lists_are_replaced() -> None:
    live = apply(None, "m1", WIDGETS, spec={"size": 1, "parts": [{"name": "a"}], "box": {"color": "red"}})
    new = apply(live, "m2", WIDGETS, spec={"box": {"weight": 3}})
    assert new["spec"] == {"size": 1, "parts": [{"name": "a"}], "box": {"color": "red", "weight": 3}}
    assert apply(new, "m1", WIDGETS)["spec"] == {"box": {"weight": 3}}
    assert refusal(new, "m2", WIDGETS, spec={"parts": []}).code == 409


def test_a_patch_says_what_it_is_for_and_nothing_about_owners() -> None:
    application = Application(CONFIG_MAP, "d", "x", {"metadata": {"name": "x"}}, "m", "")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"metadata": {"name": "x"}}, "invalid object type: /, Kind="),
        ({"apiVersion": "apps/v1", "kind": "ConfigMap"}, "invalid object type: apps/v1, Kind=ConfigMap"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": [{"manager": "x"}]}},
            "metadata.managedFields must be nil",
        ),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}},
            "the name of the object (y) does not match the name on the URL (x)",
        ),
    ]
    for patch, message in refused:
        with pytest.raises(StatusError) as caught:
            replace(application, patch=patch).applied(None)
        assert (caught.value.code, caught.value.message) == (400, message)


def test_a_patch_with_unknown_fields_or_elements_that_cannot_be_told_apart_is_refused() -> None:
    error = refusal(None, "m", PODS, spec={"nodename": "n"})
    assert (error.code, error.message) == (
        500,
        "failed to create typed patch object (d/x; v1, Kind=Pod): .spec.nodename: field not declared in schema",
    )
    error = refusal(None, "m", PODS, spec={"containers": [{"name": "c"}, {"name": "c"}]})
    assert error.message.endswith(': .spec.containers: duplicate entries for key [name="c"]')
    error = refusal(None, "m", PODS, spec={"containers": [{"image": "c"}]})
    assert 'element 0: associative list with keys has an element that omits key field "name"' in error.message


def _said(pod: Any) -> dict[str, Any]:
    return {name: value for name, value in pod.items() if name in ("spec", "metadata")}


@given(pods(), pods())
def test_applying_twice_is_applying_once(live: Any, patch: Any) -> None:
    live = apply(None, "m1", PODS, **_said(live))
    once = apply(live, "m2", PODS, second=1, force=True, **_said(patch))
    assert apply(once, "m2", PODS, second=2, **_said(patch)) == once


@given(pods(), pods())
def test_what_was_applied_is_there_and_owned(live: Any, patch: Any) -> None:
    live = apply(None, "m1", PODS, **_said(live))
    new = apply(live, "m2", PODS, force=True, **_said(patch))
    assert _has(new, patch)
    shape = find_shape(POD)
    assert owned(new).get("m2", {}).get("f:spec") == fields_in(patch, shape).get("f:spec")


@given(pods(), pods())
def test_who_takes_back_all_leaves_what_was_there_before(live: Any, patch: Any) -> None:
    live = apply(None, "m1", PODS, **_said(live))
    try:
        both = apply(live, "m2", PODS, **_said(patch))
    except StatusError:
        return  # They want different things.
    back = apply(both, "m2", PODS)
    assert owned(back) == owned(live)
    assert _sorted({**back, "metadata": {**back["metadata"], "managedFields": 0}}) == _sorted(
        {**live, "metadata": {**live["metadata"], "managedFields": 0}}
    )


def _has(whole: Any, part: Any) -> bool:
    """Whether all that a patch says is in an object. What is empty says nothing."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(_has(whole.get(name), value) or value == {} for name, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return all(any(_has(each, element) for each in whole) for element in part)
    return bool(whole == part)


def _sorted(value: Any) -> Any:
    """Without what is empty, which defaults may bring back, and in an order that does not depend on who came first."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value) if value[name] != {}}
    return sorted((_sorted(each) for each in value), key=repr) if isinstance(value, list) else value
