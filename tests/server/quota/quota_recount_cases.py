"""Two servers recount wrong quotas at once, while both create, bind and terminate pods."""

import asyncio
from typing import Any

from msgspec.structs import replace

from mainstay.api.quantity import ZERO, parse
from mainstay.env import Chance
from mainstay.server.quota.resource_quota import count
from mainstay.server.quota.tally import QuotaLimit, QuotaTally, tally_in, tally_key
from mainstay.server.quota.tally import build_write as tally_write
from mainstay.server.quota.zone_quota import ZoneUse, count_charges, use_in, zone_key
from mainstay.server.quota.zone_quota import build_write as zone_write
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import DeleteEntry, Store
from tests.server.placement.reservation_cases import a_node, needing, to
from tests.server.quota.quota_cases import QUOTAS, Broken, a_quota
from tests.server.quota.zone_quota_cases import ZONE_QUOTAS, a_zone_quota
from tests.server.world import PODS, Client, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

RECOUNT = "/api/v1/namespaces/default/recount"
TALLY, ZONE = tally_key("default"), zone_key("default", "a")
LIMITS = ("other", "team")
SPOILS = ("too much", "too little", "one is missing", "one is left over", "another limit", "all is lost")
_PATCH = "application/merge-patch+json"


def spoiled(tally: QuotaTally, how: str, amount: int = 3) -> QuotaTally:
    """A tally as a mistake or a hand in the store could have left it."""
    team = tally.quotas["team"]
    match how:
        case "too much":
            used = {name: str(parse(used) + parse(str(amount))) for name, used in team.used.items()}
            return replace(tally, quotas={**tally.quotas, "team": replace(team, used=used)})
        case "too little":
            used = dict.fromkeys(team.used, "0")
            return replace(tally, quotas={**tally.quotas, "team": replace(team, used=used)})
        case "one is missing":
            return replace(tally, quotas={name: limit for name, limit in tally.quotas.items() if name != "team"})
        case "one is left over":
            return replace(
                tally, quotas={**tally.quotas, "gone": QuotaLimit("no-quota", {"pods": "99"}, {"pods": "5"})}
            )
        case "another limit":
            return replace(
                tally, quotas={**tally.quotas, "team": replace(team, hard={"pods": "98"}, used={"pods": "1"})}
            )
        case _:
            return QuotaTally()


def spoiled_zone(use: ZoneUse, how: str, amount: int = 3) -> ZoneUse:
    match how:
        case "too much":
            return replace(use, used={**use.used, "pods": use.used.get("pods", 0) + amount})
        case "too little":
            return replace(use, used={})
        case "one is missing":
            return replace(use, quotas={"second": use.quotas["second"]})
        case "one is left over":
            return replace(use, quotas={**use.quotas, "gone": {"pods": 99}})
        case "another limit":
            return replace(use, quotas={**use.quotas, "first": {"cpu": 98_000}})
        case _:
            return ZoneUse()


async def spoil(store: Store, how: str, how_zone: str) -> None:
    tally, use = tally_in(await store.get(TALLY)), use_in(await store.get(ZONE))
    writes = [tally_write(TALLY, spoiled(tally, how)), zone_write(ZONE, spoiled_zone(use, how_zone))]
    if "all is lost" in (how, how_zone):
        writes = [each for each in writes if not isinstance(each, DeleteEntry)]
        writes += [DeleteEntry(key) for key, given in ((TALLY, how), (ZONE, how_zone)) if given == "all is lost"]
    await store.commit([], writes)


async def wrongs(store: Store, at: int) -> set[str]:
    """Which quotas are not what is there at a revision."""
    tally = tally_in(await store.get(TALLY, at=at))
    found = {f"limit {name}" for name in {*tally.quotas, *LIMITS} if name not in tally.quotas or name not in LIMITS}
    for name, limit in tally.quotas.items():
        there = await count(store, "default", limit, at)
        if any(parse(limit.used[each]) != there.get(each, ZERO) for each in limit.used):
            found.add(f"used {name}")
    use = use_in(await store.get(ZONE, at=at))
    if set(use.quotas) != {"first", "second"}:
        found.add("limits of the zone")
    elif use.used != await count_charges(store, "default", "a", at):
        found.add("used in the zone")
    return found


async def begin(client: Client, pods: int) -> None:
    """Pods on a node, and quotas that know of them."""
    for number in range(2):
        await a_node(client, f"n{number}", "a", cpu="90", pods="90")
    await client.create(QUOTAS, a_quota("team", pods="90", count_of_pods="90"))
    await client.create(QUOTAS, a_quota("other", ["NotBestEffort"], requests__cpu="90"))
    await client.create(ZONE_QUOTAS, a_zone_quota("first", pods="90", cpu="90"))
    await client.create(ZONE_QUOTAS, a_zone_quota("second", pods="80"))
    for number in range(pods):
        await client.create(PODS, needing(f"p-{number}"))
        if number % 2:
            await client.ask("POST", f"{PODS}/p-{number}/binding", to("n0"))


async def race(sim: Simulation, faults: Faults | None = None) -> None:
    """Raises `Broken`: what once is right stays right; and it is, as soon as a recount has said so."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        await begin(one, 8)
        await asyncio.sleep(5)
        how, how_zone = (SPOILS[sim.choices.choose(label, len(SPOILS))] for label in ("how", "how in the zone"))
        await spoil(stores[2], how, how_zone)
        begun = await stores[2].revision()
        etcd.faults = faults or Faults()

        async def write(client: Client, which: int) -> None:
            for number in range(6):
                name = f"w{which}-{number}"
                await client.ask("POST", PODS, needing(name))
                await client.ask("POST", f"{PODS}/{name}/binding", to(f"n{which % 2}"))
                old = f"{PODS}/p-{2 * number + 1}" if not which else f"{PODS}/{name}"
                match sim.choices.choose(f"{name} ends", 3):
                    case 0:
                        await client.ask("PATCH", f"{old}/status", {"status": {"phase": "Succeeded"}}, _PATCH)
                    case 1:
                        await client.ask("DELETE", old, {"gracePeriodSeconds": 0})
                    case _:
                        pass

        async def recount(client: Client, which: str) -> int:
            """From which revision on all must be right."""
            await asyncio.sleep(0.01 * sim.choices.choose(f"when {which} counts", 8))
            while True:
                answer: Any = await client.ask("POST", RECOUNT, {})
                if answer.status == 200 and answer.body["isRight"]:
                    return await stores[2].revision()
                await asyncio.sleep(0.1)

        writers = [write(client, n) for n, client in enumerate((one, two, one, two))]
        counting = asyncio.gather(recount(one, "one"), recount(two, "two"))
        await asyncio.gather(*writers, counting)
        etcd.faults = Faults()
        await asyncio.sleep(60)
        await _require_lasting(stores[2], begun, min(counting.result()))
        for path in (f"{QUOTAS}/team", f"{QUOTAS}/other"):
            quota = await one.get(path)
            known = tally_in(await stores[2].get(TALLY)).quotas[quota["metadata"]["name"]]
            if quota["status"] != {"hard": known.hard, "used": known.used}:
                raise Broken(f"the status of {path} says {quota['status']}, and not {known}")


async def _require_lasting(store: Store, begun: int, right_from: int) -> None:
    latest, before = await store.revision(), await wrongs(store, begun)
    with store.watch("", after=begun) as watch:
        async for batch in watch:
            for revision in sorted({change.revision for change in batch.changes}):
                now = await wrongs(store, revision)
                worse = now - before
                if worse or (now and revision > right_from):
                    raise Broken(f"at revision {revision}: {sorted(now)}, and before: {sorted(before)}")
                before = now
            if batch.revision >= latest:
                break
    if before:
        raise Broken(f"in the end: {sorted(before)}")
