"""The cluster in which a fault is planted: a whole one, in virtual time, and the hands that plant.

`must…` wait until the trouble is there, and raise `NotPlanted` if it does not come. A fault that has made sure of
nothing counts as not planted.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Final

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.settings import AgentSettings
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NODES, PODS
from mainstay.api.pod_state import find_condition
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import tasks
from mainstay.sim.cluster.cluster import Cluster, NodeOptions
from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.server_proxy import Fate

Node = NodeOptions | PretendSettings | AgentSettings
NAMESPACE: Final = "default"
SCHEDULER: Final = "scheduler-1"
CONTROLLERS: Final = "controllers-1"
WITHIN: Final = timedelta(minutes=2)
_TICK: Final = timedelta(milliseconds=500)
_A_WHILE: Final = timedelta(seconds=5)


class NotPlanted(AssertionError):
    """The trouble is not there: whatever is answered counts for nothing."""


class Bed:
    """One for each fault."""

    def __init__(self, cluster: Cluster, closing: AsyncExitStack) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.client: Client = cluster.client
        self.made_sure = 0
        """How often something was looked at that has to be so."""
        self._closing = closing

    # Doing.

    async def until_all_is_well(self) -> None:
        """The nodes are ready, and everybody has had the time to look at them."""
        wanted = set(self.world.machines)
        while wanted - {name for name, node in (await self._nodes()).items() if is_true(node, "Ready")}:
            await tasks.sleep(_TICK)
        await tasks.sleep(_A_WHILE)

    async def as_user(self, name: str) -> Client:
        """A client of another user, with full access."""
        self.world.know(name)
        return await self._closing.enter_async_context(self.world.client_for(name, self.world.sim.env(name)))

    async def rest(self, seconds: float) -> None:
        await tasks.sleep(timedelta(seconds=seconds))

    def hold_back(self, who: str, kind: str) -> None:
        """Let what a program watches of a kind (`core/pods/`) be late, from now on."""
        held = [
            tap
            for gate in self.world.gates.values()
            for tap in gate.taps.values()
            if tap.who == who and tap.prefix == kind
        ]
        if not held:
            raise NotPlanted(f"{who} does not watch {kind}")
        for tap in held:
            tap.hold()

    def lose(self, fate: Callable[[RequestReceived], Fate | None]) -> None:
        """Let some writes be lost at the door of every server."""
        for gate in self.world.gates.values():
            gate.interference = _Losing(gate.interference, fate)

    def vanish(self, *nodes: str) -> None:
        """Machines lose their power: no heartbeat comes from them."""
        for name in nodes:
            self.world.programs[name].crash(silently=True)

    # Looking.

    async def _nodes(self) -> dict[str, Object]:
        return {node["metadata"]["name"]: node for node in (await self.client.list(NODES)).items}

    async def get(self, kind: KindName, name: str, namespace: str = NAMESPACE) -> Object | None:
        try:
            return await self.client.get(kind, name, namespace)
        except NotFound:
            return None

    async def pods(self, app: str, namespace: str = NAMESPACE) -> list[Object]:
        return (await self.client.list(PODS, namespace, labels=f"app={app}")).items

    async def must(self, what: str, is_so: Callable[[], Awaitable[bool]], within: timedelta = WITHIN) -> None:
        """Wait until it is so."""
        self.made_sure += 1
        steps = int(within / _TICK)
        for _ in range(steps):
            if await is_so():
                return
            await tasks.sleep(_TICK)
        raise NotPlanted(f"not so within {within}: {what}")

    async def must_be_pending(self, name: str, *, is_refused: bool = True) -> None:
        """It has no node; and has been told so, if it is refused."""

        async def pending() -> bool:
            pod = await self.get(PODS, name)
            if pod is None or pod["spec"].get("nodeName"):
                return False
            return condition(pod, "PodScheduled").get("status") == "False" or not is_refused

        await self.must(f"{name} waits for a node", pending)

    async def must_have_ready(self, app: str, count: int) -> list[Object]:
        """Not the trouble itself, but what has to be there before it."""

        async def ready() -> bool:
            return len([pod for pod in await self.pods(app) if is_true(pod, "Ready")]) == count

        await self.must(f"{count} pods of {app} are ready", ready)
        self.made_sure -= 1
        return await self.pods(app)

    async def must_run(self, *names: str) -> None:
        """Likewise, of single pods."""

        async def running() -> bool:
            found = [await self.get(PODS, name) for name in names]
            return all(pod is not None and is_true(pod, "Ready") for pod in found)

        await self.must(f"{', '.join(names)} run", running)
        self.made_sure -= 1

    async def must_be_gone(self, kind: KindName, name: str) -> None:
        async def gone() -> bool:
            return await self.get(kind, name) is None

        await self.must(f"{name} is gone", gone)


class _Losing:
    """Implements `Interference` (sim/cluster/server_proxy.py): all that is not said here is as others have it."""

    def __init__(self, others: Any, fate: Callable[[RequestReceived], Fate | None]) -> None:
        self._others = others
        self._fate = fate

    def choose_fate(self, asked: RequestReceived) -> Fate | None:
        found = self._fate(asked)
        return found if found is not None else self._others.choose_fate(asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others, name)


def condition(obj: Object, name: str) -> Mapping[str, Any]:
    return find_condition(obj, name) or {}


def is_true(obj: Object, name: str) -> bool:
    return condition(obj, name).get("status") == "True"
