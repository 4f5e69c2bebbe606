"""Reservations under fire: servers that race, clients that try again, time that runs out; and what always holds."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from mainstay.api.reservations import count_resources, is_active, list_ports, reservation_name
from mainstay.api.times import format_time
from mainstay.env import Chance
from mainstay.server.placement.ledger.charge import CHARGES, decode_charge, port_text
from mainstay.server.placement.ledger.ledger import LEDGERS, ledger_in, ledger_key
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.world import PODS, Client, a_pod, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

RESERVATIONS = "/apis/mainstay.dev/v1/namespaces/default/reservations"
NODES = "/api/v1/nodes"
LIMIT = timedelta(hours=1)
DELAYS = Faults(delay_request=0.3, delay_response=0.1)
LOSSES = Faults(lose_request=0.05, lose_response=0.1, delay_request=0.1, delay_response=0.1)


class Broken(AssertionError):
    """What must hold does not."""


def now() -> datetime:
    """Of the simulation: it has replaced the clock."""
    return datetime.now(UTC)


def a_reservation(intent: str, node: str = "n1", seconds: float = 600, **spec: Any) -> dict[str, Any]:
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "risk-api", "uid": "u1"}
    given = {"nodeName": node, "workload": workload, "generation": 42, "intent": intent, "resources": {"cpu": "1"}}
    expires = format_time(now() + timedelta(seconds=seconds))
    return {"spec": {**given, "expiresAt": expires, **spec}}


def name_of(intent: str) -> str:
    return reservation_name({"name": "risk-api", "uid": "u1"}, 42, intent)


async def a_node(client: Client, name: str, zone: str = "", **allocatable: str) -> None:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    await client.create(NODES, {"metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}
    await client.patch(f"{NODES}/{name}/status", {"status": {"allocatable": amounts, "capacity": amounts}})


def needing(name: str, cpu: str = "1", **annotations: str) -> dict[str, Any]:
    pod = a_pod(name)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    pod["metadata"]["annotations"] = {f"mainstay.dev/{key}": value for key, value in annotations.items()}
    return pod


def to(node: str) -> dict[str, Any]:
    return {"target": {"kind": "Node", "name": node}}


async def require_exact(store: Store, at: int | None = None) -> None:
    """What is held on each node is what its active reservations hold; and nothing is given away twice."""
    at = await store.revision() if at is None else at
    held: dict[str, Counter[str]] = {}
    ports: dict[str, Counter[str]] = {}
    active: Counter[tuple[str, int, str]] = Counter()
    for entry in (await store.range("mainstay.dev/reservations/", at=at)).entries:
        reservation = msgspec.json.decode(entry.value)
        spec = reservation["spec"]
        if is_active(reservation):
            active[spec["workload"]["uid"], spec["generation"], spec["intent"]] += 1
            held.setdefault(spec["nodeName"], Counter()).update(count_resources(reservation))
            ports.setdefault(spec["nodeName"], Counter()).update(port_text(port) for port in list_ports(reservation))
    twice = [intent for intent, count in active.items() if count > 1]
    if twice:
        raise Broken(f"at revision {at} there are several active reservations for {twice}")
    used: dict[str, Counter[str]] = {}
    for entry in (await store.range(CHARGES, at=at)).entries:
        charge = decode_charge(entry.value)
        used.setdefault(charge.node, Counter()).update(charge.amounts)
    for entry in (await store.range(LEDGERS, at=at)).entries:
        node, ledger = entry.key.removeprefix(LEDGERS), ledger_in(entry)
        for what, said, found in (
            ("held", ledger.held, held.pop(node, Counter())),
            ("ports held", ledger.held_ports, ports.pop(node, Counter())),
            ("used", ledger.used, used.pop(node, Counter())),
        ):
            if said != {name: amount for name, amount in found.items() if amount}:
                raise Broken(f"at revision {at} the ledger of {node} has {what} {said}, and there is {dict(found)}")
        for resource, all_of_it in ledger.allocatable.items():
            if ledger.used.get(resource, 0) + ledger.held.get(resource, 0) > all_of_it:
                raise Broken(f"at revision {at} more {resource} is given away than {node} has")
    if held or used:
        raise Broken(f"at revision {at} nodes without a ledger have {held} held and {used} used")


async def at_every_revision(store: Store) -> None:
    latest = await store.revision()
    with store.watch("", after=1) as watch:
        async for batch in watch:
            for revision in sorted({change.revision for change in batch.changes if change.key.startswith(LEDGERS)}):
                await require_exact(store, revision)
            if batch.revision >= latest:
                return


async def settle_intent(client: Client, intent: str, node: str, seconds: float) -> int:
    """Try until there is an answer that says something, as a client does that does not know what became of it."""
    for _ in range(8):
        status = (await client.ask("POST", RESERVATIONS, a_reservation(intent, node, seconds))).status
        if status in (201, 409):
            return status
        await asyncio.sleep(0.5)
    return 0


async def race(sim: Simulation, faults: Faults | None = None) -> None:
    """Two schedulers want room for the same intents through two servers, use it, let it go, or let it expire."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        for node in ("n1", "n2"):
            await a_node(one, node, cpu="3")
        for number in range(6):
            await one.create(PODS, needing(f"p-{number}", reservation=name_of(f"replica-{number}")))
        etcd.faults = faults or Faults()

        async def schedule(client: Client, label: str) -> None:
            for number in range(6):
                intent, node = f"replica-{number}", f"n{1 + sim.choices.choose(f'{label} node', 2)}"
                await settle_intent(client, intent, node, seconds=2 + 3 * (number % 2))
                match sim.choices.choose(f"{label} next", 4):
                    case 0:
                        await client.ask("POST", f"{PODS}/p-{number}/binding", to(node))
                    case 1:
                        await client.ask("DELETE", f"{RESERVATIONS}/{name_of(intent)}")
                    case 2:
                        body = {"status": {"phase": "Released"}}
                        kind = "application/merge-patch+json"
                        await client.ask("PATCH", f"{RESERVATIONS}/{name_of(intent)}/status", body, kind)
                    case _:
                        await asyncio.sleep(sim.choices.choose(f"{label} wait", 5))

        await asyncio.gather(schedule(one, "a"), schedule(two, "b"), schedule(two, "c"))
        etcd.faults = Faults()
        await asyncio.sleep(120)
        await at_every_revision(stores[2])
        for entry in (await stores[2].range("mainstay.dev/reservations/")).entries:
            if is_active(msgspec.json.decode(entry.value)):
                raise Broken(f"{entry.key} is still active, long after its time")
        for node in ("n1", "n2"):
            if ledger_in(await stores[2].get(ledger_key(node))).held:
                raise Broken(f"{node} still holds something for no reservation")


Case = Callable[[Simulation, Faults | None], Awaitable[None]]


def run(case: Case, seed: int, faults: Faults | None = None) -> None:
    """Raises `Broken`."""

    async def main(sim: Simulation) -> None:
        await case(sim, faults)

    with Simulation(seed) as sim:
        sim.run(main(sim), LIMIT)
