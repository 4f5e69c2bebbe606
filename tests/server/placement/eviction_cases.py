"""Evictions under fire: two servers, one budget, lost answers. Each eviction is charged, and no pod that stays is."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec

from mainstay.env import Chance
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.world import PODS, Client, a_pod, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LIMIT = timedelta(hours=1)
LOSSES = Faults(lose_request=0.1, lose_response=0.1, delay_request=0.1, delay_response=0.1)
_KEY = "policy/poddisruptionbudgets/default/"


class Broken(AssertionError):
    """What must hold does not."""


async def a_budget(client: Client, name: str = "web", allowed: int = 1, healthy: int = 3, **spec: Any) -> None:
    given = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1, **spec}
    made = await client.create(BUDGETS, {"metadata": {"name": name}, "spec": given})
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "disruptionsAllowed": allowed,
        "desiredHealthy": 2,
        "currentHealthy": healthy,
        "expectedPods": 3,
    }
    await client.patch(f"{BUDGETS}/{name}/status", {"status": status})


async def a_running_pod(client: Client, name: str, ready: str = "True", phase: str = "Running") -> None:
    pod = a_pod(name, nodeName="n1")
    pod["metadata"]["labels"] = {"app": "web"}
    await client.create(PODS, pod)
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    await client.patch(f"{PODS}/{name}/status", {"status": status})


def an_eviction(name: str, **options: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        **({"deleteOptions": options} if options else {}),
    }


async def evict(client: Client, name: str, query: str = "", **options: Any) -> Any:
    return await client.ask("POST", f"{PODS}/{name}/eviction{query}", an_eviction(name, **options))


async def require_paid(store: Store, at: int, allowed: int, names: list[str]) -> None:
    """Who is going, or gone, is who was paid for."""
    entry = await store.get(f"{_KEY}web", at=at)
    if entry is None:
        return
    status = msgspec.json.decode(entry.value).get("status") or {}
    if "disruptionsAllowed" not in status:
        return
    there = {
        each.key.rpartition("/")[2]: "deletionTimestamp" not in msgspec.json.decode(each.value)["metadata"]
        for each in (await store.range("core/pods/default/", at=at)).entries
    }
    going = sorted(name for name in names if not there.get(name))
    paid = sorted(status.get("disruptedPods") or {})
    if going != paid or status["disruptionsAllowed"] != allowed - len(paid):
        raise Broken(
            f"at revision {at} {going} are going, {paid} are paid for, and {status['disruptionsAllowed']} left"
        )


async def drain(sim: Simulation, faults: Faults | None = None) -> None:
    """Two servers are asked for the same evictions, again and again. Raises `Broken`."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    names = [f"p-{number}" for number in range(8)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        for name in names:
            await a_running_pod(one, name)
        await a_budget(one, allowed=4)
        started = await stores[2].revision()
        etcd.faults = faults or Faults()

        async def ask(client: Client, name: str) -> int:
            status = 0
            for _ in range(3):
                status = (await evict(client, name)).status
                if status in (201, 429):
                    break
                await asyncio.sleep(0.5)
            return status

        async def touch() -> None:
            for number in range(10):
                path = f"{PODS}/{names[number % len(names)]}"
                body = {"metadata": {"annotations": {"touched": str(number)}}}
                await one.ask("PATCH", path, body, "application/merge-patch+json")

        asked = [ask(client, name) for name in names for client in (one, two)]
        *answers, _ = await asyncio.gather(*asked, touch())
        etcd.faults = Faults()
        await asyncio.sleep(60)
        latest = await stores[2].revision()
        for revision in range(started, latest + 1):
            await require_paid(stores[2], revision, 4, names)
        if faults is None:
            gone = Counter(status for status in answers if status is not None)
            status = (await one.get(f"{BUDGETS}/web"))["status"]
            if status["disruptionsAllowed"] != 0 or gone[201] < 4:
                raise Broken(f"the answers were {dict(gone)}, and the budget is {status}")


def run(seed: int, faults: Faults | None = None) -> None:
    """Raises `Broken`."""
    with Simulation(seed) as sim:
        sim.run(drain(sim, faults), LIMIT)
