from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import managed_fields
from mainstay.api.field_sets import difference, union
from mainstay.api.managed_fields import is_same_object, updated
from tests.api.owned_objects import POD, pods

CONFIG_MAP = "k8s.io.api.core.v1.ConfigMap"


def a_map(data: dict[str, str] | None = None, entries: Any = None, **metadata: Any) -> dict[str, Any]:
    meta = {"name": "m", "uid": "1", **metadata}
    if entries is not None:
        meta["managedFields"] = entries
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, **({} if data is None else {"data": data})}


def an_entry(manager: str, fields: Any, *, second: int = 0, operation: str = "Update", **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": at(second),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def written(old: Any, new: Any, manager: str, second: int, *, message: str = CONFIG_MAP, **more: Any) -> Any:
    return updated(old, new, manager=manager, api_version="v1", now=at(second), message=message, **more)


def test_the_creator_owns_the_fields_of_an_object_but_not_its_names() -> None:
    new = a_map({"k": "v"}, namespace="d", labels={"a": "1"}, creationTimestamp=at(0), generation=1, generateName="m-")
    assert written(None, new, "kubectl", 1) == [
        an_entry(
            "kubectl",
            {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:generateName": {}}},
            second=1,
        )
    ]


def test_an_empty_object_has_no_owner() -> None:
    assert written(None, a_map(), "kubectl", 1) == []


def test_a_writer_takes_over_the_field_it_changes_and_no_other() -> None:
    old = a_map({"k": "v"}, [an_entry("first", {"f:data": {".": {}, "f:k": {}}})])
    assert written(old, a_map({"k": "other"}), "second", 1) == [
        an_entry("first", {"f:data": {}}),
        an_entry("second", {"f:data": {"f:k": {}}}, second=1),
    ]


def test_who_owns_nothing_any_more_vanishes() -> None:
    old = a_map({"k": "v"}, [an_entry("first", {"f:data": {".": {}, "f:k": {}}})], labels={"a": "1"})
    old["metadata"]["managedFields"].append(an_entry("labeller", {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}))
    assert written(old, a_map({"k": "v"}), "second", 1) == [an_entry("first", {"f:data": {".": {}, "f:k": {}}})]


def test_a_write_that_changes_nothing_changes_no_entry() -> None:
    entries = [an_entry("first", {"f:data": {".": {}, "f:k": {}}})]
    assert written(a_map({"k": "v"}, entries), a_map({"k": "v"}), "second", 9) == entries


@pytest.mark.parametrize("writer", ["updater", "other"])
def test_who_applied_a_value_no_longer_owns_the_field_after_an_update_changes_it(writer: str) -> None:
    shared: dict[str, Any] = {"f:data": {".": {}, "f:k": {}}}
    entries = [
        an_entry("applier", {"f:data": {"f:a": {}, "f:k": {}}}, operation="Apply", second=2),
        an_entry("updater", shared, second=1),
    ]
    old = a_map({"a": "1", "k": "v"}, entries)

    after = written(old, a_map({"a": "1", "k": "w"}), writer, 5)

    owners = {entry["manager"]: entry["fieldsV1"] for entry in after}
    assert owners["applier"] == {"f:data": {"f:a": {}}}
    assert [manager for manager, fields in owners.items() if "f:k" in fields["f:data"]] == [writer]


def test_the_time_is_that_of_the_last_change_by_its_manager() -> None:
    fields: dict[str, Any] = {"f:data": {".": {}, "f:k": {}}}
    old = a_map({"k": "v"}, [an_entry("first", fields)])
    assert written(old, a_map({"k": "w"}), "first", 5) == [an_entry("first", fields, second=5)]


def test_versions_and_subresources_are_told_apart_and_those_who_apply_come_first() -> None:
    old = a_map(
        {"a": "1", "b": "1"},
        [
            an_entry("z", {"f:data": {"f:b": {}}}, operation="Apply", second=7),
            an_entry("first", {"f:data": {".": {}, "f:a": {}}}),
        ],
    )
    new = a_map({"a": "1", "b": "1", "c": "1"})
    assert written(old, new, "first", 3, subresource="status") == [
        an_entry("z", {"f:data": {"f:b": {}}}, operation="Apply", second=7),
        an_entry("first", {"f:data": {".": {}, "f:a": {}}}),
        an_entry("first", {"f:data": {"f:c": {}}}, second=3, subresource="status"),
    ]


def test_a_status_belongs_only_to_those_who_can_write_it() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    made = written(None, pod, "user", 0, message=POD, without_status=True)
    assert made == [an_entry("user", {"f:spec": {"f:nodeName": {}}})]
    old = {**pod, "metadata": {"name": "p", "managedFields": made}}
    new = {**old, "status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}}
    assert written(old, new, "kubelet", 2, message=POD, subresource="status")[1] == an_entry(
        "kubelet",
        {
            "f:status": {
                "f:phase": {},
                "f:conditions": {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}},
            }
        },
        second=2,
        subresource="status",
    )


def test_sending_no_entries_or_an_empty_one_makes_the_object_forget() -> None:
    old = a_map({"k": "v"}, [an_entry("first", {"f:data": {}})])
    assert written(old, a_map({"k": "v"}, []), "second", 1) == []
    assert written(old, a_map({"k": "w"}, [{}]), "second", 1) == []
    assert written(a_map({"k": "v"}), a_map({"k": "w"}), "second", 1) == [], "and it does not begin again by itself"


def test_entries_that_are_sent_count_if_they_make_sense() -> None:
    entries = [an_entry("first", {"f:data": {".": {}, "f:k": {}}})]
    old = a_map({"k": "v"}, entries)
    sent = [an_entry("kubectl", {"f:data": {".": {}, "f:k": {}}}, operation="Apply")]
    assert written(old, a_map({"k": "v"}, sent), "x", 1) == sent
    for wrong in ([{"manager": "x"}], [{**sent[0], "fieldsV1": {"k": 1}}], [{**sent[0], "operation": "Take"}], ["x"]):
        assert written(old, a_map({"k": "v"}, wrong), "x", 1) == entries
    assert written(old, a_map({"k": "v"}, sent), "x", 1, subresource="status") == entries


def test_beyond_ten_managers_the_oldest_become_one() -> None:
    obj = a_map({"0": "v"})
    obj["metadata"]["managedFields"] = written(None, obj, "m0", 0)
    for number in range(1, 15):
        new = a_map({**obj["data"], str(number): "v"})
        new["metadata"]["managedFields"] = written(obj, new, f"m{number}", number)
        obj = new
    entries = obj["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == ["ancient-changes", *(f"m{number}" for number in range(6, 15))]
    assert entries[0]["fieldsV1"] == {"f:data": {".": {}, **{f"f:{number}": {} for number in range(6)}}}


def test_owners_count_as_a_change_only_where_they_are_meant() -> None:
    first, second = [an_entry("first", {"f:data": {}})], [an_entry("second", {"f:data": {}})]
    later = [an_entry("first", {"f:data": {}}, second=9)]
    old = a_map({"k": "v"}, first)
    assert is_same_object(a_map({"k": "v"}, later), old, with_owners=True)
    assert is_same_object(a_map({"k": "v"}, second), old, with_owners=False)
    assert not is_same_object(a_map({"k": "v"}, second), old, with_owners=True)
    assert not is_same_object(a_map({"k": "w"}, later), old, with_owners=False)


def test_the_version_and_the_names_of_the_kind_make_no_difference() -> None:
    old = a_map({"k": "v"}, resourceVersion="1")
    assert is_same_object({**a_map({"k": "v"}, resourceVersion="2"), "apiVersion": "v2"}, old, with_owners=True)
    assert not is_same_object(a_map({"k": "v"}, labels={"a": "1"}), old, with_owners=True)


@given(st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), pods()), min_size=1, max_size=6))
def test_the_short_way_leads_to_the_same_entries(writes: Any) -> None:
    old: Any = None
    for second, (manager, new) in enumerate(writes):
        entries = written(old, new, manager, second, message=POD)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(managed_fields, "_changed_again", lambda *_: None)
            assert written(old, new, manager, second, message=POD) == entries
        old = {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def test_who_writes_again_what_was_theirs_goes_the_short_way() -> None:
    other = an_entry("other", {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}, second=3)
    own = an_entry("own", {"f:data": {".": {}, "f:k": {}}}, second=1)
    owner = managed_fields.Owner("own", "Update", "v1", "")

    def again(changed: Any) -> Any:
        return managed_fields._changed_again([own, other], owner, changed, at(5))

    assert again({"f:data": {"f:k": {}}}) == [other, {**own, "time": at(5)}]
    assert again({}) == [own, other]
    assert again({"f:data": {"f:new": {}}}) is None
    assert again({"f:metadata": {"f:labels": {"f:a": {}}}}) is None


@given(st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), pods()), min_size=1, max_size=6))
def test_whatever_is_written_each_value_has_its_last_writer_and_only_what_is_there_is_owned(writes: Any) -> None:
    old: Any = None
    for second, (manager, new) in enumerate(writes):
        entries = written(old, new, manager, second, message=POD)
        if old is not None and not old["metadata"].get("managedFields"):
            assert entries == []
        else:
            fields: Any = {}
            for entry in entries:
                fields = union(fields, entry["fieldsV1"])
            there = written(None, new, manager, second, message=POD)
            everything = there[0]["fieldsV1"] if there else {}
            assert difference(fields, everything) == {}
            assert difference(everything, fields) == {}
        old = {**new, "metadata": {**new["metadata"], "managedFields": entries}}
