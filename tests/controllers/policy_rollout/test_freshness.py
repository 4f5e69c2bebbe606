"""What a gate knows of the components: whatever is missing, old or behind is named."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainstay.api import times
from mainstay.api.component_roles import ComponentRole
from mainstay.api.policy_rollout import FRESHNESS_S_MIN
from mainstay.controllers.policy_rollout.freshness import FOLLOWED, SKEW_MAX, PolicyActivation, find_stale
from mainstay.loop.component_state import PublishSettings
from mainstay.server.policies import published_state

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
FRESHNESS = timedelta(seconds=120)
AT = 500
CANARY = PolicyActivation("v6", "uid-v6", AT, is_shadow=False)
SHADOW = PolicyActivation("v6", "uid-v6", AT, is_shadow=True)


def a_state(role: ComponentRole, name: str = "", *, age: timedelta = timedelta(0), **status: Any) -> dict[str, Any]:
    revisions = dict.fromkeys((*FOLLOWED[role], "pods"), AT)
    found = {"role": role, "revisions": revisions, "observedAt": times.format_time(NOON - age)}
    if role is ComponentRole.SCHEDULER:
        found["policies"] = {"v6": AT}
    return {"metadata": {"name": name or str(role)}, "status": {**found, **status}}


def all_of(*others: dict[str, Any]) -> list[dict[str, Any]]:
    """One component of each role, unless it is among the others."""
    roles = [each["status"]["role"] for each in others]
    return [*others, *(a_state(role) for role in ComponentRole if role not in roles)]


def stale(*states: dict[str, Any], activation: PolicyActivation = CANARY) -> list[tuple[str, str]]:
    return [(each.component, each.kind) for each in find_stale(states, activation, NOON, FRESHNESS)]


def test_a_stage_that_every_component_has_seen_is_fresh():
    assert stale(*all_of()) == []


@pytest.mark.parametrize("role", list(ComponentRole))
def test_a_role_that_no_component_has_holds_the_gate(role):
    others = [each for each in all_of() if each["status"]["role"] != role]

    assert stale(*others) == [("", "")]


@pytest.mark.parametrize("role", list(ComponentRole))
def test_each_kind_that_a_component_follows_must_have_reached_the_stage(role):
    for kind in [*FOLLOWED[role], "leases.coordination.k8s.io"]:
        revisions = {**dict.fromkeys(FOLLOWED[role], AT), kind: AT - 1}

        assert stale(*all_of(a_state(role, revisions=revisions))) == [(str(role), kind)]


def test_a_process_with_some_controllers_need_not_follow_what_these_do_not_read():
    some = a_state(ComponentRole.CONTROLLERS, "workloads", revisions={"pods": AT})

    assert stale(*all_of(some)) == []


def test_a_component_that_has_just_started_and_follows_nothing_yet_holds_the_gate():
    assert stale(*all_of(a_state(ComponentRole.SCHEDULER, revisions={}))) == [("scheduler", "")]

    found = stale(*all_of(a_state(ComponentRole.SCHEDULER, revisions={"leases.coordination.k8s.io": AT})))
    assert found == [("scheduler", kind) for kind in sorted(FOLLOWED[ComponentRole.SCHEDULER])]


def test_one_of_several_schedulers_is_enough_to_hold_the_gate():
    late = a_state(ComponentRole.SCHEDULER, "scheduler-2", policies={"v6": AT - 1})

    assert stale(*all_of(a_state(ComponentRole.SCHEDULER), late)) == [("scheduler-2", "placementpolicies.mainstay.dev")]


@pytest.mark.parametrize(
    ("age", "is_fresh"),
    [
        (FRESHNESS, True),
        (FRESHNESS + timedelta(seconds=1), False),
        (-SKEW_MAX, True),
        (-SKEW_MAX - timedelta(seconds=1), False),
    ],
)
def test_a_state_that_is_old_or_from_the_future_holds_the_gate(age, is_fresh):
    found = stale(*all_of(a_state(ComponentRole.API_SERVER, "apiserver-1", age=age)))

    assert found == ([] if is_fresh else [("apiserver-1", "")])


def test_the_message_about_a_component_that_is_silent_says_how_to_remove_it():
    gone = a_state(ComponentRole.SCHEDULER, "old", observedAt=None)
    states = all_of(a_state(ComponentRole.SCHEDULER), gone)

    [found] = find_stale(states, CANARY, NOON, FRESHNESS)

    assert "old has not published its state" in found.message
    assert "kubectl delete componentstate old" in found.message


def test_a_program_of_a_user_need_not_know_the_policy():
    own = {"metadata": {"name": "websites"}, "status": {"role": "", "revisions": {"pods": 1}}}

    assert stale(*all_of(), own, {"metadata": {"name": "repair"}}) == []


@pytest.mark.parametrize(
    ("figures", "is_fresh"),
    [
        ([], False),
        ([{"policy": "v6", "uid": "uid-v6", "revision": AT}], True),
        ([{"policy": "v6", "uid": "uid-v6", "revision": AT - 1}], False),
        ([{"policy": "v6", "uid": "another", "revision": AT}], False),
    ],
)
def test_in_the_shadow_each_scheduler_counts_decisions_by_the_candidate(figures, is_fresh):
    scheduler = a_state(ComponentRole.SCHEDULER, policies={}, policyFigures=figures)

    found = stale(*all_of(scheduler), activation=SHADOW)

    assert found == ([] if is_fresh else [("scheduler", "placementpolicies.mainstay.dev")])


def test_a_quiet_component_publishes_often_enough_for_the_shortest_freshness():
    for each in (PublishSettings().at_least_every + PublishSettings().every, published_state.AT_LEAST_EVERY):
        assert each + SKEW_MAX < timedelta(seconds=FRESHNESS_S_MIN)
