"""Which rollouts and pods are read: those that a version, a phase or a scope concerns."""

from datetime import timedelta

import pytest

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import PLACEMENT_POLICIES, PODS, POLICY_ROLLOUTS
from mainstay.api.object_key import ObjectKey
from mainstay.api.policy_scope import PolicyScope, selects
from mainstay.api.scoped_pods import read_scoped_pod
from mainstay.client.cache import Cache
from mainstay.client.entry import Change, ChangeType
from mainstay.controllers.policy_rollout.cohorts import list_created
from mainstay.controllers.policy_rollout.versions import list_claims, wake_progressing, wake_users
from mainstay.loop.view import View
from tests.controllers.policy_rollout.cluster import CONTROLLER, NOON

INDEXES = {reads.kind: reads.indexes for reads in CONTROLLER.reads} | {POLICY_ROLLOUTS: CONTROLLER.indexes}


def a_rollout(name: str, policy: str, previous: str = "", phase: str = "", claims: tuple[str, ...] = ()) -> Object:
    status: Object = {"phase": phase} if phase else {}
    status |= {role: {"name": claimed} for role, claimed in zip(("policy", "previous"), claims, strict=False)}
    spec = {"policy": policy} | ({"previous": previous} if previous else {})
    return {"metadata": {"name": name}, "spec": spec, "status": status}


ROLLOUTS = [
    a_rollout("done", "v1", phase="Complete", claims=("v1", "v0")),
    a_rollout("new", "v3", previous="v2"),
    a_rollout("running", "v2", phase="Progressing", claims=("v2", "v1")),
    a_rollout("undone", "v2", phase="RolledBack", claims=("v2", "v1")),
]


def cached() -> Cache:
    return View.of({POLICY_ROLLOUTS: ROLLOUTS}, NOON, indexes=INDEXES).cache(POLICY_ROLLOUTS)


def changed(name: str) -> Change:
    return Change(PLACEMENT_POLICIES, ObjectKey("", name), ChangeType.MODIFIED, None, None, 9)


@pytest.mark.parametrize(
    ("policy", "woken"),
    [("v0", []), ("v1", ["running"]), ("v2", ["new", "running"]), ("v3", ["new"]), ("v4", [])],
)
def test_a_change_of_a_policy_wakes_the_rollouts_that_name_or_claim_it_and_have_not_ended(policy, woken):
    assert [key.name for key in wake_users(changed(policy), cached())] == woken


def test_what_a_component_publishes_wakes_the_rollouts_with_a_stage_in_effect():
    assert [key.name for key in wake_progressing(changed("any"), cached())] == ["running"]


def test_claims_are_found_by_version_and_what_is_only_named_is_no_claim():
    view = View.of({POLICY_ROLLOUTS: ROLLOUTS}, NOON, indexes=INDEXES)

    assert [each["metadata"]["name"] for each in list_claims(view, {"v0", "v3"})] == ["done"]
    assert [each["metadata"]["name"] for each in list_claims(view, {"v2"})] == ["running", "undone"]


@pytest.mark.parametrize(
    "scope",
    [
        PolicyScope(),
        PolicyScope(namespaces=("risk",)),
        PolicyScope(namespaces=("risk", "web")),
        PolicyScope(priority_classes=("batch",)),
        PolicyScope(namespaces=("web",), priority_classes=("batch", "online")),
        PolicyScope(priority_classes=("", "batch")),
    ],
    ids=str,
)
def test_all_new_pods_of_a_scope_are_listed_and_those_of_other_namespaces_and_classes_are_not_read(scope):
    pods: list[Object] = []
    for namespace in ("risk", "web", "shop"):
        for priority in ("", "batch", "online"):
            for minutes in (-20, 5, 14, 25):
                created = times.format_time(NOON + timedelta(minutes=minutes))
                metadata = {"name": f"pod-{len(pods)}", "namespace": namespace, "creationTimestamp": created}
                spec = {"priorityClassName": priority} if priority else {}
                pods.append({"metadata": metadata, "spec": spec})
    view = View.of({PODS: pods}, NOON + timedelta(minutes=30), indexes=INDEXES)

    found = [pod["metadata"]["name"] for pod in list_created(view, scope, NOON)]

    selected = [pod["metadata"] for pod in pods if selects(scope, read_scoped_pod(pod))]
    is_new = {each["name"] for each in selected if each["creationTimestamp"] > times.format_time(NOON)}
    assert is_new <= set(found)
    assert "" in scope.priority_classes or is_new == set(found)
