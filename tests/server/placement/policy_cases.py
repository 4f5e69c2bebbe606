"""Placement policies that are activated at once at two servers, one of them with a limit first: at most one of those
that tie becomes active."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from mainstay.api.policy_scope import is_active, overlap, parse_scope, specificity
from mainstay.env import Chance
from mainstay.sim.simulation import Simulation
from mainstay.store.etcd import EtcdStore
from tests.server.world import Client, a_server
from tests.store.fake_etcd import FakeEtcd, Faults

POLICIES = "/apis/mainstay.dev/v1/placementpolicies"
LIMIT = timedelta(hours=1)
SCOPES: tuple[dict[str, Any], ...] = (
    {"namespaces": ["a"]},
    {"namespaces": ["b"]},
    {"tenant": "a"},
    {"namespaces": ["a", "b"]},
    {"tenant": "b"},
)
CANARY = "p-2"
"""It becomes active with a limit, which then goes."""


class Tied(AssertionError):
    """Two active policies tie for some pod."""


def a_policy(name: str = "p", scope: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"policyVersion": "v1", **({} if scope is None else {"scope": scope}), **spec}
    return {
        "apiVersion": "mainstay.dev/v1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name},
        "spec": given,
    }


async def activate_at_once(sim: Simulation, faults: Faults | None = None) -> int:
    """How many of the policies became active, without a limit. Raises `Tied`."""
    etcd = FakeEtcd(sim.choices)
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(3)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        for number, scope in enumerate(SCOPES):
            await one.create(POLICIES, a_policy(f"p-{number}", scope))
        etcd.faults = faults or Faults()

        async def activate(client: Client, name: str) -> None:
            limits = [{"percent": 50}, None] if name == CANARY else [None]
            for limit in limits:
                for _ in range(5):
                    body = {"spec": {"active": True, "limit": limit}}
                    answer = await client.ask("PATCH", f"{POLICIES}/{name}", body, "application/merge-patch+json")
                    if answer.status in (200, 422):
                        break

        await asyncio.gather(*(activate((one, two)[n % 2], f"p-{n}") for n in range(len(SCOPES))))
        etcd.faults = Faults()
        await asyncio.sleep(60)
        entries = (await stores[2].range("mainstay.dev/placementpolicies/")).entries
        active = [each for each in (msgspec.json.decode(entry.value) for entry in entries) if is_active(each)]
        for number, each in enumerate(active):
            for other in active[:number]:
                _require_order(each, other)
        return sum("limit" not in each["spec"] for each in active)


def _require_order(one: Any, other: Any) -> None:
    scopes = [parse_scope(each) for each in (one, other)]
    if scopes[0] is None or scopes[1] is None:
        return
    if specificity(scopes[0]) == specificity(scopes[1]) and overlap(scopes[0], scopes[1]):
        raise Tied(f"{one['metadata']['name']} and {other['metadata']['name']}")


def run(seed: int, faults: Faults | None = None) -> int:
    """As `activate_at_once`, in a simulation of its own."""
    with Simulation(seed) as sim:
        return sim.run(activate_at_once(sim, faults), LIMIT)
