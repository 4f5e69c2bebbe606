"""Which addresses are accepted in the status of pods and Nodes: those that others will connect to."""

from typing import Any

import pytest

from mainstay.store import open_memory
from tests.server.auth.test_agent_writes import AS_AGENT
from tests.server.world import PODS, Client, a_pod, a_server

NODES = "/api/v1/nodes"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
MERGE = {"content_type": "application/merge-patch+json"}
SUBNET = "10.1.2.0/24"


def at(*addresses: str, alone: str | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"podIPs": [{"ip": each} for each in addresses]}
    status["podIP"] = (addresses[0] if addresses else "") if alone is None else alone
    return {"status": status}


async def a_bound_pod(client: Client, subnet: str = SUBNET, **spec: Any) -> str:
    node: dict[str, Any] = {"metadata": {"name": "n1"}}
    if subnet:
        node["spec"] = {"podCIDR": subnet, "podCIDRs": [subnet]}
    node["status"] = {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]}
    await client.create(NODES, node)
    await client.label_namespace(enforce="privileged")
    await client.create(PODS, a_pod("p", nodeName="n1", **spec))
    return f"{PODS}/p/status"


@pytest.mark.parametrize(
    ("status", "field", "why"),
    [
        (at("nonsense"), "podIPs[0]", "must be a valid IP address"),
        (at(alone="nonsense"), "podIP", "must be a valid IP address"),
        (at("10.1.2.300"), "podIPs[0]", "must be a valid IP address"),
        (at("0.0.0.0"), "podIPs[0]", "may not be unspecified"),
        (at("::"), "podIPs[0]", "may not be unspecified"),
        (at("169.254.169.254"), "podIPs[0]", "link-local"),
        (at("::ffff:169.254.169.254"), "podIPs[0]", "IPv4-mapped"),
        (at("fe80::1%eth0"), "podIPs[0]", "may not have a zone"),
        (at("fe80::1"), "podIPs[0]", "link-local"),
        (at("224.0.0.1"), "podIPs[0]", "multicast"),
        (at("ff02::1"), "podIPs[0]", "multicast"),
        (at("255.255.255.255"), "podIPs[0]", "broadcast"),
        (at("10.1.2.3", alone="10.1.2.4"), "podIPs[0].ip", "must be equal to `podIP`"),
        (at("10.1.2.3", "10.1.2.4"), "podIPs", "no more than one IP for each IP family"),
        ({"status": {"hostIP": "nonsense"}}, "hostIP", "must be a valid IP address"),
    ],
)
async def test_no_client_gives_a_pod_an_address_that_cannot_be_one(sim, status, field, why):
    async with a_server(sim) as client:
        path = await a_bound_pod(client, subnet="")

        answer = await client.ask("PATCH", path, status, **MERGE)

        assert answer.status == 422
        assert [(each["field"], why in each["message"]) for each in answer.body["details"]["causes"]] == [
            (f"status.{field}", True)
        ]
        assert "podIP" not in (await client.get(path))["status"]


@pytest.mark.parametrize(
    "addresses", [("10.1.2.3",), ("10.1.2.3", "fd00::3"), ("fd00::3", "10.1.2.3"), ("127.64.0.2",)]
)
async def test_addresses_of_pods_are_accepted(sim, addresses):
    async with a_server(sim) as client:
        path = await a_bound_pod(client, subnet="")

        assert (await client.ask("PATCH", path, at(*addresses), **MERGE)).status == 200


@pytest.mark.parametrize(
    ("subnet", "in_host_network", "address", "expected"),
    [
        (SUBNET, False, "10.1.2.3", ""),
        (SUBNET, False, "10.1.3.3", "outside spec.podCIDRs of the node"),
        (SUBNET, False, "127.0.0.1", "outside spec.podCIDRs of the node"),
        (SUBNET, False, "192.0.2.7", "outside spec.podCIDRs of the node"),
        (SUBNET, True, "192.0.2.7", ""),
        (SUBNET, True, "10.1.2.3", "not an address of the node"),
        ("127.64.0.0/24", False, "127.64.0.9", ""),
        ("127.64.0.0/24", False, "127.0.0.1", "outside spec.podCIDRs of the node"),
        ("", False, "10.1.3.3", ""),
    ],
)
async def test_an_agent_gives_its_pods_only_addresses_of_its_node(sim, subnet, in_host_network, address, expected):
    async with a_server(sim) as client:
        path = await a_bound_pod(client, subnet, **({"hostNetwork": True} if in_host_network else {}))

        answer = await client.ask("PATCH", path, at(address), **MERGE, **AS_AGENT)

        assert (answer.status, expected in answer.body.get("message", "")) == (403 if expected else 200, True)
        assert (await client.get(path))["status"].get("podIP") == (None if expected else address)


async def test_an_agent_that_gives_no_other_address_may_write_the_rest(sim):
    async with a_server(sim) as client:
        path = await a_bound_pod(client)
        await client.patch(path, at("10.9.9.9"))  # By another client, before there was such a rule.

        answer = await client.ask("PATCH", path, {"status": {"phase": "Running"}}, **MERGE, **AS_AGENT)

        assert answer.status == 200


async def test_an_agent_without_a_node_gives_no_addresses(sim):
    async with a_server(sim) as client:
        path = await a_bound_pod(client, subnet="")
        await client.patch(path, at("10.1.2.3"))
        await client.delete(f"{NODES}/n1")

        refused = await client.ask("PATCH", path, at("10.9.9.9"), **MERGE, **AS_AGENT)
        assert (refused.status, "its Node does not exist" in refused.body["message"]) == (403, True)
        for allowed in ({"status": {"phase": "Running"}}, {"status": {"podIP": None, "podIPs": None}}):
            assert (await client.ask("PATCH", path, allowed, **MERGE, **AS_AGENT)).status == 200


async def test_an_address_is_inside_the_subnet_that_the_node_has_when_it_is_written(sim, monkeypatch):
    store = await open_memory()
    commit = store.commit
    async with a_server(sim, store=store) as client:
        path = await a_bound_pod(client, subnet="")

        async def commit_later(*args: Any) -> Any:
            """The Node gets its subnet between the decision and the commit."""
            monkeypatch.setattr(store, "commit", commit)
            await client.patch(f"{NODES}/n1", {"spec": {"podCIDR": SUBNET, "podCIDRs": [SUBNET]}})
            return await commit(*args)

        monkeypatch.setattr(store, "commit", commit_later)
        answer = await client.ask("PATCH", path, at("10.9.9.9"), **MERGE, **AS_AGENT)

        assert (answer.status, "outside spec.podCIDRs" in answer.body["message"]) == (403, True)


async def test_a_node_keeps_the_subnet_that_it_has(sim):
    async with a_server(sim) as client:
        await a_bound_pod(client)

        for change in ({"podCIDR": "10.0.0.0/8"}, {"podCIDRs": ["0.0.0.0/0"]}, {"podCIDRs": None, "podCIDR": None}):
            answer = await client.ask("PATCH", f"{NODES}/n1", {"spec": change}, **MERGE, **AS_AGENT)
            assert answer.status == 422


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"addresses": [{"type": "InternalIP", "address": "169.254.169.254"}]}, "addresses[0].address"),
        ({"addresses": [{"type": "ExternalIP", "address": "fe80::1"}]}, "addresses[0].address"),
        ({"addresses": [{"type": "InternalIP", "address": "::ffff:a9fe:a9fe"}]}, "addresses[0].address"),
        ({"addresses": [{"type": "Hostname", "address": "224.0.0.1"}]}, "addresses[0].address"),
        ({"addresses": [{"type": "InternalIP", "address": "0.0.0.0"}]}, "addresses[0].address"),
        ({"daemonEndpoints": {"kubeletEndpoint": {"Port": -1}}}, "daemonEndpoints.kubeletEndpoint.Port"),
        ({"daemonEndpoints": {"kubeletEndpoint": {"Port": 65536}}}, "daemonEndpoints.kubeletEndpoint.Port"),
    ],
)
async def test_a_node_is_not_at_an_address_that_servers_must_not_connect_to(sim, change, field):
    async with a_server(sim) as client:
        await a_bound_pod(client)

        answer = await client.ask("PATCH", f"{NODES}/n1/status", {"status": change}, **MERGE, **AS_AGENT)

        assert answer.status == 422
        assert [each["field"] for each in answer.body["details"]["causes"]] == [f"status.{field}"]


async def test_endpoints_name_no_address_that_must_not_be_connected_to(sim):
    async with a_server(sim) as client:
        subsets = [{"addresses": [{"ip": "169.254.169.254"}], "ports": [{"port": 80}]}]

        answer = await client.ask("POST", ENDPOINTS, {"metadata": {"name": "metadata"}, "subsets": subsets})

        assert (answer.status, "link-local" in answer.body["message"]) == (422, True)
