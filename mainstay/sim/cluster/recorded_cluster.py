"""An incident goes on in the simulator: a cluster that begins with the last state of a bundle, and as many futures as
there are seeds.

The store begins with the objects of that state, at their revisions, and the clocks with its time. Servers, a scheduler,
all controllers and an agent for each Node are started as after a power cut: caches are empty, leaders have to be
elected, and nothing runs on the nodes until their agents have looked at what is bound there. Then faults happen, drawn
from the seed, all is healed, and the cluster has to come to rest with every promise kept.

What is not in a bundle cannot be continued: what the machines of its nodes really ran (they are pretended, and every
container runs well), the server's books, which are recounted, and values of Secrets.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.agent.fleet import PretendSettings
from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import NAMESPACES, NODES
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.controllers.component import Controllers
from mainstay.env import Env, tasks
from mainstay.journal.bundle import Bundle
from mainstay.journal.record import EntryRecord, moment
from mainstay.loop.component import ComponentSettings
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.cluster.cluster import LEASE, NODE_LEASE
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage
from mainstay.store.interface import Entry
from mainstay.store.log import LogRow

NAME: Final = "continue"
SERVERS: Final = ("server-1", "server-2")
ACCOUNTANT: Final = "accountant"
LASTS: Final = timedelta(minutes=2)
CALM: Final = timedelta(minutes=15)
SILENCE: Final = timedelta(minutes=2)
_TICK: Final = timedelta(milliseconds=100)
_AGAIN: Final = timedelta(seconds=1)
_decode = msgspec.json.Decoder(Object).decode


def make_rows(entries: Sequence[EntryRecord], ends: int) -> list[LogRow]:
    """What a store has written that has come to this. How often each was written before is not known, nor needed."""
    by_revision: dict[int, list[Entry]] = {}
    for each in entries:
        made = Entry(each.key, each.value, created=each.revision, revision=each.revision, version=1)
        by_revision.setdefault(each.revision, []).append(made)
    rows = [LogRow(revision, tuple(by_revision[revision])) for revision in sorted(by_revision)]
    return rows if not rows or rows[-1].revision >= ends else [*rows, LogRow(ends, ())]


def make_continuation(bundle: Bundle, *, lasts: timedelta = LASTS, faults: tuple[str, ...] | None = None) -> Scenario:
    """The scenario of what comes after a bundle. `faults` as in a `Scenario`: None is all of them."""
    entries = bundle.journal.last_state()
    rows, ends_at = make_rows(entries, bundle.head.ends), moment(bundle.head.until)
    nodes = [_decode(each.value) for each in entries if each.key.startswith("core/nodes/")]
    return Scenario(
        NAME,
        f"Continue a recorded cluster from revision {bundle.head.ends}.",
        lambda world: RecordedStage(world, rows, nodes, ends_at),
        checkers=list,
        faults=faults,
        lasts=lasts,
        calm=CALM,
        silence=SILENCE,
    )


class RecordedStage(Stage):
    def __init__(self, world: World, rows: Sequence[LogRow], nodes: Sequence[Object], now: datetime) -> None:
        super().__init__(world)
        world.sim.set_time(now)
        world.begin_with(rows)
        self._nodes = [node["metadata"]["name"] for node in nodes]
        self._schedulers: dict[str, Scheduler] = {}
        self._controllers: dict[str, Controllers] = {}
        self._has_counted = False
        for name in SERVERS:
            world.add_server(name)
        for node in nodes:
            world.add_node(node["metadata"]["name"], _build_settings(node))
        for number in (1, 2):
            world.add_program(
                f"scheduler-{number}", partial(self._schedule, f"scheduler-{number}"), user=identities.SCHEDULER
            )
            world.add_program(
                f"controllers-{number}", partial(self._control, f"controllers-{number}"), user=identities.CONTROLLERS
            )
        world.add_program(ACCOUNTANT, self._count, is_spared=True)

    async def ready(self) -> None:
        while not (
            self._has_counted
            and any(each.is_deciding for each in self._schedulers.values())
            and any(each.term is not None for each in self._controllers.values())
        ):
            await tasks.sleep(_TICK)

    async def check(self) -> None:
        """Say what became of it."""
        pods = [_decode(entry.value) for entry in (await self.world.store.range("core/pods/")).entries]
        phases = Counter(_describe_state(pod) for pod in pods)
        sets = [_decode(entry.value) for entry in (await self.world.store.range("apps/deployments/")).entries]
        wanting = [_describe_shortfall(each) for each in sets]
        short = ", ".join(text for text in wanting if text)
        counted = ", ".join(f"{count} {state}" for state, count in sorted(phases.items())) or "no pods"
        at = self.world.sim.clock.wall()
        complete = f"short of replicas: {short}" if short else "all Deployments complete"
        self.told = f"{at:%Y-%m-%d %H:%M:%S}: {counted}; {complete}"

    # Programs.

    async def _schedule(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            scheduler = self._schedulers[name] = Scheduler(
                client, env, instance=name, settings=SchedulerSettings(lease=LEASE)
            )
            await scheduler.run()

    async def _control(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            component = self._controllers[name] = Controllers(
                client, env, instance=name, settings=ComponentSettings(lease=LEASE)
            )
            await component.run()

    async def _count(self, env: Env) -> None:
        """Let the servers make their books from what is there: a bundle does not have them."""
        async with self.world.client_for(ACCOUNTANT, env) as client:
            spaces = [each["metadata"]["name"] for each in (await client.list(NAMESPACES)).items]
            places = [NODES.path("", name, "recount") for name in self._nodes]
            for path in (*places, *(NAMESPACES.path("", name, "recount") for name in spaces)):
                while not await _is_counted(client, path):
                    await tasks.sleep(_AGAIN)
        self._has_counted = True


async def _is_counted(client: Client, path: str) -> bool:
    try:
        answer = msgspec.json.decode((await client.request("POST", path, body={})).body)
    except ApiError:
        return False
    return bool(answer.get("isRight"))


def _build_settings(node: Object) -> PretendSettings:
    status = node.get("status") or {}
    capacity = {name: str(amount) for name, amount in (status.get("capacity") or {}).items()}
    labels = dict(node["metadata"].get("labels") or {})
    return PretendSettings(capacity=capacity or {"cpu": "4", "memory": "8Gi"}, labels=labels, lease=NODE_LEASE)


def _describe_state(pod: Object) -> str:
    if pod_state.is_over(pod):
        return str((pod.get("status") or {}).get("phase"))
    if not pod_state.get_node_name(pod):
        return "unscheduled"
    return "ready" if pod_state.is_ready(pod) else "not ready"


def _describe_shortfall(deployment: Object) -> str:
    metadata, spec, status = deployment["metadata"], deployment["spec"], deployment.get("status") or {}
    wanted, there = spec.get("replicas", 1), status.get("availableReplicas") or 0
    return "" if there >= wanted else f"{metadata['namespace']}/{metadata['name']} {there}/{wanted}"
