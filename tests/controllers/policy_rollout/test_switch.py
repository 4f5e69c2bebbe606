"""The order of writes: at no moment a pod without one of the two policies, and at no moment a tie."""

from typing import Any

import pytest

from mainstay.api.policy_scope import is_active, parse_scope, specificity
from mainstay.controllers.policy_rollout.switch import (
    SwitchStep,
    is_inactive,
    is_serving,
    plan_finish,
    plan_rollback,
    read_fields,
)

Policy = dict[str, Any]
STATES: list[dict[str, Any]] = [
    {"active": False},
    {"active": False, "shadow": {"percent": 5}},
    {"active": True, "limit": {"percent": 10}},
    {"active": True, "limit": {"percent": 100}},
    {"active": True},
]


def a_policy(name: str, **fields: Any) -> Policy:
    return {"metadata": {"name": name}, "spec": {"policyVersion": "1", "scope": {"namespaces": ["risk"]}, **fields}}


def carried_out(write: SwitchStep, policies: list[Policy]) -> list[Policy]:
    name = write.policy["metadata"]["name"]
    return [a_policy(name, **write.fields) if each["metadata"]["name"] == name else each for each in policies]


def has_whole_scope(policy: Policy) -> bool:
    return read_fields(policy) in ({"active": True}, {"active": True, "limit": {"percent": 100}})


def require_sound(policies: list[Policy]) -> None:
    assert any(has_whole_scope(each) for each in policies), [read_fields(each) for each in policies]
    scopes = [parse_scope(each) for each in policies if is_active(each)]
    ranks = [specificity(scope) for scope in scopes if scope is not None]
    assert len(ranks) == len(set(ranks)), [read_fields(each) for each in policies]


def test_finishing_takes_two_writes_after_the_last_stage_and_no_pod_is_without_a_policy():
    policies = [a_policy("v6", active=True, limit={"percent": 100}), a_policy("v5", active=True)]
    writes = 0
    while (write := plan_finish(policies[0], policies[1])) is not None:
        require_sound(policies)
        policies, writes = carried_out(write, policies), writes + 1

    require_sound(policies)
    assert (writes, is_serving(policies[0]), is_inactive(policies[1])) == (2, True, True)


@pytest.mark.parametrize("candidate", STATES)
@pytest.mark.parametrize("baseline", [{"active": True}, {"active": False}])
def test_rolling_back_restores_the_baseline_before_the_candidate_goes(candidate, baseline):
    policies = [a_policy("v6", **candidate), a_policy("v5", **baseline)]
    began_sound = any(has_whole_scope(each) for each in policies)
    for _ in range(4):
        write = plan_rollback(policies[0], policies[1])
        if write is None:
            break
        policies = carried_out(write, policies)
        if began_sound:
            require_sound(policies)

    assert plan_rollback(policies[0], policies[1]) is None
    assert (read_fields(policies[0]), read_fields(policies[1])) == ({"active": False}, {"active": True})


def test_without_a_previous_policy_rolling_back_only_deactivates_the_candidate():
    candidate = a_policy("v6", active=True, limit={"percent": 10})

    write = plan_rollback(candidate, None)

    assert write is not None
    assert (write.policy, write.fields) == (candidate, {"active": False})
    assert plan_rollback(a_policy("v6", active=False), None) is None


def test_a_candidate_that_was_deleted_does_not_stop_a_rollback():
    write = plan_rollback(None, a_policy("v5", active=False))

    assert write is not None
    assert write.fields == {"active": True}
    assert plan_rollback(None, a_policy("v5", active=True)) is None
