"""Holds of evictions under fire: two servers, lost answers. What was told to be frozen is frozen."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from mainstay.env import Chance
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.placement.eviction_cases import a_running_pod, evict
from tests.server.world import Client, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

HOLDS = "/apis/mainstay.dev/v1/holds"
LIMIT = timedelta(hours=1)
LOSSES = Faults(lose_request=0.1, lose_response=0.1, delay_request=0.1, delay_response=0.1)
NAMES = tuple(f"p-{number}" for number in range(12))


class Broken(AssertionError):
    """What must hold does not."""


def a_hold(name: str = "freeze", until: str = "", **spec: Any) -> dict[str, Any]:
    """Of evictions, unless it says otherwise."""
    given = {"what": "Evictions", "target": {}, "owner": "anna", "reason": "a flapping switch", "expiresAt": until}
    return {"apiVersion": "mainstay.dev/v1", "kind": "Hold", "metadata": {"name": name}, "spec": {**given, **spec}}


async def going_at(store: Store, at: int) -> frozenset[str]:
    """Who of them is going, or gone."""
    there = {
        each.key.rpartition("/")[2]: "deletionTimestamp" not in msgspec.json.decode(each.value)["metadata"]
        for each in (await store.range("core/pods/default/", at=at)).entries
    }
    return frozenset(name for name in NAMES if not there.get(name))


async def freeze(sim: Simulation, faults: Faults | None = None) -> None:
    """Evictions come in at two servers while they are frozen, and thawed again. Raises `Broken`."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    until = "2026-01-01T06:00:00Z"
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        for name in NAMES:
            await a_running_pod(one, name)
        started = await stores[2].revision()
        etcd.faults = faults or Faults()

        async def ask(client: Client, name: str, number: int) -> None:
            await asyncio.sleep(number * 0.004)
            for _ in range(6):
                if (await evict(client, name)).status == 201:
                    return
                await asyncio.sleep(0.5)

        async def hold() -> None:
            await asyncio.sleep(0.02)
            for _ in range(20):
                if (await two.ask("POST", HOLDS, a_hold(until=until))).status in (201, 409):
                    break
            await asyncio.sleep(1)
            for _ in range(20):
                if (await one.ask("DELETE", f"{HOLDS}/freeze")).status in (200, 404):
                    break

        asked = [ask((one, two)[number % 2], name, number) for number, name in enumerate(NAMES)]
        await asyncio.gather(*asked, hold())
        etcd.faults = Faults()
        await asyncio.sleep(60)
        latest = await stores[2].revision()
        await _require_frozen(stores[2], started, latest)
        left = [name for name in NAMES if name not in await going_at(stores[2], latest)]
        if faults is None and left:
            raise Broken(f"{left} are still there, though evictions are not held any more")


async def _require_frozen(store: Store, started: int, latest: int) -> None:
    """While the Hold exists, no pod begins to terminate."""
    was_held, going = False, await going_at(store, started)
    times = 0
    for revision in range(started + 1, latest + 1):
        is_held = await store.get("mainstay.dev/holds/freeze", at=revision) is not None
        now_going = await going_at(store, revision)
        if was_held and is_held and now_going - going:
            raise Broken(f"at revision {revision} {sorted(now_going - going)} began to go, and evictions are frozen")
        times += is_held and not was_held
        was_held, going = is_held, now_going
    if times != 1:
        raise Broken(f"evictions were frozen {times} times, instead of once")


def run(seed: int, faults: Faults | None = None) -> None:
    """Raises `Broken`."""
    with Simulation(seed) as sim:
        sim.run(freeze(sim, faults), LIMIT)
