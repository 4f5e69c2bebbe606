"""Schedulers of ours at work, and what a user does with pods and nodes.

Nodes here have no agents of their own: the user says of a node what it has, and of a pod that it has ended. One program
stands in for all agents where pods were removed by force: after a while it says that they do not run any more. In the
end no pod may wait for a node that would take it. Every decision is made a second time, from the caches alone.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS
from mainstay.api.pod_resources import count_requests
from mainstay.api.reservations import is_active
from mainstay.api.well_known_labels import HOSTNAME
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import LEASE, NAMESPACE, UserStage
from mainstay.scheduler.cache.charge import find_reservation
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.scheduler.settings import CycleSettings
from mainstay.server.auth import identities
from mainstay.server.placement.ledger.ledger import ledger_in, ledger_key
from mainstay.server.placement.ledger.room import shortages
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World

RECHECKED: Final = CycleSettings(recheck_one_in=1)
SHARED: Final = SchedulerSettings(lease_name="", cycle=RECHECKED)
LED: Final = SchedulerSettings(lease=LEASE, cycle=RECHECKED)
CALM: Final = timedelta(minutes=15)
"""A pod that was refused often is tried again after minutes."""

AGENTS: Final = "agents"
LOOK_EVERY: Final = timedelta(seconds=5)
"""How long a pod that was removed by force may go on running."""

_TICK: Final = timedelta(milliseconds=100)
_PODS_PREFIX: Final = "core/pods/"
_NODES_PREFIX: Final = "core/nodes/"
_RESERVATIONS_PREFIX: Final = "mainstay.dev/reservations/"
_decode = msgspec.json.Decoder(Object).decode


class SchedulingStage(UserStage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.schedulers: dict[str, Scheduler] = {}
        """By program: that of the present incarnation."""
        self._programs: tuple[str, ...] = ()
        world.add_program(AGENTS, self._end_ghosts, is_spared=True)

    def add_schedulers(self, *programs: str, settings: SchedulerSettings = SHARED) -> None:
        self._programs += programs
        for program in programs:
            self.world.add_program(
                program, partial(self._schedule, program, settings=settings), user=identities.SCHEDULER
            )

    async def ready(self) -> None:
        await super().ready()
        while not any(each.is_deciding for each in self.schedulers.values()):
            await tasks.sleep(_TICK)
        while len(self.schedulers) < len(self._programs):
            await tasks.sleep(_TICK)
        for scheduler in self.schedulers.values():
            await scheduler.informers.synced()

    async def check(self) -> None:
        """No pod waits for a node that has room for it, by the server's own books."""
        self.require_agreement()
        store = self.world.store
        nodes = [_decode(entry.value) for entry in (await store.range(_NODES_PREFIX)).entries]
        for entry in (await store.range(_PODS_PREFIX)).entries:
            pod = _decode(entry.value)
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            reserved = await self._reserved_for(pod)
            for node in nodes:
                name, spec = node["metadata"]["name"], node.get("spec") or {}
                ledger = ledger_in(await store.get(ledger_key(name)))
                wants = {resource: amount for resource, amount in count_requests(pod).items() if amount}
                has_room = name == reserved if reserved else not shortages(ledger, wants)
                if not spec.get("unschedulable") and not spec.get("taints") and has_room:
                    raise Violated("scheduling", f"{entry.key} is unscheduled at the end, but {name} has room for it")

    def require_agreement(self) -> None:
        """What the schedulers know is what their caches say."""
        for name, scheduler in self.schedulers.items():
            if scheduler.counts.disagreements:
                text = (
                    f"{name} has decided {scheduler.counts.disagreements} times from data that differs from its caches"
                )
                raise Violated("scheduling", text)

    async def _reserved_for(self, pod: Object) -> str:
        """The node where room is reserved for a pod, if there is one: it can go nowhere else."""
        name = find_reservation(pod)
        entry = await self.world.store.get(f"{_RESERVATIONS_PREFIX}{NAMESPACE}/{name}") if name else None
        reservation = None if entry is None else _decode(entry.value)
        return str(reservation["spec"]["nodeName"]) if reservation is not None and is_active(reservation) else ""

    def are_agents_silent(self) -> bool:
        """Whether no agent confirms that force-deleted pods have stopped."""
        return False

    async def _schedule(self, program: str, env: Env, settings: SchedulerSettings) -> None:
        async with self.world.client_for(program, env) as client:
            scheduler = self.schedulers[program] = Scheduler(
                client, env, instance=program, settings=settings, recorder=self.world.recorder
            )
            await scheduler.run()

    async def _end_ghosts(self, env: Env) -> None:
        async with self.world.client_for(AGENTS, env) as client:
            while True:
                await tasks.sleep(LOOK_EVERY)
                if self.are_agents_silent():
                    continue
                with suppress(ApiError):  # A server is away, or a node has gone meanwhile. It comes again.
                    for node in (await client.list(NODES)).items:
                        await _end_ghosts_on(client, node["metadata"]["name"])


async def _end_ghosts_on(client: Client, node: str) -> None:
    path = f"/api/v1/nodes/{node}/ghosts"
    found = msgspec.json.decode((await client.request("GET", path)).body)["items"]
    if found:
        await client.request("PUT", path, body={"gone": [each["uid"] for each in found]})


async def add_node(client: Client, name: str, **has: str) -> None:
    """A node that takes pods. In three writes: a new one is not ready, and tainted for it, and its status is apart."""
    await client.create(NODES, {"metadata": {"name": name, "labels": {HOSTNAME: name}}})
    await client.patch(NODES, name, "", {"spec": {"taints": []}})
    await resize_node(client, name, **has)


async def resize_node(client: Client, name: str, **has: str) -> None:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", **has}
    await client.patch(NODES, name, "", {"status": {"allocatable": allocatable}}, subresource="status")


async def cordon(client: Client, name: str, is_cordoned: bool) -> None:
    await client.patch(NODES, name, "", {"spec": {"unschedulable": is_cordoned}})


def a_pod(name: str, annotations: Mapping[str, str] | None = None, **requests: str) -> Object:
    container: dict[str, Any] = {"name": "main", "image": "work:1", "resources": {"requests": requests}}
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": {"containers": [container], "restartPolicy": "Never"}}


async def end_pod(client: Client, name: str) -> None:
    """As an agent does it whose pod has run to its end, and as an owner then removes it."""
    await client.patch(PODS, name, NAMESPACE, {"status": {"phase": "Succeeded"}}, subresource="status")
    await client.delete(PODS, name, NAMESPACE, grace_s=0)
