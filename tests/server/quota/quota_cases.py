"""Quotas under fire: two servers on one etcd, lost answers, and what must hold however it went."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from mainstay.api.quantity import parse
from mainstay.env import Chance
from mainstay.server.quota.resource_quota import count
from mainstay.server.quota.tally import tally_in, tally_key
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Store
from tests.server.world import PODS, Client, a_pod, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
LIMIT = timedelta(hours=1)
DELAYS = Faults(delay_request=0.3, delay_response=0.1)
LOSSES = Faults(lose_request=0.05, lose_response=0.05, delay_request=0.1, delay_response=0.1)


def a_quota(name: str, scopes: list[str] | None = None, **hard: str) -> dict[str, object]:
    spec: dict[str, object] = {"hard": {each.replace("__", ".").replace("_of_", "/"): hard[each] for each in hard}}
    if scopes:
        spec["scopes"] = scopes
    return {"metadata": {"name": name}, "spec": spec}


class Broken(AssertionError):
    """What must hold does not."""


Case = Callable[[Simulation, Faults | None], Awaitable[object]]


def run(case: Case, seed: int, faults: Faults | None = None) -> None:
    """Raises `Broken`."""

    async def main(sim: Simulation) -> None:
        await case(sim, faults)

    with Simulation(seed) as sim:
        sim.run(main(sim), LIMIT)


async def require_exact(store: Store, namespace: str = "default") -> None:
    """What is used of each quota is what is there, and never more than is allowed."""
    at = await store.revision()
    tally = tally_in(await store.get(tally_key(namespace), at=at))
    for name, limit in tally.quotas.items():
        there = await count(store, namespace, limit, at)
        wrong = {
            each: (limit.used[each], str(amount)) for each, amount in there.items() if parse(limit.used[each]) != amount
        }
        if wrong:
            raise Broken(f"quota {name} at revision {at}: used, and what is there: {wrong}")
        over = [each for each in limit.hard if parse(limit.used[each]) > parse(limit.hard[each])]
        if over:
            raise Broken(f"quota {name} at revision {at} is exceeded: {over}")


async def at_every_revision(store: Store, namespace: str = "default") -> None:
    """The same, at each revision that changed a tally."""
    latest = await store.revision()
    with store.watch("", after=1) as watch:
        async for batch in watch:
            for change in batch.changes:
                if change.key != tally_key(namespace):
                    continue
                for name, limit in tally_in(change.entry).quotas.items():
                    there = await count(store, namespace, limit, change.revision)
                    if any(parse(limit.used[each]) != amount for each, amount in there.items()):
                        shown = {each: str(amount) for each, amount in there.items()}
                        raise Broken(f"quota {name} at revision {change.revision} says {limit.used}, there is {shown}")
                    if any(parse(limit.used[each]) > parse(limit.hard[each]) for each in limit.hard):
                        raise Broken(f"quota {name} at revision {change.revision} is exceeded")
            if batch.revision >= latest:
                return


async def ask(client: Client, method: str, path: str, body: object = None) -> int:
    """The status, whatever it is: an answer that is lost is one too."""
    return (await client.ask(method, path, body)).status


async def two_servers_race(sim: Simulation, faults: Faults | None = None) -> Store:
    """Pods are made and removed by two servers at once, while a quota comes and changes. Raises `Broken`."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        etcd.faults = faults or Faults()

        async def make(client: Client, which: str) -> None:
            for number in range(8):
                await ask(client, "POST", PODS, a_pod(f"{which}-{number}"))
                if number % 3 == 2:
                    await ask(client, "DELETE", f"{PODS}/{which}-{number - 1}")

        async def limit(client: Client) -> None:
            await asyncio.sleep(0.005 * sim.choices.choose("when the quota comes", 8))
            await ask(client, "POST", QUOTAS, a_quota("team", pods="30", count_of_pods="40"))
            await ask(client, "PATCH", f"{QUOTAS}/team", {"spec": {"hard": {"pods": "30"}}})
            await ask(two, "POST", QUOTAS, a_quota("other", ["BestEffort"], pods="30"))

        writers = [make(client, f"{which}{n}") for which, client in (("a", one), ("b", two)) for n in range(2)]
        await asyncio.gather(*writers, limit(one))
        etcd.faults = Faults()
        await asyncio.sleep(60)  # What was late has arrived, and statuses have followed.
        await require_exact(stores[2])
        await at_every_revision(stores[2])
        tally = tally_in(await stores[2].get(tally_key("default")))
        for name, known in tally.quotas.items():
            status = (await one.get(f"{QUOTAS}/{name}"))["status"]
            if status != {"hard": known.hard, "used": known.used}:
                raise Broken(f"the status of quota {name} says {status}, and not {msgspec.to_builtins(known)}")
    return stores[2]


async def two_servers_fill(sim: Simulation, faults: Faults | None = None) -> None:
    """Both servers are asked for more than the quota allows, all at once. Raises `Broken`."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        await one.create(QUOTAS, a_quota("team", pods="7"))
        etcd.faults = faults or Faults()
        asked = [
            ask(client, "POST", PODS, a_pod(f"{which}-{n}"))
            for which, client in (("a", one), ("b", two))
            for n in range(10)
        ]
        answers = await asyncio.gather(*asked)
        etcd.faults = Faults()
        await asyncio.sleep(60)
        await require_exact(stores[2])
        await at_every_revision(stores[2])
        made = len((await stores[2].range("core/pods/default/")).entries)
        if faults is None and (made, sorted(answers)) != (7, [201] * 7 + [403] * 13):
            raise Broken(f"{made} pods were made, and the answers were {sorted(answers)}")
        if made > 7 or answers.count(201) > made:
            raise Broken(f"{made} pods were made, {answers.count(201)} times it was said so")
