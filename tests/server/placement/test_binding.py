"""Binding pods to nodes, and what else is charged to a node or given back, over the API."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainstay.server.auth.authorization import User
from mainstay.server.placement.ledger.history import NO_HISTORY
from mainstay.server.placement.ledger.ledger import Ledger, ledger_in, ledger_key
from mainstay.server.placement.pod_to_bind import PodToBind, put_on
from mainstay.server.storage.stored import stored
from mainstay.store import open_memory
from mainstay.store.interface import DeleteEntry, Entry, Store
from tests.server import world
from tests.server.placement.ledger_cases import NODES, a_node, a_sized_pod, history_of, require_ledgers
from tests.server.world import PODS, Answer, Client, a_server

BATCH = "/apis/mainstay.dev/v1/bindings"

AGENT = {"Authorization": "Bearer agent-of-n1"}


@pytest.fixture(autouse=True)
def agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of n1 has a token too."""
    user = User("system:node:n1", ("system:nodes", "system:authenticated"))
    monkeypatch.setitem(world.TOKENS, "agent-of-n1", user)


def a_binding(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


async def bind(client: Client, name: str, node: str = "n1", **headers: str) -> Answer:
    return await client.ask("POST", f"{PODS}/{name}/binding", a_binding(name, node), **headers)


def cause(answer: Answer) -> tuple[int, str]:
    details = answer.body.get("details") or {}
    return answer.status, details["causes"][0]["reason"] if details.get("causes") else ""


async def ledger_of(store: Store, node: str = "n1") -> Ledger:
    return ledger_in(await store.get(ledger_key(node)))


async def used_cpu(store: Store, node: str = "n1") -> int:
    return (await ledger_of(store, node)).used.get("cpu", 0)


async def test_a_pod_is_bound_if_its_node_has_room_and_is_told_what_is_missing_if_not(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node(cpu="2"))
        for name, cpu in (("a", "1500m"), ("b", "600m"), ("c", "500m")):
            await client.create(PODS, a_sized_pod(name, cpu))

        assert (await bind(client, "a")).status == 201
        refused = await bind(client, "b")
        assert (await bind(client, "c")).status == 201

        assert cause(refused) == (409, "CapacityChanged")
        assert (
            "node n1 cannot take the pod, insufficient resources: cpu: requested 600m, free 500m"
            in refused.body["message"]
        )
        bound = await client.get(f"{PODS}/a")
        assert bound["spec"]["nodeName"] == "n1"
        assert [each["type"] for each in bound["status"]["conditions"]] == ["PodScheduled"]
        assert "nodeName" not in (await client.get(f"{PODS}/b"))["spec"]
        assert await used_cpu(store) == 2000
        assert require_ledgers(await history_of(store)) == 2


async def test_the_other_address_for_bindings_is_guarded_in_the_same_way(sim):
    async with a_server(sim) as client:
        await client.create(NODES, a_node(cpu="1"))
        for name in ("a", "b"):
            await client.create(PODS, a_sized_pod(name))
        answers = [
            await client.ask("POST", "/api/v1/namespaces/default/bindings", a_binding(name)) for name in ("a", "b")
        ]
        assert [answer.status for answer in answers] == [201, 409]


async def test_of_many_bindings_at_once_as_many_succeed_as_there_is_room_for(sim):
    store = await open_memory()
    async with a_server(sim, "one", store) as one, a_server(sim, "two", store) as two:
        await one.create(NODES, a_node(cpu="8", pods="100"))
        for number in range(30):
            await one.create(PODS, a_sized_pod(f"p{number}"))

        answers = await asyncio.gather(*(bind((one, two)[n % 2], f"p{n}") for n in range(30)))

        assert sorted(cause(answer) for answer in answers) == [(201, "")] * 8 + [(409, "CapacityChanged")] * 22
        assert require_ledgers(await history_of(store)) == 8


async def test_a_pod_is_bound_once(sim):
    async with a_server(sim) as client:
        for name in ("n1", "n2"):
            await client.create(NODES, a_node(name))
        await client.create(PODS, a_sized_pod("a"))
        answers = await asyncio.gather(*(bind(client, "a", node) for node in ("n1", "n2")))
        assert sorted(cause(answer) for answer in answers) == [(201, ""), (409, "AlreadyBound")]


async def test_a_pod_that_is_being_deleted_or_was_recreated_is_not_bound(sim):
    async with a_server(sim) as client:
        await client.create(NODES, a_node())
        await client.create(PODS, {**a_sized_pod("a"), "metadata": {"name": "a", "finalizers": ["test/x"]}})
        await client.ask("DELETE", f"{PODS}/a")
        await client.create(PODS, a_sized_pod("b"))

        other = await client.ask("POST", f"{PODS}/b/binding", a_binding("b", uid="another"))

        assert cause(await bind(client, "a")) == (409, "PodDeleted")
        assert cause(other) == (409, "PodDeleted")
        assert (await bind(client, "none")).status == 404


async def test_a_node_that_is_not_there_is_refused_only_to_those_who_say_what_they_saw(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        for name in ("a", "b"):
            await client.create(PODS, a_sized_pod(name))
        assert cause(await bind(client, "a", Mainstay_Observed="5")) == (409, "NodeGone")
        assert (await bind(client, "b")).status == 201
        assert await used_cpu(store) == 1000

        await client.create(NODES, a_node(cpu="1500m"))  # It comes, and b is on it already.
        assert cause(await bind(client, "a")) == (409, "CapacityChanged")
        require_ledgers(await history_of(store))


async def test_a_strict_binding_is_refused_when_the_node_has_changed_since(sim):
    async with a_server(sim) as client:
        await client.create(NODES, a_node())
        made = [await client.create(PODS, a_sized_pod(name)) for name in ("a", "b")]
        seen = made[1]["metadata"]["resourceVersion"]

        assert (await bind(client, "a", Mainstay_Observed=f"{seen};strict")).status == 201
        assert cause(await bind(client, "b", Mainstay_Observed=f"{seen}; strict")) == (409, "Stale")
        assert (await bind(client, "b", Mainstay_Observed="soon")).status == 400
        assert (await bind(client, "b", Mainstay_Observed=seen)).status == 201


async def test_a_strict_binding_is_refused_when_the_node_itself_has_changed_since(sim):
    async with a_server(sim) as client:
        node = await client.create(NODES, a_node())
        await client.patch(f"{NODES}/n1", {"metadata": {"labels": {"disk": "slow"}}}, "merge")
        pod = await client.create(PODS, a_sized_pod("a"))
        changed = (await client.get(f"{NODES}/n1"))["metadata"]["resourceVersion"]
        pods = f"pods={pod['metadata']['resourceVersion']}"

        late = await bind(client, "a", Mainstay_Observed=f"{pods};nodes={node['metadata']['resourceVersion']};strict")
        half = await bind(client, "a", Mainstay_Observed=f"{pods};strict")
        seen = await bind(client, "a", Mainstay_Observed=f"{pods};nodes={changed};strict")

    assert [cause(each)[1] for each in (late, seen)] == ["Stale", ""]
    assert half.status == 400


async def test_a_heartbeat_is_no_change_of_a_node(sim):
    async with a_server(sim) as client:
        node = await client.create(NODES, a_node())
        pod = await client.create(PODS, a_sized_pod("a"))
        ready = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
        await client.patch(f"{NODES}/n1/status", {"status": {"conditions": ready}}, "strategic-merge")
        versions = [each["metadata"]["resourceVersion"] for each in (pod, node)]

        answer = await bind(client, "a", Mainstay_Observed="pods={};nodes={};strict".format(*versions))

    assert answer.status == 201


async def test_the_bindings_of_one_scheduler_do_not_make_its_view_stale(sim):
    async with a_server(sim) as client:
        node = await client.create(NODES, a_node())
        pods = [await client.create(PODS, a_sized_pod(name)) for name in ("a", "b", "c")]
        seen = {"observed": int(pods[-1]["metadata"]["resourceVersion"])}
        seen["observedNodes"] = int(node["metadata"]["resourceVersion"])

        def items(*names: str) -> list[dict[str, Any]]:
            return [{"metadata": {"name": name}, "target": {"name": "n1"}, "strict": True, **seen} for name in names]

        own = await client.ask("POST", BATCH, {"scheduler": "one", "items": items("a", "b")})
        other = await client.ask("POST", BATCH, {"scheduler": "two", "items": items("c")})
        again = await client.ask("POST", BATCH, {"scheduler": "one", "items": items("c")})

    assert [each["status"] for each in own.body["items"]] == ["Bound", "Bound"]
    assert [each["reason"] for each in other.body["items"]] == ["Stale"]
    assert [each["status"] for each in again.body["items"]] == ["Bound"]


async def test_a_bound_pod_keeps_when_its_node_was_chosen(sim):
    chosen = "2026-01-01T00:00:00.250000Z"
    async with a_server(sim) as client:
        await client.create(NODES, a_node())
        for name in ("a", "b", "c"):
            await client.create(PODS, a_sized_pod(name))

        def item(name: str, **more: Any) -> dict[str, Any]:
            return {"metadata": {"name": name}, "target": {"name": "n1"}, "observed": 99, **more}

        items = [item("a", scheduledAt=chosen), item("b"), item("c", scheduledAt="soon")]
        answer = await client.ask("POST", BATCH, {"items": items})
        pods = [await client.get(f"{PODS}/{name}") for name in ("a", "b")]

    conditions = [each["status"]["conditions"][-1] for each in pods]
    assert [each.get("scheduledAt") for each in conditions] == [chosen, None]
    assert [each["type"] for each in conditions] == ["PodScheduled", "PodScheduled"]
    assert (answer.body["items"][2]["code"], answer.body["items"][2]["status"]) == (400, "Refused")


async def test_a_cordoned_node_takes_only_those_who_bear_it(sim):
    async with a_server(sim) as client:
        await client.create(NODES, a_node(unschedulable=True))
        await client.create(PODS, a_sized_pod("a"))
        await client.create(PODS, a_sized_pod("d", tolerations=[{"operator": "Exists"}]))
        assert cause(await bind(client, "a")) == (409, "NodeNotAccepting")
        assert (await bind(client, "d")).status == 201

        await client.patch(f"{NODES}/n1", {"spec": {"unschedulable": None}})
        assert (await bind(client, "a")).status == 201


async def test_a_port_of_the_machine_is_given_to_one_pod(sim):
    async with a_server(sim) as client:
        await client.label_namespace(enforce="privileged")
        await client.create(NODES, a_node())
        for name in ("a", "b"):
            await client.create(PODS, a_sized_pod(name, port=80))
        answers = [await bind(client, name) for name in ("a", "b")]
        assert [cause(answer) for answer in answers] == [(201, ""), (409, "PortTaken")]


async def test_annotations_of_a_binding_are_copied_but_for_ours(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_sized_pod("a"))
        given = {"example.com/zone": "a", "mainstay.dev/reservation": "r"}
        answer = await client.ask("POST", f"{PODS}/a/binding", a_binding("a", annotations=given))
        assert answer.status == 201
        assert (await client.get(f"{PODS}/a"))["metadata"]["annotations"] == {"example.com/zone": "a"}


async def test_a_dry_run_of_a_binding_is_refused_as_the_binding_would_be_and_changes_nothing(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node(cpu="1"))
        for name, cpu in (("a", "1"), ("b", "2")):
            await client.create(PODS, a_sized_pod(name, cpu))
        answers = [
            await client.ask("POST", f"{PODS}/{name}/binding?dryRun=All", a_binding(name)) for name in ("a", "b")
        ]
        assert [answer.status for answer in answers] == [201, 409]
        assert await used_cpu(store) == 0
        assert "nodeName" not in (await client.get(f"{PODS}/a"))["spec"]


async def test_a_pod_that_is_made_on_a_node_is_charged_whether_or_not_there_is_room(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node(cpu="1"))
        await client.create(PODS, a_sized_pod("a", "3", nodeName="n1"))
        await client.create(PODS, a_sized_pod("b", "1"))
        assert await used_cpu(store) == 3000
        assert cause(await bind(client, "b")) == (409, "CapacityChanged")
        require_ledgers(await history_of(store))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_gives_back_what_it_was_charged_with_once(sim, phase: str):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node())
        await client.create(PODS, a_sized_pod("a", nodeName="n1"))
        for status in ({"phase": "Running"}, {"phase": phase}, {"phase": phase, "reason": "again"}):
            await client.patch(f"{PODS}/a/status", {"status": status}, "strategic-merge")
            assert await used_cpu(store) == (1000 if status["phase"] == "Running" else 0)
        await client.delete(f"{PODS}/a")
        assert replace(await ledger_of(store), history=NO_HISTORY) == Ledger(
            node_uid=(await client.get(f"{NODES}/n1"))["metadata"]["uid"],
            allocatable={"cpu": 4000, "memory": 8 * 2**30, "pods": 10},
        )
        require_ledgers(await history_of(store))


async def test_a_pod_that_is_being_deleted_keeps_its_room_until_its_agent_says_that_it_is_gone(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node())
        await client.create(PODS, a_sized_pod("a", nodeName="n1"))
        await client.delete(f"{PODS}/a")
        assert await used_cpu(store) == 1000

        answer = await client.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=0", **AGENT)
        assert answer.status == 200
        assert await used_cpu(store) == 0
        require_ledgers(await history_of(store))


async def test_a_pod_that_is_removed_by_force_leaves_a_ghost_until_the_agent_reports_it_gone(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node(cpu="1"))
        made = await client.create(PODS, a_sized_pod("a", nodeName="n1"))
        await client.delete(f"{PODS}/a?gracePeriodSeconds=0")
        await client.create(PODS, a_sized_pod("a"))  # Of the same name, and no ghost.

        assert cause(await bind(client, "a")) == (409, "HeldByGhosts")
        [ghost] = (await client.get(f"{NODES}/n1/ghosts", **AGENT))["items"]
        assert ghost == {
            "uid": made["metadata"]["uid"],
            "namespace": "default",
            "name": "a",
            "resources": {"cpu": "1", "pods": "1"},
            "ports": [],
        }

        for _ in range(2):
            left = await client.ask("PUT", f"{NODES}/n1/ghosts", {"gone": [made["metadata"]["uid"], "x"]}, **AGENT)
            assert (left.status, left.body["items"]) == (200, [])
        assert (await bind(client, "a")).status == 201
        require_ledgers(await history_of(store))


async def test_ghosts_are_none_of_other_agents_and_strangers_business(sim):
    async with a_server(sim) as client:
        for name in ("n1", "n2"):
            await client.create(NODES, a_node(name))
        assert (await client.ask("PUT", f"{NODES}/n2/ghosts", {"gone": []}, **AGENT)).status == 403
        assert (await client.ask("PUT", f"{NODES}/n1/ghosts", {"gone": 1})).status == 400
        assert (await client.ask("GET", f"{NODES}/n3/ghosts")).status == 404


async def test_ghosts_go_with_their_node_and_there_are_none_where_there_is_no_node(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node())
        for name in ("a", "b"):
            await client.create(PODS, a_sized_pod(name, nodeName="n1"))
        await client.delete(f"{PODS}/a?gracePeriodSeconds=0")
        await client.delete(f"{NODES}/n1")
        assert await used_cpu(store) == 1000
        await client.delete(f"{PODS}/b?gracePeriodSeconds=0")
        assert await store.get(ledger_key("n1")) is None
        require_ledgers(await history_of(store))


async def test_a_node_that_shrinks_may_be_over_its_limit_but_takes_no_more(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node(cpu="4"))
        await client.create(PODS, a_sized_pod("a", "3", nodeName="n1"))
        await client.create(PODS, a_sized_pod("b", "100m"))
        await client.patch(f"{NODES}/n1/status", {"status": {"allocatable": {"cpu": "2"}}})
        assert cause(await bind(client, "b")) == (409, "CapacityChanged")
        require_ledgers(await history_of(store))


async def test_a_pod_that_is_resized_is_charged_with_the_larger_until_it_is_through(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node())
        await client.create(PODS, a_sized_pod("a", nodeName="n1"))

        async def resize(cpu: str) -> None:
            container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
            await client.patch(f"{PODS}/a/resize", {"spec": {"containers": [container]}}, "strategic-merge")

        async def has(cpu: str) -> None:
            state = {"name": "c", "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}
            status = {"phase": "Running", "containerStatuses": [{**state, "image": "x", "ready": True}]}
            await client.patch(f"{PODS}/a/status", {"status": status}, "strategic-merge")

        charged = []
        for step in (has("1"), resize("3"), has("3"), resize("2"), has("2")):
            await step
            charged.append(await used_cpu(store))
        assert charged == [1000, 3000, 3000, 3000, 2000]
        require_ledgers(await history_of(store))


async def test_a_node_from_before_there_were_ledgers_is_counted_when_it_is_first_needed(sim):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node(cpu="2"))
        await client.create(PODS, a_sized_pod("old", nodeName="n1"))
        page = await store.range("~")
        await store.commit([], [DeleteEntry(entry.key) for entry in page.entries if "/" in entry.key])
        for name in ("a", "b"):
            await client.create(PODS, a_sized_pod(name))

        assert [(await bind(client, name)).status for name in ("a", "b")] == [201, 409]


async def test_a_binding_waits_for_what_its_refusal_rests_on(sim):
    """Who is refused because of a binding that is not durable yet must not be told before it is."""
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(NODES, a_node(cpu="1"))
        for name in ("a", "b"):
            await client.create(PODS, a_sized_pod(name))
        refused = []

        async def see(name: str) -> None:
            answer = await bind(client, name)
            if answer.status == 409:
                refused.append(await used_cpu(store))

        await asyncio.gather(see("a"), see("b"))
        assert refused == [1000]


# The short way and the long way to bind a pod.

texts = st.text(st.characters(codec="utf-8"), max_size=8)
conditions = st.lists(st.sampled_from(["PodScheduled", "Ready", "other"]), unique=True).map(
    lambda types: [{"type": each, "status": "False"} for each in types]
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "namespace": "default", "uid": "9" * 36}
    if draw(st.booleans()):
        metadata["generation"] = draw(st.integers(1, 10**6))
    for field in ("labels", "annotations"):
        if draw(st.booleans()):
            keys = st.sampled_from(["generation", "nodeName", "a"]) | texts
            metadata[field] = draw(st.dictionaries(keys, texts, max_size=3))
    spec: dict[str, Any] = draw(
        st.sampled_from([{}, {"hostname": 'a"nodeName":'}, {"nodeName": ""}, {"x": {"nodeName": "y"}}])
    )
    pod = {"metadata": metadata, "spec": dict(spec)}
    if draw(st.booleans()):
        pod["status"] = {"phase": "Pending", "conditions": draw(conditions)}
    return pod


@given(pods(), st.dictionaries(st.sampled_from(["a", "mainstay.dev/b"]), texts))
def test_the_short_way_to_bind_a_pod_leads_where_the_long_one_does(pod: dict[str, Any], annotations: dict[str, str]):
    value = stored(pod)

    short = PodToBind(Entry("k", value, 1, 1, 1)).bound('n"1', "now", annotations, {})

    long = put_on(msgspec.json.decode(value), 'n"1', "now", annotations, {})
    assert msgspec.json.decode(short) == long
    assert short.startswith(b'{"metadata":{"name":"p","namespace":"default","uid":"')
