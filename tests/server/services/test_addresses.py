"""Which addresses Services get, and that no two have the same."""

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from mainstay.api.errors import StatusError
from mainstay.api.kind import Object
from mainstay.api.kinds import BUILTIN
from mainstay.server.services.addresses import AddressedObject, Ranges, ServiceAddresses, held, released
from mainstay.store import open_memory
from mainstay.store.interface import ABSENT, Check, Committed, DeleteEntry, Put, Store, TransactionRefused

SERVICES = next(kind for kind in BUILTIN if (kind.group, kind.kind) == ("", "Service"))
PODS = next(kind for kind in BUILTIN if (kind.group, kind.kind) == ("", "Pod"))
KEY = "core/services/shop/web"


def a_service(uid: str = "u-1", ports: int = 1, **spec: Any) -> Object:
    listed = [{"name": f"p{number}", "port": 80 + number, "protocol": "TCP"} for number in range(ports)]
    return {"metadata": {"name": "web", "uid": uid}, "spec": {"type": "ClusterIP", "ports": listed, **spec}}


def with_ports(*ports: Object) -> Object:
    return {**a_service(), "spec": {"type": "NodePort", "ports": list(ports)}}


async def put(store: Store, placed: AddressedObject) -> Committed | TransactionRefused:
    return await store.commit(list(placed.checks), list(placed.writes))


async def place(addresses: ServiceAddresses, new: Object, old: Object | None = None) -> AddressedObject:
    return await addresses.placed(SERVICES, KEY, new, old)


async def refusal_of(addresses: ServiceAddresses, new: Object) -> tuple[int, str]:
    with pytest.raises(StatusError) as refusal:
        await place(addresses, new)
    return refusal.value.code, refusal.value.message


async def test_a_service_gets_an_address_that_is_committed_with_it():
    addresses = ServiceAddresses(await open_memory())
    new = a_service()

    placed = await place(addresses, new)

    address = placed.object["spec"]["clusterIP"]
    assert IPv4Address(address) in IPv4Network("10.96.0.0/16")
    assert placed.object["spec"]["clusterIPs"] == [address]
    key = f"~addresses/cluster-ip/{address}"
    assert (placed.checks, placed.writes) == ([Check(key, ABSENT)], [Put(key, KEY.encode())])
    assert "clusterIP" not in new["spec"]


async def test_two_services_never_have_the_same_address():
    store = await open_memory()
    addresses = ServiceAddresses(store, Ranges("10.0.0.0/24"))

    seen = set()
    for number in range(254):
        placed = await place(addresses, a_service(uid=str(number)))
        assert isinstance(await put(store, placed), Committed)
        seen.add(placed.object["spec"]["clusterIP"])

    assert seen == {f"10.0.0.{number}" for number in range(1, 255)}
    assert await refusal_of(addresses, a_service(uid="one more")) == (
        500,
        "Internal error occurred: failed to allocate a serviceIP: range is full",
    )


async def test_the_low_end_of_the_range_is_given_out_last():
    store = await open_memory()
    addresses = ServiceAddresses(store, Ranges("10.0.0.0/24"))

    given = []
    for number in range(254):
        placed = await place(addresses, a_service(uid=str(number)))
        await put(store, placed)
        given.append(int(IPv4Address(placed.object["spec"]["clusterIP"])) & 0xFF)

    assert sorted(given[-16:]) == list(range(1, 17))


async def test_of_two_who_choose_at_the_same_time_one_chooses_again():
    store = await open_memory()
    addresses = ServiceAddresses(store)
    first, second = [await place(addresses, a_service()) for _ in range(2)]

    assert isinstance(await put(store, first), Committed)
    assert isinstance(await put(store, second), TransactionRefused)
    again = await place(addresses, a_service())

    assert again.object["spec"]["clusterIP"] != first.object["spec"]["clusterIP"]
    assert isinstance(await put(store, again), Committed)


async def test_an_address_that_is_named_is_given_once():
    store = await open_memory()
    addresses = ServiceAddresses(store)
    named = a_service(clusterIP="10.96.0.10")
    await put(store, await place(addresses, named))

    assert await refusal_of(addresses, named) == (
        422,
        'Service "web" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.10"]: failed to allocate IP 10.96.0.10:'
        " provided IP is already allocated",
    )
    assert (await place(addresses, named, named)).writes == []


@pytest.mark.parametrize("address", ["10.97.0.1", "10.96.0.0", "10.96.255.255"])
async def test_an_address_outside_the_range_is_refused(address: str):
    assert await refusal_of(ServiceAddresses(await open_memory()), a_service(clusterIP=address)) == (
        422,
        f'Service "web" is invalid: spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP {address}: the'
        f" provided IP ({address}) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "spec.ipFamilyPolicy"),
        ({"clusterIP": "fd00::1"}, "spec.clusterIPs[0]"),
    ],
)
async def test_there_are_no_other_addresses_than_those_of_ipv4(spec: Any, field: str):
    code, message = await refusal_of(ServiceAddresses(await open_memory()), a_service(**spec))

    assert (code, f"is invalid: {field}: " in message) == (422, True)


@pytest.mark.parametrize(("spec", "addresses"), [({"clusterIP": "None"}, ["None"]), ({"type": "ExternalName"}, None)])
async def test_some_services_need_no_address(spec: Any, addresses: list[str] | None):
    placed = await place(ServiceAddresses(await open_memory()), a_service(**spec))

    assert (placed.object["spec"].get("clusterIPs"), placed.checks, placed.writes) == (addresses, [], [])


# Ports on the nodes.


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
async def test_a_service_for_the_outside_gets_a_port_for_each_of_its_own(kind: str):
    placed = await place(ServiceAddresses(await open_memory()), a_service(ports=3, type=kind))

    ports = [port["nodePort"] for port in placed.object["spec"]["ports"]]
    assert len(set(ports)) == 3
    assert all(30_000 <= port <= 32_767 for port in ports)
    assert [check.key for check in placed.checks[1:]] == [f"~addresses/node-port/{port}" for port in ports]


async def test_a_load_balancer_may_do_without_ports_on_the_nodes():
    service = a_service(type="LoadBalancer", allocateLoadBalancerNodePorts=False)

    assert "nodePort" not in (await place(ServiceAddresses(await open_memory()), service)).object["spec"]["ports"][0]


async def test_a_load_balancer_to_its_own_node_gets_a_port_for_its_health():
    service = a_service(type="LoadBalancer", externalTrafficPolicy="Local")

    spec = (await place(ServiceAddresses(await open_memory()), service)).object["spec"]

    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]


async def test_one_port_may_be_named_for_two_protocols_of_a_service():
    both = [{"port": 53, "nodePort": 30053, "protocol": protocol} for protocol in ("TCP", "UDP")]

    placed = await place(ServiceAddresses(await open_memory()), with_ports(*both))

    assert [check.key for check in placed.checks[1:]] == ["~addresses/node-port/30053"]


@pytest.mark.parametrize(
    ("port", "why"),
    [
        (80, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (30080, "provided port is already allocated"),
    ],
)
async def test_a_port_that_cannot_be_had_is_refused(port: int, why: str):
    store = await open_memory()
    addresses = ServiceAddresses(store)

    await put(store, await place(addresses, with_ports({"port": 80, "nodePort": 30080})))

    assert await refusal_of(addresses, with_ports({"port": 80, "nodePort": port})) == (
        422,
        f'Service "web" is invalid: spec.ports[0].nodePort: Invalid value: {port}: {why}',
    )


# Changes.


async def test_a_change_takes_what_is_new_and_gives_back_what_is_not_needed():
    store = await open_memory()
    addresses = ServiceAddresses(store)
    first = await place(addresses, a_service(ports=2, type="NodePort"))
    await put(store, first)
    old = first.object
    ports = old["spec"]["ports"]
    kept, dropped = ports[0]["nodePort"], ports[1]["nodePort"]

    fewer = {**old, "spec": {**old["spec"], "ports": [ports[0], {"name": "new", "port": 99}]}}
    placed = await place(addresses, fewer, old)

    added = placed.object["spec"]["ports"][1]["nodePort"]
    assert placed.object["spec"]["ports"][0]["nodePort"] == kept
    assert [check.key for check in placed.checks] == [f"~addresses/node-port/{added}"]
    assert placed.writes == [
        Put(f"~addresses/node-port/{added}", KEY.encode()),
        DeleteEntry(f"~addresses/node-port/{dropped}"),
    ]


async def test_a_service_that_goes_gives_back_everything():
    service = (await place(ServiceAddresses(await open_memory()), a_service(type="NodePort"))).object

    assert released(SERVICES, service) == [DeleteEntry(key) for key in held(service)]
    assert len(held(service)) == 2


async def test_other_kinds_have_no_addresses():
    pod = {"metadata": {"name": "web", "uid": "u"}, "spec": {"clusterIP": "10.96.0.10", "type": "ClusterIP"}}

    assert await ServiceAddresses(await open_memory()).placed(PODS, "core/pods/shop/web", pod, None) == AddressedObject(
        pod
    )
    assert released(PODS, pod) == []


async def test_more_than_a_transaction_can_hold_is_refused():
    code, message = await refusal_of(ServiceAddresses(await open_memory()), a_service(ports=60, type="NodePort"))

    assert (code, "spec.ports" in message) == (422, True)
