"""Strategic merge patch: what each directive does, and what holds for all patches."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.errors import StatusError
from mainstay.api.kind import Object
from mainstay.api.merge_keys import MERGE_RULES, MergeRule, merge_rule
from mainstay.api.schema import find_fields
from mainstay.api.strategic_merge import strategic_merge

POD = "k8s.io.api.core.v1.Pod"
DEPLOYMENT = "k8s.io.api.apps.v1.Deployment"
SERVICE = "k8s.io.api.core.v1.Service"
NODE = "k8s.io.api.core.v1.Node"
BUDGET = "k8s.io.api.policy.v1.PodDisruptionBudget"
CONFIG_MAP = "k8s.io.api.core.v1.ConfigMap"


def a_pod(**spec: Any) -> Object:
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def patched_spec(original: Object, patch: Object) -> Any:
    return strategic_merge(a_pod(**original), {"spec": patch}, POD)["spec"]


def named(*names: str) -> list[Object]:
    return [{"name": name} for name in names]


def refusal_of(original: Object, patch: Object) -> StatusError:
    with pytest.raises(StatusError) as refusal:
        patched_spec(original, patch)
    return refusal.value


def test_fields_merge_and_null_removes_them():
    original = {"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}, "data": {"k": "v"}}
    patch = {"metadata": {"labels": {"a": None, "c": "3"}, "annotations": None, "generateName": None}}

    assert strategic_merge(original, patch, CONFIG_MAP) == {
        "metadata": {"labels": {"b": "2", "c": "3"}},
        "data": {"k": "v"},
    }


def test_a_list_with_a_key_merges_element_by_element():
    original = {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]}
    patch = {"containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}]}

    assert patched_spec(original, patch) == {
        "containers": [
            {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
            {"name": "b"},
        ]
    }


def test_it_knows_the_lists_of_templates_in_other_kinds():
    original = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "y"}]}}}}

    added = strategic_merge(original, patch, DEPLOYMENT)
    patch["spec"]["template"]["spec"]["containers"] = [{"name": "side", "$patch": "delete"}]
    removed = strategic_merge(added, patch, DEPLOYMENT)

    assert added["spec"]["template"]["spec"]["containers"] == [
        {"name": "side", "image": "y"},
        {"name": "c", "image": "x"},
    ]
    assert removed == original


@pytest.mark.parametrize(
    ("message", "original", "patch", "merged"),
    [
        (
            SERVICE,
            {"spec": {"ports": [{"port": 80, "name": "http"}]}},
            {"spec": {"ports": [{"port": 80, "nodePort": 30000}]}},
            {"spec": {"ports": [{"port": 80, "name": "http", "nodePort": 30000}]}},
        ),
        (
            NODE,
            {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "DiskPressure"}]}},
        ),
        (  # Taints have no key: they are replaced.
            NODE,
            {"spec": {"taints": [{"key": "a"}], "podCIDRs": ["10.0.0.0/24"]}},
            {"spec": {"taints": [{"key": "b"}], "podCIDRs": ["fd00::/64"]}},
            {"spec": {"taints": [{"key": "b"}], "podCIDRs": ["fd00::/64", "10.0.0.0/24"]}},
        ),
        (  # So are tolerations.
            POD,
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": []}},
            {"spec": {"tolerations": []}},
        ),
        (  # A budget's selector is an object that is replaced.
            BUDGET,
            {"spec": {"selector": {"matchLabels": {"a": "1"}}}},
            {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
            {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
        ),
        (
            "k8s.io.api.admissionregistration.v1.ValidatingWebhookConfiguration",
            {"webhooks": [{"name": "a.io", "failurePolicy": "Fail"}]},
            {"webhooks": [{"name": "a.io", "failurePolicy": "Ignore"}, {"name": "b.io"}]},
            {"webhooks": [{"name": "a.io", "failurePolicy": "Ignore"}, {"name": "b.io"}]},
        ),
        (  # Of an unknown message, objects merge and lists are replaced.
            "example.Unknown",
            {"a": {"b": 1, "list": named("x")}},
            {"a": {"c": 2, "list": named("y")}},
            {"a": {"b": 1, "c": 2, "list": named("y")}},
        ),
    ],
)
def test_each_list_has_its_own_way(message, original, patch, merged):
    assert strategic_merge(original, patch, message) == merged


def test_an_element_is_deleted_by_its_key_alone():
    assert patched_spec({"containers": named("a", "b")}, {"containers": [{"name": "a", "$patch": "delete"}]}) == {
        "containers": named("b")
    }
    assert patched_spec({"containers": named("a")}, {"containers": [{"name": "z", "$patch": "delete"}]}) == {
        "containers": named("a")
    }
    assert patched_spec({}, {"containers": [{"name": "z", "$patch": "delete"}]}) == {"containers": []}


def test_elements_with_the_same_key_are_all_deleted():
    original = {
        "containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]}]
    }
    patch = {"containers": [{"name": "a", "ports": [{"containerPort": 53, "$patch": "delete"}]}]}

    assert patched_spec(original, patch) == {"containers": [{"name": "a", "ports": []}]}


def test_a_list_is_replaced_when_any_element_says_so():
    patch = {"containers": [{"$patch": "replace"}, {"name": "c", "image": None}, {"name": "d", "$patch": "delete"}]}

    assert patched_spec({"containers": named("a", "b")}, patch) == {"containers": named("c")}
    assert patched_spec({"containers": named("a", "b")}, {"containers": [{"$patch": "replace"}]}) == {"containers": []}


def test_an_object_is_replaced_emptied_or_merged():
    original = {"securityContext": {"runAsUser": 1, "fsGroup": 2}, "containers": []}

    for directive, wanted in [
        ("replace", {"runAsUser": 5}),
        ("delete", {}),
        ("merge", {"runAsUser": 5, "fsGroup": 2}),
    ]:
        patch = {"securityContext": {"$patch": directive, "runAsUser": 5}}
        assert patched_spec(original, patch) == {"securityContext": wanted, "containers": []}


def test_retain_keys_removes_the_other_fields():
    original = {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "emptyDir": {}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}

    assert patched_spec(original, patch) == {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}


def test_retain_keys_of_a_strategy_as_kubectl_sends_them():
    original = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": None}}}

    assert strategic_merge(original, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_finalizers_are_a_set():
    original = {"metadata": {"finalizers": ["a", "b"]}}

    def finalizers(**patch: Any) -> Any:
        return strategic_merge(original, {"metadata": patch}, POD)["metadata"]["finalizers"]

    assert finalizers(finalizers=["c"]) == ["c", "a", "b"]
    assert finalizers(finalizers=["b"]) == ["a", "b"]
    assert finalizers(finalizers=[]) == ["a", "b"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": ["a", "z"]}) == ["b"]
    assert finalizers(
        **{
            "$setElementOrder/finalizers": ["c", "b"],
            "finalizers": ["c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
        }
    ) == ["c", "b"]
    assert strategic_merge({}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, POD) == {"metadata": {}}


@pytest.mark.parametrize(
    ("original", "patch", "order", "wanted"),
    [
        ("ab", "", "ba", "ba"),
        ("ab", "c", "acb", "acb"),
        ("abc", "", "ca", "bca"),  # b stood before c, and goes with what comes first.
        ("abc", "x", "xa", "xabc"),
        ("abx", "", "a", "abx"),
        ("", "ba", "ba", "ba"),
        ("ab", "", "", "ab"),
        ("a", "", "zya", "a"),
    ],
)
def test_the_order_of_elements_can_be_given(original, patch, order, wanted):
    given_patch = {"$setElementOrder/containers": named(*order)}
    if patch:
        given_patch["containers"] = named(*patch)

    assert patched_spec({"containers": named(*original)}, given_patch) == {"containers": named(*wanted)}


def test_deletions_need_no_place_in_the_order():
    patch = {
        "$setElementOrder/containers": named("c", "b"),
        "containers": [{"name": "c", "image": "x"}, {"name": "a", "$patch": "delete"}],
    }

    assert patched_spec({"containers": named("a", "b")}, patch) == {
        "containers": [{"name": "c", "image": "x"}, {"name": "b"}]
    }


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"containers": [{"image": "x"}]}, "map: map[image:x] does not contain declared merge key: name"),
        ({"containers": [{"$patch": "delete"}]}, "map: map[$patch:delete] does not contain declared merge key: name"),
        ({"containers": [{"$patch": "sort"}]}, "unknown patch type: sort in map: map[$patch:sort]"),
        ({"securityContext": {"$patch": 1}}, "unknown patch type: 1 in map: map[$patch:1]"),
        ({"containers": ["x"]}, "list element types are not identical"),
        ({"securityContext": {"$retainKeys": "x"}}, "invalid patch format of retainKeys"),
        ({"securityContext": {"$retainKeys": [], "fsGroup": 1}}, "invalid patch format of retainKeys"),
        ({"$setElementOrder/containers": {}}, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList/x": "a"}, "invalid patch format of primitive list"),
        ({"$deleteFromPrimitiveList": []}, "invalid patch format of primitive list"),
        (
            {"$setElementOrder/containers": named("b"), "containers": named("c")},
            "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (
            {"$setElementOrder/containers": named("b", "c"), "containers": named("c", "b")},
            "The order in patch list:\n[map[name:c] map[name:b]]\n"
            " doesn't match $setElementOrder list:\n[map[name:b] map[name:c]]\n",
        ),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(patch, message):
    refusal = refusal_of({"containers": named("a"), "securityContext": {"runAsUser": 1}}, patch)

    assert (refusal.code, refusal.message) == (400, message)


def test_lists_of_lists_are_refused():
    assert refusal_of({"containers": []}, {"containers": [[]]}).code == 422


def test_a_patch_must_be_an_object():
    with pytest.raises(StatusError, match="invalid JSON document"):
        strategic_merge({}, [], POD)  # type: ignore[arg-type]


def test_what_is_nested_too_deeply_is_refused():
    deep: Object = {"a": 1}
    for _ in range(5_000):
        deep = {"a": deep}
    cases: list[tuple[Object, Object]] = [
        ({}, deep),
        (deep, deep),
        ({"a": {}}, {"a": {"$patch": "replace", "b": deep}}),
        ({"spec": {"containers": [{"name": "a"}]}}, {"spec": {"containers": [{"name": "a", "env": [deep]}]}}),
        ({"spec": {"containers": [{"name": "a"}]}}, {"spec": {"containers": [deep]}}),
    ]
    for original, patch in cases:
        with pytest.raises(StatusError) as refusal:
            strategic_merge(original, patch, POD)
        assert refusal.value.code == 400


# The table


def test_the_rules_are_those_of_the_struct_tags():
    core = "k8s.io.api.core.v1."
    assert merge_rule(core + "PodSpec", "volumes") == MergeRule("name", retains_keys=True)
    assert merge_rule(core + "PodSpec", "tolerations") is None
    assert merge_rule(core + "NodeSpec", "taints") is None
    assert merge_rule(core + "ServiceAccount", "secrets") == MergeRule("name")
    assert merge_rule(core + "ServiceAccount", "imagePullSecrets") is None
    assert {rule.strategy for rule in MERGE_RULES.values()} == {"merge", "merge,retainKeys", "retainKeys", "replace"}


def test_every_rule_is_of_a_field_that_there_is():
    for message, field in MERGE_RULES:
        if not message.startswith("k8s.io.kube_aggregator."):  # These are described nowhere.
            assert field in find_fields(message), f"{message} has no {field}"


def test_every_key_is_a_field_of_the_elements():
    for (message, field), rule in MERGE_RULES.items():
        declared = find_fields(message).get(field)
        if declared is None:
            continue
        if rule.key:
            assert declared.repeated
            assert rule.key in find_fields(declared.type), f"{declared.type} has no {rule.key}"
        elif rule.merges:
            assert (declared.repeated, declared.type) == (True, "string")


# What holds for all

NAMES = st.sampled_from("abcd")


def elements(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Object, ...]]:
    return st.lists(NAMES, unique=True, max_size=4).flatmap(
        lambda names: st.tuples(*(st.fixed_dictionaries({"name": st.just(name)}, optional=fields) for name in names))
    )


ENVIRONMENTS = elements(value=st.sampled_from(["1", "2"])).map(list)
CONTAINERS = elements(
    image=st.sampled_from(["x", "y"]),
    env=ENVIRONMENTS,
    args=st.lists(NAMES, max_size=2),
    resources=st.fixed_dictionaries({}, optional={"limits": st.dictionaries(NAMES, st.just("1"), max_size=2)}),
).map(list)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "finalizers": st.lists(NAMES, unique=True, max_size=3),
                "labels": st.dictionaries(NAMES, NAMES, max_size=2),
            },
        ),
        "spec": st.fixed_dictionaries({"containers": CONTAINERS}, optional={"hostNetwork": st.booleans()}),
    }
)


@given(PODS)
def test_a_patch_that_says_what_is_there_changes_nothing(pod):
    assert strategic_merge(pod, copy.deepcopy(pod), POD) == pod


@given(PODS, PODS)
def test_a_patch_is_as_good_twice_as_once_and_changes_nothing_else(original, patch):
    before = copy.deepcopy((original, patch))

    once = strategic_merge(original, patch, POD)

    assert strategic_merge(once, patch, POD) == once
    assert (original, patch) == before


@given(PODS, PODS)
def test_the_result_shares_nothing_with_the_patch(original, patch):
    before = copy.deepcopy(patch)

    result = strategic_merge(original, patch, POD)
    for container in result["spec"]["containers"]:
        for value in container.values():
            if isinstance(value, list | dict):
                value.clear()
        container.clear()
    result["metadata"].clear()

    assert patch == before


def test_what_a_patch_does_not_speak_of_is_shared_and_the_rest_is_not():
    containers = [{"name": "a", "env": []}, {"name": "b", "env": []}]
    original = {"metadata": {"labels": {}}, "spec": {"containers": containers}}

    result = strategic_merge(original, {"spec": {"containers": [{"name": "a", "image": "i"}]}}, POD)

    assert result["metadata"] is original["metadata"]
    (changed, other), (before, unchanged) = result["spec"]["containers"], containers
    assert other is unchanged
    assert changed is not before
    assert changed["env"] is before["env"]


def difference(old: Object, new: Object) -> Object:
    """The patch that makes one out of the other, as kubectl makes it: by keys, with deletions and an order."""
    patch: Object = dict.fromkeys(name for name in old if name not in new)
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            patch[name] = difference(before, value)
        elif name in ("containers", "env") and isinstance(before, list):
            by_name = {each["name"]: each for each in before}
            patch[name] = [{**difference(by_name.get(each["name"], {}), each), "name": each["name"]} for each in value]
            wanted = {each["name"] for each in value}
            patch[name] += [{"name": each, "$patch": "delete"} for each in by_name if each not in wanted]
            patch[f"$setElementOrder/{name}"] = named(*(each["name"] for each in value))
        elif name == "finalizers" and isinstance(before, list):
            patch[name] = [each for each in value if each not in before]
            patch[f"$deleteFromPrimitiveList/{name}"] = [each for each in before if each not in value]
            patch[f"$setElementOrder/{name}"] = value
        else:
            patch[name] = value
    return patch


@given(PODS, PODS)
def test_the_difference_of_two_objects_makes_one_out_of_the_other(old, new):
    assert strategic_merge(old, difference(old, new), POD) == new
