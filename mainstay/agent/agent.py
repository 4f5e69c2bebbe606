"""The agent of one machine: it is a node of the cluster, and runs the pods that are bound to it.

    async with Client(config, env) as client:
        await Agent(client, env, ProcessRunner(…), AgentSettings(name="node-1")).run()

The node's own life is in agent/node/node.py, that of its pods in agent/node/pods.py and agent/pod/worker.py, and what
to do about a pod is decided in agent/pod/lifecycle.py. Containers are the runner's (runner.py): they live on when the
agent ends, however it ends, and the next incarnation finds them. Many agents may share a process, a client and one
watch on pods: fleet.py.
"""

import asyncio

from mainstay.agent.node.node import NodeAgent
from mainstay.agent.node.peer_routes import PeerRoutes, SetRoutes
from mainstay.agent.node.pods import Pods
from mainstay.agent.pod.status_report import Turns
from mainstay.agent.runner import Runner
from mainstay.agent.settings import AgentSettings
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.client.cache import Cache
from mainstay.client.client import Client
from mainstay.client.entry import Change
from mainstay.client.indexes import NODE
from mainstay.client.informer import Informers
from mainstay.env import Env, tasks
from mainstay.env.machine import Machine, SystemMachine
from mainstay.loop.record import Recorder


class Agent:
    """One node. Implements `Lookup` (agent/serve/server.py)."""

    def __init__(
        self,
        client: Client,
        env: Env,
        runner: Runner,
        settings: AgentSettings,
        machine: Machine | None = None,
        *,
        turns: Turns | None = None,
        recorder: Recorder | None = None,
        set_routes: SetRoutes | None = None,
    ) -> None:
        """`machine`: what the node has, if it is not this machine. One that only pretends has what the settings say.
        `turns`: those of all agents that share the client. `recorder`: where decisions about pods are recorded.
        `set_routes`: how routes to the pods of other machines are set, if pods have a network of their own."""
        self.runner = runner
        self.settings = settings
        self._client = client
        self._env = env
        self._turns = turns or Turns()
        self._recorder = recorder
        has = None if settings.is_pretend else machine or SystemMachine()
        self._node = NodeAgent(client, env, runner, settings, has)
        self._pods: Pods | None = None
        self._routes = None if set_routes is None else PeerRoutes(client, env, set_routes, settings)
        if self._routes is not None:
            self._node.more_conditions = self._routes.conditions

    @property
    def is_registered(self) -> asyncio.Event:
        """Set when the Node is there."""
        return self._node.is_registered

    @property
    def is_leaving(self) -> asyncio.Event:
        """Set when the node is to leave the cluster."""
        return self._node.is_leaving

    async def run(self) -> None:
        """Be the agent, until cancelled. Containers live on."""
        informers = Informers(self._client, self._env)
        pods = informers.get(PODS, fields=f"spec.nodeName={self.settings.name}", indexes=[NODE])
        pods.subscribe(self.changed)
        try:
            await self.run_with(pods.cache)
        finally:
            await informers.stop()

    async def run_with(self, cache: Cache) -> None:
        """The same with a cache that is fed elsewhere. It may have pods of other nodes too, has the index `NODE` before
        all others, and its feeder calls `changed` for each change of a pod of this node."""
        try:
            await self.runner.start()
            works = [self._node.run(), self._run_pods(cache)]
            if self._routes is not None:
                works.append(self._run_routes(self._routes))
            await tasks.together(works, name=f"agent of {self.settings.name}")
        finally:
            await self.runner.stop()

    def changed(self, change: Change) -> None:
        if self._pods is not None:
            self._pods.changed(change)

    def find(self, namespace: str, name: str) -> Object | None:
        """The pod of this name that is bound here, if there is one."""
        return None if self._pods is None else self._pods.find(namespace, name)

    async def _run_routes(self, routes: PeerRoutes) -> None:
        await self._node.is_registered.wait()
        await routes.run()

    async def _run_pods(self, cache: Cache) -> None:
        await self._node.is_registered.wait()
        await cache.wait_until(0)
        self._pods = Pods(
            self._client, self._turns, self._env, self.runner, self._node, self.settings, cache, self._recorder
        )
        await self._pods.run()
