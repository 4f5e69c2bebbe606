"""Flow control of a whole server, in virtual time: defaults, matching, queues, 429."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import tasks
from mainstay.server.auth.authorization import ANONYMOUS, User
from mainstay.server.flow.defaults import LEVELS, SCHEMAS
from mainstay.server.flow.scheduler import FlowLevel, FlowRequest, FlowScheduler
from mainstay.server.flow.schemas import CompiledSchema, FlowAttributes, SchemaTable
from mainstay.server.flow.seats import LevelSettings
from tests.server.request.test_heads import asked_without_body
from tests.server.world import CONFIGMAPS, Client, a_server

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
FLOW_SCHEMAS = f"{GROUP}/flowschemas"
PRIORITY_LEVELS = f"{GROUP}/prioritylevelconfigurations"
SECOND = timedelta(seconds=1)
USER = "Bearer usertoken"
JAIL = '{flow_schema="alice",priority_level="jail"}'
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def specs_at(client: Client, path: str) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"] for each in (await client.get(path))["items"]}


async def let_alice_do_everything(client: Client) -> None:
    binding = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "alice"}],
    }
    await client.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)


def a_schema(name: str, level: str, precedence: int, user: str = "alice") -> dict[str, Any]:
    everything = {
        "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True,
    }  # fmt: skip
    return {
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [everything]}],
        },
    }


def a_level(name: str, shares: int, **queuing: int) -> dict[str, Any]:
    response = {"type": "Queue", "queuing": queuing} if queuing else {"type": "Reject"}
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "borrowingLimitPercent": 0}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


# What is there.


async def test_the_defaults_of_kubernetes_are_there(sim):
    async with a_server(sim) as client:
        assert await specs_at(client, FLOW_SCHEMAS) == SCHEMAS
        assert await specs_at(client, PRIORITY_LEVELS) == LEVELS
        schema = await client.get(f"{FLOW_SCHEMAS}/service-accounts")
        assert schema["metadata"]["annotations"] == {"apf.kubernetes.io/autoupdate-spec": "true"}
        [condition] = schema["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Dangling", "False", "Found")
        # As clients send them back, they are valid.
        for path in (FLOW_SCHEMAS, PRIORITY_LEVELS):
            for each in (await client.get(path))["items"]:
                answer = await client.ask("PUT", f"{path}/{each['metadata']['name']}?dryRun=All", each)
                assert answer.status == 200, answer


async def test_the_tables_are_those_of_kubectl(sim):
    async with a_server(sim) as client:
        shown = await client.get(PRIORITY_LEVELS, Accept=TABLE)
        names = [column["name"] for column in shown["columnDefinitions"]]
        assert names == ["Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"]
        # Of Kubernetes 1.36, all of them.
        assert {row["cells"][0]: row["cells"][1:-1] for row in shown["rows"]} == {
            "catch-all": ["Limited", 5, "<none>", "<none>", "<none>"],
            "exempt": ["Exempt", "<none>", "<none>", "<none>", "<none>"],
            "global-default": ["Limited", 20, 128, 6, 50],
            "leader-election": ["Limited", 10, 16, 4, 50],
            "node-high": ["Limited", 40, 64, 6, 50],
            "system": ["Limited", 30, 64, 6, 50],
            "workload-high": ["Limited", 40, 128, 6, 50],
            "workload-low": ["Limited", 100, 128, 6, 50],
        }
        lent = {name: (spec.get("limited") or spec["exempt"])["lendablePercent"] for name, spec in LEVELS.items()}
        assert lent == {
            "catch-all": 0,
            "exempt": 0,
            "global-default": 50,
            "leader-election": 0,
            "node-high": 25,
            "system": 33,
            "workload-high": 50,
            "workload-low": 90,
        }
        shown = await client.get(FLOW_SCHEMAS, Accept=TABLE)
        names = [column["name"] for column in shown["columnDefinitions"]]
        assert names == ["Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"]
        assert {row["cells"][0]: [*row["cells"][1:4], row["cells"][5]] for row in shown["rows"]} == {
            "catch-all": ["catch-all", 10000, "ByUser", "False"],
            "exempt": ["exempt", 1, "<none>", "False"],
            "global-default": ["global-default", 9900, "ByUser", "False"],
            "kube-controller-manager": ["workload-high", 800, "ByNamespace", "False"],
            "kube-scheduler": ["workload-high", 800, "ByNamespace", "False"],
            "kube-system-service-accounts": ["workload-high", 900, "ByNamespace", "False"],
            "probes": ["exempt", 2, "<none>", "False"],
            "service-accounts": ["workload-low", 9000, "ByUser", "False"],
            "system-leader-election": ["leader-election", 100, "ByUser", "False"],
            "system-node-high": ["node-high", 400, "ByUser", "False"],
            "system-nodes": ["system", 500, "ByUser", "False"],
        }


async def test_defaults_are_put_back_and_what_another_looks_after_stays(sim):
    async with a_server(sim) as client:
        await client.delete(f"{FLOW_SCHEMAS}/exempt")
        await client.delete(f"{PRIORITY_LEVELS}/workload-low")
        change = {"spec": {"limited": {"nominalConcurrencyShares": 7}}}
        await client.patch(f"{PRIORITY_LEVELS}/system", change)
        own = {"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}, **change}
        await client.patch(f"{PRIORITY_LEVELS}/node-high", own)
        await tasks.sleep(5 * SECOND)
        assert await specs_at(client, FLOW_SCHEMAS) == SCHEMAS
        levels = await specs_at(client, PRIORITY_LEVELS)
        assert levels.pop("node-high")["limited"]["nominalConcurrencyShares"] == 7
        assert levels == {name: spec for name, spec in LEVELS.items() if name != "node-high"}


@pytest.mark.parametrize("path", [f"{FLOW_SCHEMAS}/catch-all", f"{PRIORITY_LEVELS}/catch-all"])
async def test_mandatory_objects_cannot_be_changed(sim, path: str):
    async with a_server(sim) as client:
        change = {"spec": {"matchingPrecedence": 9} if "flowschemas" in path else {"limited": {"lendablePercent": 5}}}
        answer = await client.ask("PATCH", path, change, "application/merge-patch+json")
        assert answer.status == 422
        assert "spec of 'catch-all' must equal the fixed value" in answer.body["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matchingPrecedence": 1}, "only the schema named 'exempt' may have matchingPrecedence 1"),
        ({"matchingPrecedence": 10_001}, "must not be greater than 10000"),
        ({"distinguisherMethod": {"type": "ByMood"}}, 'supported values: "ByNamespace", "ByUser"'),
        ({"priorityLevelConfiguration": {"name": ""}}, "must reference a priority level"),
        ({"rules": [{"subjects": []}]}, "subjects must contain at least one value"),
    ],
)
async def test_schemas_are_validated(sim, change: dict[str, Any], message: str):
    async with a_server(sim) as client:
        schema = a_schema("mine", "system", 50)
        schema["spec"] |= change
        answer = await client.ask("POST", FLOW_SCHEMAS, schema)
        assert (answer.status, message in answer.body["message"]) == (422, True), answer.body


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (a_level("mine", -1), "must be a non-negative integer"),
        (a_level("mine", 1, queues=8, handSize=9), "should not be greater than queues (8)"),
        (a_level("mine", 1, queues=10_000, handSize=8), "required entropy bits"),
        (a_level("exempt2", 1) | {"spec": {"type": "Exempt"}}, "type must be 'Exempt' if and only if name is 'exempt'"),
    ],
)
async def test_levels_are_validated(sim, level: dict[str, Any], message: str):
    async with a_server(sim) as client:
        answer = await client.ask("POST", PRIORITY_LEVELS, level)
        assert (answer.status, message in answer.body["message"]) == (422, True), answer.body


async def test_a_schema_whose_level_is_missing_says_so_and_is_not_used(sim):
    async with a_server(sim) as client:
        await let_alice_do_everything(client)
        await client.create(FLOW_SCHEMAS, a_schema("mine", "nowhere", 50))
        await tasks.sleep(5 * SECOND)
        [condition] = (await client.get(f"{FLOW_SCHEMAS}/mine"))["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "NotFound")
        assert await schema_of(client, CONFIGMAPS, USER) == "global-default"
        await client.create(PRIORITY_LEVELS, a_level("nowhere", 5))
        await tasks.sleep(5 * SECOND)
        [condition] = (await client.get(f"{FLOW_SCHEMAS}/mine"))["status"]["conditions"]
        assert condition["status"] == "False"
        assert await schema_of(client, CONFIGMAPS, USER) == "mine"


# Which level.


async def schema_of(client: Client, path: str, user: str = "Bearer admintoken", **headers: str) -> str:
    """The schema that an answer names in its headers."""
    answer = await client.ask("GET", path, Authorization=user, **headers)
    schemas = (await client.get(FLOW_SCHEMAS))["items"]
    levels = (await client.get(PRIORITY_LEVELS))["items"]
    by_uid = {each["metadata"]["uid"]: each for each in (*schemas, *levels)}
    found = by_uid[answer.headers["X-Kubernetes-PF-FlowSchema-UID"]]
    level = by_uid[answer.headers["X-Kubernetes-PF-PriorityLevel-UID"]]
    assert found["spec"]["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
    return str(found["metadata"]["name"])


NODE_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@pytest.mark.parametrize(
    ("user", "group", "path", "schema"),
    [
        ("root", "system:masters", CONFIGMAPS, "exempt"),
        ("system:node:a", "system:nodes", NODE_LEASE, "system-node-high"),
        ("system:node:a", "system:nodes", "/api/v1/nodes", "system-node-high"),
        ("system:node:a", "system:nodes", "/api/v1/pods", "system-nodes"),
        ("system:kube-scheduler", "", f"{NODE_LEASE}/x", "system-leader-election"),
        ("system:kube-scheduler", "", "/api/v1/pods", "kube-scheduler"),
        ("system:kube-controller-manager", "", "/api/v1/pods", "kube-controller-manager"),
        ("system:controller:replicaset", "", "/api/v1/pods", "kube-controller-manager"),
        ("system:serviceaccount:kube-system:x", "", "/api/v1/pods", "kube-system-service-accounts"),
        ("system:serviceaccount:shop:x", "", "/api/v1/pods", "service-accounts"),
        ("bob", "", "/api/v1/pods", "global-default"),
        ("bob", "", "/version", "global-default"),
        ("bob", "", "/livez", "probes"),
    ],
)  # fmt: skip
async def test_requests_go_to_the_schema_of_kubernetes(sim, user: str, group: str, path: str, schema: str):
    async with a_server(sim) as client:
        binding = {
            "metadata": {"name": "all"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": user}],
        }
        await client.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        headers = {"Impersonate_User": user} | ({"Impersonate_Group": group} if group else {})
        assert await schema_of(client, path, **headers) == schema


async def test_an_anonymous_request_is_the_concern_of_the_global_default(sim):
    async with a_server(sim) as client:
        answer = await client.ask("GET", "/version", Authorization="")
        [schema] = [
            each for each in (await client.get(FLOW_SCHEMAS))["items"] if each["metadata"]["name"] == "global-default"
        ]
        assert answer.headers["X-Kubernetes-PF-FlowSchema-UID"] == schema["metadata"]["uid"]


@pytest.mark.parametrize(
    ("user", "asked", "is_remembered"),
    [
        (ANONYMOUS, FlowAttributes("get", "", "", "", "/healthz"), True),
        (ANONYMOUS, FlowAttributes("get", "", "", "", f"/healthz/{'a' * 256}"), False),
        (ANONYMOUS, FlowAttributes("list", "", "pods", "n" * 256), False),
        (User("u" * 1_025, ()), FlowAttributes("list", "", "pods", "default"), False),
    ],
)
def test_flows_are_remembered_of_short_questions_alone(user: User, asked: FlowAttributes, is_remembered: bool):
    rest = CompiledSchema({"metadata": {"name": "rest"}, "spec": {"priorityLevelConfiguration": {"name": "level"}}})
    level = FlowScheduler(1, 1).configure([LevelSettings("level", "", False, 1, 0, None, 0, 0, 0)])
    table = SchemaTable([], level, rest)

    found = table.find(("key",), user, asked)

    assert table.remembered.get(("key",)) is (found if is_remembered else None)


# Limits.


async def with_level(client: Client, level: dict[str, Any]) -> None:
    """Alice has a level of her own."""
    await let_alice_do_everything(client)
    await client.create(PRIORITY_LEVELS, level)
    await client.create(FLOW_SCHEMAS, a_schema("alice", level["metadata"]["name"], 50))
    await tasks.sleep(5 * SECOND)


async def many(client: Client, count: int, path: str = CONFIGMAPS) -> list[int]:
    async def one(number: int) -> int:
        body = {"metadata": {"name": f"c{number}"}}
        answer = await client.ask("POST", path, body, Authorization=USER)
        if answer.status == 429:
            assert answer.headers["Retry-After"] == "1"
            assert answer.body["reason"] == "TooManyRequests"
            assert answer.headers["X-Kubernetes-PF-PriorityLevel-UID"]
        return answer.status

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def test_a_level_without_seats_rejects_and_others_are_not_held_up(sim):
    async with a_server(sim) as client:
        await with_level(client, a_level("jail", 0))
        assert set(await many(client, 5)) == {429}
        assert await client.get(CONFIGMAPS)
        metrics = (await client.ask("GET", "/metrics")).body
        labels = 'flow_schema="alice",priority_level="jail",reason="concurrency-limit"'
        assert f"apiserver_flowcontrol_rejected_requests_total{{{labels}}} 5.0" in metrics


async def test_what_waits_too_long_is_answered_429(sim):
    async with a_server(sim) as client:
        await with_level(client, a_level("jail", 0, queues=4, handSize=1, queueLengthLimit=3))
        began = asyncio.get_running_loop().time()
        statuses = await many(client, 5)
        assert statuses == [429] * 5
        assert asyncio.get_running_loop().time() - began == pytest.approx(15, abs=1)
        metrics = (await client.ask("GET", "/metrics")).body
        for reason, count in (("queue-full", 2), ("time-out", 3)):
            assert f'priority_level="jail",reason="{reason}"}} {count}.0' in metrics
        assert (
            'apiserver_flowcontrol_current_inqueue_requests{flow_schema="alice",priority_level="jail"} 0.0' in metrics
        )


async def test_more_requests_than_seats_are_all_served_one_after_the_other(sim):
    async with a_server(sim) as client:
        await with_level(client, a_level("narrow", 1, queues=16, handSize=4, queueLengthLimit=50))
        assert set(await many(client, 60)) == {201}
        metrics = (await client.ask("GET", "/metrics")).body
        assert (
            'apiserver_flowcontrol_current_executing_seats{flow_schema="alice",priority_level="narrow"} 0.0' in metrics
        )


async def test_a_waiting_client_that_goes_away_leaves_its_place(sim):
    async with a_server(sim) as client:
        await with_level(client, a_level("jail", 0, queues=1, handSize=1, queueLengthLimit=50))
        asking = [asyncio.ensure_future(many(client, 1)) for _ in range(10)]
        await tasks.sleep(SECOND)
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await tasks.sleep(SECOND)
        metrics = (await client.ask("GET", "/metrics")).body
        assert (
            'apiserver_flowcontrol_current_inqueue_requests{flow_schema="alice",priority_level="jail"} 0.0' in metrics
        )


async def test_a_body_that_comes_slowly_holds_no_seat(sim):
    async with a_server(sim) as client:
        await with_level(client, a_level("narrow", 1, queues=4, handSize=1, queueLengthLimit=50))
        with sim.network.host("client").active():
            slow = [
                asyncio.ensure_future(asked_without_body(CONFIGMAPS, 100_000, f"Authorization: {USER}"))
                for _ in range(20)
            ]
            await tasks.sleep(SECOND)
            assert set(await many(client, 3)) == {201}
            for each in slow:
                each.cancel()


async def test_a_body_of_yaml_takes_seats_by_its_size(sim, monkeypatch):
    async with a_server(sim) as client:
        await with_level(client, a_level("yaml", 1, queues=4, handSize=1, queueLengthLimit=50))
        seen: list[int] = []
        arrive = FlowScheduler.arrive

        def spied(self: FlowScheduler, level: FlowLevel, flow: int, width: int) -> FlowRequest:
            seen.append(width)
            return arrive(self, level, flow, width)

        monkeypatch.setattr(FlowScheduler, "arrive", spied)
        for size in (10, 2_500, 12_000):
            body = f"metadata: {{name: y{size}}}\ndata: {{a: {'x' * size}}}\n".encode()
            answer = await client.ask("POST", CONFIGMAPS, body, "application/yaml", Authorization=USER)
            assert answer.status == 201
        assert seen == [1, 3, 10]


async def test_a_list_takes_seats_by_the_number_of_objects_and_gives_them_back(sim, monkeypatch):
    async with a_server(sim) as client:
        await with_level(client, a_level("lists", 1, queues=4, handSize=1, queueLengthLimit=50))
        for number in range(250):
            await client.create(CONFIGMAPS, {"metadata": {"name": f"l{number}"}, "data": {"a": "x" * 2_000}})
        seen: list[int] = []
        arrive = FlowScheduler.arrive

        def spied(self: FlowScheduler, level: FlowLevel, flow: int, width: int) -> FlowRequest:
            seen.append(width)
            return arrive(self, level, flow, width)

        monkeypatch.setattr(FlowScheduler, "arrive", spied)
        for path in (CONFIGMAPS, f"{CONFIGMAPS}?limit=120", f"{CONFIGMAPS}/l1", "/api/v1/namespaces/x/configmaps"):
            answer = await client.ask("GET", path, Authorization=USER)
            assert answer.status == 200
        assert seen == [3, 2, 1, 1]
        metrics = (await client.ask("GET", "/metrics")).body
        assert (
            'apiserver_flowcontrol_current_executing_seats{flow_schema="alice",priority_level="lists"} 0.0' in metrics
        )
