"""Quotas of zones under fire: pods are bound by two servers at once while quotas come and go."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

from mainstay.env import Chance
from mainstay.server.quota.zone_quota import ZONES, count_charges, use_in, zone_key
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.placement.reservation_cases import a_node, needing, to
from tests.server.world import PODS, Client, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

ZONE_QUOTAS = "/apis/mainstay.dev/v1/namespaces/default/zonequotas"
LIMIT = timedelta(hours=1)
DELAYS = Faults(delay_request=0.3, delay_response=0.1)
LOSSES = Faults(lose_request=0.05, lose_response=0.1, delay_request=0.1, delay_response=0.1)
_PATCH = "application/merge-patch+json"


class Broken(AssertionError):
    """What must hold does not."""


def a_zone_quota(name: str, zone: str = "a", **hard: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"zone": zone, "hard": hard}}


async def require_exact(store: Store, at: int | None = None, zones: tuple[str, ...] = ("a", "b")) -> None:
    """What is used of a zone is what the charges of its pods say, and no quota is exceeded."""
    at = await store.revision() if at is None else at
    for zone in zones:
        use = use_in(await store.get(zone_key("default", zone), at=at))
        if not use.quotas:
            continue
        there = await count_charges(store, "default", zone, at)
        if use.used != there:
            raise Broken(f"at revision {at} zone {zone} says that {use.used} are used, and there are {there}")
        for name, hard in use.quotas.items():
            over = {each: use.used[each] for each in hard if use.used.get(each, 0) > hard[each]}
            if over:
                raise Broken(f"at revision {at} quota {name} of zone {zone} is exceeded: {over}")


async def at_every_revision(store: Store) -> None:
    latest = await store.revision()
    with store.watch("", after=1) as watch:
        async for batch in watch:
            for revision in sorted({change.revision for change in batch.changes if change.key.startswith(ZONES)}):
                await require_exact(store, revision)
            if batch.revision >= latest:
                return


async def race(sim: Simulation, faults: Faults | None = None) -> None:
    """Raises `Broken`."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        for number, zone in enumerate("aab"):
            await a_node(one, f"n{number}", zone, cpu="50", pods="50")
        for number in range(24):
            await one.create(PODS, needing(f"p-{number}"))
        etcd.faults = faults or Faults()

        async def bind(client: Client, label: str, numbers: range) -> None:
            for number in numbers:
                node = f"n{sim.choices.choose(f'{label} node', 3)}"
                await client.ask("POST", f"{PODS}/p-{number}/binding", to(node))
                if sim.choices.choose(f"{label} end", 3) == 0:
                    body = {"status": {"phase": "Succeeded"}}
                    await client.ask("PATCH", f"{PODS}/p-{number}/status", body, _PATCH)

        async def limit() -> None:
            await asyncio.sleep(0.005 * sim.choices.choose("when the quota comes", 8))
            # The limit is not so low that it is exceeded already when it comes.
            await one.ask("POST", ZONE_QUOTAS, a_zone_quota("first", pods="24", cpu="24"))
            await two.ask("POST", ZONE_QUOTAS, a_zone_quota("second", pods="30"))
            await two.ask("POST", ZONE_QUOTAS, a_zone_quota("third", "b", cpu="24"))
            if sim.choices.choose("goes", 2):
                await one.ask("DELETE", f"{ZONE_QUOTAS}/first")

        writers = [bind(client, f"w{n}", range(n, 24, 4)) for n, client in enumerate((one, two, one, two))]
        await asyncio.gather(*writers, limit())
        etcd.faults = Faults()
        await asyncio.sleep(60)
        await at_every_revision(stores[2])


async def fill(sim: Simulation, faults: Faults | None = None) -> None:
    """Two servers are asked to bind more than the quota of a zone allows, all at once. Raises `Broken`."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        for number in range(4):
            await a_node(one, f"n{number}", "a", cpu="50", pods="50")
        for number in range(16):
            await one.create(PODS, needing(f"p-{number}"))
        await one.create(ZONE_QUOTAS, a_zone_quota("team", cpu="5"))
        etcd.faults = faults or Faults()
        asked = [
            (one, two)[number % 2].ask("POST", f"{PODS}/p-{number}/binding", to(f"n{number % 4}"))
            for number in range(16)
        ]
        answers = Counter(answer.status for answer in await asyncio.gather(*asked))
        etcd.faults = Faults()
        await asyncio.sleep(60)
        await at_every_revision(stores[2])
        if faults is None and answers != {201: 5, 409: 11}:
            raise Broken(f"the answers were {dict(answers)}")


def run(case: Any, seed: int, faults: Faults | None = None) -> None:
    """Raises `Broken`."""
    with Simulation(seed) as sim:
        sim.run(case(sim, faults), LIMIT)
