"""Pods are evicted by several users at once while the controller counts what their budget allows. (kubernetes #82149)

An eviction takes from the budget, in the server; the controller recounts from caches that are late. If its count
overwrote what was taken meanwhile, too many pods would go. Pods here are never lost otherwise: an evicted pod is
replaced, and becomes ready a little later. So at no time are there fewer healthy pods than the budget demands.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import DISRUPTION_BUDGETS, PODS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError
from mainstay.controllers.budget.controller import DisruptionBudgets
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

COUNT: Final = 5
LEAST: Final = 3
LABELS: Final = {"app": "web"}
OTHERS: Final = ("drain-1", "drain-2")
_EVERY: Final = timedelta(milliseconds=300)

_decode = msgspec.json.Decoder(Object).decode


class EnoughHealthy:
    """Once there have been enough, there are never fewer."""

    name = "enough healthy"

    def __init__(self) -> None:
        self._healthy: dict[str, RevisionCommitted] = {}
        self._has_been_enough = False

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith("core/pods/"):
            return
        pod = _decode(event.value) if event.value is not None else None
        if pod is not None and pod_state.is_ready(pod) and not pod_state.is_leaving(pod):
            self._healthy[event.key] = event
        else:
            self._healthy.pop(event.key, None)
        if len(self._healthy) >= LEAST:
            self._has_been_enough = True
        elif self._has_been_enough:
            text = f"{len(self._healthy)} pods are healthy, but {LEAST} are required"
            raise Violated(self.name, text, [event, *self._healthy.values()])

    async def at_end(self, world: World) -> None:
        """The stage looks at how it ended."""


class EvictionAndBudget(UserStage):
    turn_every = timedelta(milliseconds=400)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(DisruptionBudgets(), "controller-1", "controller-2")
        self._made = 0
        world.add_program("replacer", self._replace, is_spared=True)
        for name in OTHERS:
            world.add_program(name, partial(self._drain, name), is_spared=True)

    async def prepare(self, client: Client) -> None:
        spec = {"minAvailable": LEAST, "selector": {"matchLabels": LABELS}}
        await client.create(DISRUPTION_BUDGETS, {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec})

    async def turn(self, client: Client) -> None:
        await self._evict_some(client)

    async def check(self) -> None:
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            budget = await client.get(DISRUPTION_BUDGETS, "web", NAMESPACE)
        status = budget["status"]
        numbers = {name: status[name] for name in ("expectedPods", "currentHealthy", "disruptionsAllowed")}
        if numbers != {"expectedPods": COUNT, "currentHealthy": COUNT, "disruptionsAllowed": COUNT - LEAST}:
            raise Violated("eviction and budget", f"all pods exist, but the budget reports {status}")
        if status.get("disruptedPods"):
            raise Violated("eviction and budget", f"no pod is being evicted, but the budget reports {status}")

    async def _evict_some(self, client: Client) -> None:
        """Again and again until it is refused: what the budget has left is asked for at each moment."""
        pods = [pod for pod in (await client.list(PODS, NAMESPACE)).items if pod_state.is_ready(pod)]
        first = self.choose("pod", max(1, len(pods)))
        for pod in [*pods[first:], *pods[:first]]:
            name = pod["metadata"]["name"]
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": name, "namespace": NAMESPACE},
            }
            await client.create(PODS, eviction, NAMESPACE, subresource="eviction")

    async def _drain(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            await self._begun.wait()
            while not self._is_over:
                await tasks.sleep(self.turn_every * (1 + self.choose(f"pause {name}", 5) / 4))
                with suppress(ApiError):
                    await self._evict_some(client)

    async def _replace(self, env: Env) -> None:
        """In place of a ReplicaSet and nodes: there are so many pods, and they become ready."""
        async with self.world.client_for("replacer", env) as client:
            while True:
                with suppress(ApiError):
                    await self._make_what_is_missing(client)
                await tasks.sleep(_EVERY)

    async def _make_what_is_missing(self, client: Client) -> None:
        pods = (await client.list(PODS, NAMESPACE)).items
        for pod in pods:
            if not pod_state.is_ready(pod):
                ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                name = pod["metadata"]["name"]
                await client.patch(PODS, name, NAMESPACE, {"status": ready}, subresource="status")
        for _ in range(COUNT - len(pods)):
            self._made += 1
            with suppress(AlreadyExists):
                await client.create(PODS, a_pod(f"web-{self._made}"))


def a_pod(name: str) -> Object:
    # No grace period: an agent that would end it is not here.
    spec = {"containers": [{"name": "main", "image": "web:1"}], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": LABELS}, "spec": spec}


SCENARIO: Final = Scenario(
    name="eviction-and-budget",
    about="Several clients evict pods while their budget is being recounted: enough pods stay healthy.",
    make=EvictionAndBudget,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), EnoughHealthy()],
    lasts=timedelta(seconds=30),
    silence=SILENCE,
    ids=("13", "W3"),
)
