"""What the checker of policy rollouts says at once of a candidate: made-up histories of a few commits."""

from typing import Any

import msgspec
import pytest

from mainstay.api.policy_rollout import DEFAULT_STAGES
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.policy_rollouts import POLICIES, ROLLOUTS, RolloutChecker
from tests.sim.test_checkers_worlds import Past

Object = dict[str, Any]
CONTROLLER = "controllers-1"
CANARY = {"active": True, "limit": {"percent": 10}}


def a_past(stage: str) -> Past:
    past = Past(RolloutChecker(CONTROLLER))
    status = {"phase": "Progressing", "stage": stage, "policy": {"name": "v6", "uid": "uid-v6"}}
    spec = {"policy": "v6", "stages": list(DEFAULT_STAGES), "paused": False}
    past.write(f"{ROLLOUTS}v6", msgspec.json.encode({"metadata": {"name": "v6"}, "spec": spec, "status": status}))
    return past


def write_policy(past: Past, fields: Object, *, who: str = CONTROLLER) -> None:
    by = past.ask("PATCH", "/apis/mainstay.dev/v1/placementpolicies/v6", who=who)
    policy = {"metadata": {"name": "v6", "uid": "uid-v6"}, "spec": {"scope": {}, **fields}}
    past.write(f"{POLICIES}v6", msgspec.json.encode(policy), by=by)


@pytest.mark.parametrize("fields", [{"active": True}, {"active": True, "limit": {"percent": 50}}, {"active": False}])
def test_a_candidate_that_is_written_otherwise_than_its_stage_says_is_found(fields):
    past = a_past("canary")
    write_policy(past, CANARY)
    with pytest.raises(Violated, match="stage canary is"):
        write_policy(past, fields)


def test_a_user_may_write_a_candidate_as_it_likes():
    past = a_past("canary")
    write_policy(past, CANARY)
    write_policy(past, {"active": False}, who="user")
