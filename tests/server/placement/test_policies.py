"""Placement policies at the server: names are known, versions stay as they are, and no two scopes tie."""

from typing import Any

import pytest

from tests.server.placement import policy_cases
from tests.server.placement.hold_cases import LOSSES
from tests.server.placement.policy_cases import POLICIES, Tied, a_policy
from tests.server.world import Client, a_server
from tests.twins.policies import SERVER_TWINS, Twin

SEEDS = range(10)


async def change(client: Client, name: str, **spec: Any) -> Any:
    return await client.ask("PATCH", f"{POLICIES}/{name}", {"spec": spec}, "application/merge-patch+json")


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        ({"scores": {"LeastAlocated": 1}}, "spec.scores[LeastAlocated]", "Unsupported value"),
        ({"scores": {"NodeAffinity": 101}}, "spec.scores[NodeAffinity]", "must be less than or equal to 100"),
        ({"scores": {"NodeAffinity": -1}}, "spec.scores[NodeAffinity]", "must be greater than or equal to 0"),
        ({"scores": {"LeastAllocated": 1, "MostAllocated": 1}}, "spec.scores[MostAllocated]", "contradict each other"),
        ({"resources": {"cpus": 1}}, "spec.resources[cpus]", "Unsupported value"),
        ({"resources": {"cpu": 0}}, "spec.resources[cpu]", "must be greater than or equal to 1"),
        ({"resources": {"example.com/a b": 1}}, "spec.resources[example.com/a b]", "Invalid value"),
        ({"filters": {"NodeResourcesFit": False}}, "spec.filters[NodeResourcesFit]", "this filter is always on"),
        ({"filters": {"PodTopologySpred": False}}, "spec.filters[PodTopologySpred]", "Unsupported value"),
        ({"filters": {"PodTopologySpread": "no"}}, "spec.filters[PodTopologySpread]", "must be of type boolean"),
        ({"maxZoneSkew": 0}, "spec.maxZoneSkew", "must be greater than or equal to 1"),
        ({"maxZoneSkew": 2**31}, "spec.maxZoneSkew", "must be less than or equal to 2147483647"),
        ({"scope": {"namespace": "a"}}, "spec.scope.namespace", "unknown field"),
        ({"scope": {"tenant": "a", "namespaces": ["b"]}}, "spec.scope.tenant", "a tenant is a namespace"),
        ({"weights": {"cpu": 1}}, "spec.weights", "unknown field"),
        ({"scope": {}, "limit": {"percent": 0}}, "spec.limit.percent", "must be greater than or equal to 1"),
        ({"scope": {}, "limit": {"percent": 101}}, "spec.limit.percent", "must be less than or equal to 100"),
        ({"scope": {}, "limit": {"percent": 50, "scope": {}}}, "spec.limit", "must have either percent or scope"),
        ({"scope": {}, "limit": {}}, "spec.limit", "must have either percent or scope"),
        ({"scope": {}, "limit": {"scope": {"namespace": "a"}}}, "spec.limit.scope.namespace", "unknown field"),
        ({"limit": {"percent": 50}}, "spec.limit", "the policy has no scope: add scope: {}"),
        ({"scope": {"namespaces": []}}, "spec.scope.namespaces", "must not be empty: list what the scope selects"),
        ({"scope": {"regions": []}}, "spec.scope.regions", "or remove the field to select all"),
        (
            {"scope": {}, "limit": {"scope": {"priorityClasses": []}}},
            "spec.limit.scope.priorityClasses",
            "not be empty",
        ),
        ({"shadow": {"percent": 50}}, "spec.shadow", "the policy has no scope"),
        ({"scope": {}, "shadow": {"percent": 0}}, "spec.shadow.percent", "must be greater than or equal to 1"),
        ({"scope": {}, "shadow": {"percent": 101}}, "spec.shadow.percent", "must be less than or equal to 100"),
        ({"scope": {}, "shadow": {}}, "spec.shadow.percent", "Required value"),
        ({"scope": {}, "shadow": {"percent": 5, "share": 5}}, "spec.shadow.share", "unknown field"),
        ({"scope": {}, "shadow": {"percent": 5}, "active": True}, "spec.shadow", "the policy is active"),
    ],
)
async def test_a_name_that_the_scheduler_does_not_know_is_refused(sim, spec, field, problem):
    async with a_server(sim) as client:
        answer = await client.ask("POST", POLICIES, a_policy(**spec))

    assert answer.status == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == field
    assert problem in cause["message"]


async def test_all_that_it_knows_is_accepted_without_a_warning(sim):
    spec: dict[str, Any] = {
        "scores": {"MostAllocated": 5, "NodeAffinity": 0, "LeastAllocated": 0},
        "resources": {"cpu": 1, "nvidia.com/gpu": 10},
        "filters": {"PodTopologySpread": False},
        "maxZoneSkew": 1,
        "active": True,
    }
    scope = {"namespaces": ["a"], "priorityClasses": ["high"], "zones": ["z"], "regions": ["eu"]}
    async with a_server(sim) as client:
        answer = await client.ask("POST", POLICIES, a_policy(scope=scope, **spec))

    assert answer.status == 201
    assert "Warning" not in answer.headers


async def test_a_version_may_change_until_it_is_active_and_never_after_that(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy(maxZoneSkew=2))
        assert (await change(client, "p", maxZoneSkew=1)).status == 200
        assert (await change(client, "p", active=True)).status == 200

        active = await change(client, "p", maxZoneSkew=3)
        assert (await change(client, "p", active=False)).status == 200
        inactive = [await change(client, "p", maxZoneSkew=3), await change(client, "p", policyVersion="v2")]
        again = await change(client, "p", active=True)

    detail = "version v1 has been active and is immutable: create a new PlacementPolicy"
    assert active.status == 422
    assert active.body["details"]["causes"][0]["message"] == f"Forbidden: {detail}"
    assert [each.status for each in inactive] == [422, 422]
    assert (again.status, again.body["status"]) == (200, {"wasActive": True})


async def test_how_far_a_version_is_rolled_out_may_change_while_it_is_active(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy("v1", {}, active=True))
        await client.create(POLICIES, a_policy("v2", {}))
        changes: list[dict[str, Any]] = [
            {"active": True, "limit": {"percent": 10}},
            {"limit": {"percent": 100}},
            {"limit": {"percent": None, "scope": {"tenant": "a"}}},
            {"active": False, "limit": None, "shadow": {"percent": 5}},
            {"active": True, "limit": {"percent": 10}, "shadow": None},
        ]

        assert [(await change(client, "v2", **each)).status for each in changes] == [200] * len(changes)


async def test_a_limit_that_goes_may_not_leave_a_tie(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy("v1", {}, active=True))
        await client.create(POLICIES, a_policy("v2", {}, active=True, limit={"percent": 100}))

        unlimited = await change(client, "v2", limit=None)
        await change(client, "v1", active=False)
        alone = await change(client, "v2", limit=None)
        back = await change(client, "v1", active=True)
        back_limited = await change(client, "v1", active=True, limit={"percent": 100})

    assert [each.status for each in (unlimited, alone, back, back_limited)] == [422, 200, 422, 200]
    assert 'ties with the active PlacementPolicy "v1"' in unlimited.body["message"]


async def test_two_limited_policies_may_not_tie(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy("v1", {}, active=True, limit={"percent": 10}))

        answer = await client.ask("POST", POLICIES, a_policy("v2", {}, active=True, limit={"percent": 20}))

    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "spec.limit")


async def test_that_it_was_active_cannot_be_removed_from_its_status(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy(active=True))
        await change(client, "p", active=False)
        body = {"status": {"wasActive": None}}

        answer = await client.ask("PATCH", f"{POLICIES}/p/status", body, "application/merge-patch+json")

    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "status.wasActive")


async def test_two_active_policies_may_not_tie_and_the_answer_names_the_other(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy("first", {"namespaces": ["a", "b"]}, active=True))

        made = await client.ask("POST", POLICIES, a_policy("second", {"namespaces": ["b", "c"]}, active=True))
        await client.create(POLICIES, a_policy("third", {"namespaces": ["a", "c"]}))
        activated = await change(client, "third", active=True)

    for answer in (made, activated):
        (cause,) = answer.body["details"]["causes"]
        assert (answer.status, cause["field"]) == (422, "spec.scope")
        assert 'ties with the active PlacementPolicy "first"' in cause["message"]


async def test_policies_that_differ_in_specificity_or_share_no_pod_are_active_together(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy("all", {}, active=True))
        await client.create(POLICIES, a_policy("a", {"namespaces": ["a"]}, active=True))
        await client.create(POLICIES, a_policy("b", {"namespaces": ["b"]}, active=True))
        await client.create(POLICIES, a_policy("base", active=True))
        await client.create(POLICIES, a_policy("other-base", active=True))


async def test_a_policy_that_is_deactivated_or_removed_makes_room_for_another(sim):
    async with a_server(sim) as client:
        await client.create(POLICIES, a_policy("first", {"tenant": "a"}, active=True))
        await change(client, "first", active=False)
        await client.create(POLICIES, a_policy("second", {"tenant": "a"}, active=True))
        assert (await change(client, "first", active=True)).status == 422
        await client.delete(f"{POLICIES}/second")

        assert (await change(client, "first", active=True)).status == 200


# At once.


@pytest.mark.parametrize("seed", SEEDS)
def test_of_policies_that_tie_and_are_activated_at_once_one_becomes_active(seed):
    # Of those of a single namespace, one for each; the canary may keep its limit. One is wider, and below them.
    assert policy_cases.run(seed) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_nor_do_two_when_answers_are_lost(seed):
    assert policy_cases.run(seed, LOSSES) <= 3


@pytest.mark.parametrize("twin", SERVER_TWINS, ids=lambda twin: twin.__name__)
def test_a_server_with_a_bug_is_found_out(twin: Twin, monkeypatch: pytest.MonkeyPatch):
    twin(monkeypatch)

    with pytest.raises(Tied):
        for seed in SEEDS:
            policy_cases.run(seed)
