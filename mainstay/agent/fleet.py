"""Thousands of pretend nodes in one process: the same agents, with one client and one watch on pods for all of them.

    await run_pretend_nodes([f"node-{n}" for n in range(1000)], client, env, PretendSettings())

For scale tests and demos (`mainstay agent --runner pretend --count 1000`). Nothing is run; see runners/pretend.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network
from typing import Final

from mainstay.agent.agent import Agent
from mainstay.agent.pod.status_report import Turns
from mainstay.agent.runners.pretend import Delays, PretendRunner
from mainstay.agent.settings import LEASE, PODS_MAX, AgentSettings, TaintSetting
from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.entry import Change
from mainstay.client.indexes import NODE
from mainstay.client.informer import Informers
from mainstay.env import Env, tasks
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.record import Recorder

SUBNETS: Final = IPv4Network("10.128.0.0/9")
"""Where pods have their addresses: 256 of them for each node."""
SUBNET_ADDRESSES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PretendSettings:
    """What pretend nodes are like."""

    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi"})
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    """The nodes are in them in turn."""
    taints: tuple[TaintSetting, ...] = ()
    delays: Delays = field(default_factory=Delays)
    failure_rate: float = 0.0
    """How many containers fail as soon as they run, of 1."""
    pods_max: int = PODS_MAX
    lease: LeaseTimes = LEASE
    status_every: timedelta = timedelta(minutes=5)


def build_settings(name: str, number: int, given: PretendSettings) -> AgentSettings:
    """Those of the agent of one node. Each has a subnet of its own, by its number."""
    base = SUBNETS.network_address + (number * SUBNET_ADDRESSES) % SUBNETS.num_addresses
    return AgentSettings(
        name=name,
        labels=given.labels,
        taints=given.taints,
        capacity=given.capacity,
        zone=given.zones[number % len(given.zones)] if given.zones else "",
        pod_cidr=IPv4Network((int(base), 24)),
        host_address=str(base),
        lease=given.lease,
        status_every=given.status_every,
        pods_max=given.pods_max,
        is_pretend=True,
    )


async def run_pretend_nodes(
    names: Sequence[str],
    client: Client,
    env: Env,
    settings: PretendSettings,
    *,
    first_subnet: int = 0,
    recorder: Recorder | None = None,
) -> None:
    """Be these nodes until cancelled."""
    agents: dict[str, Agent] = {}
    turns = Turns()
    for number, name in enumerate(names):
        runner = PretendRunner(env, settings.delays, settings.failure_rate, label=name)
        told = build_settings(name, first_subnet + number, settings)
        agents[name] = Agent(client, env, runner, told, turns=turns, recorder=recorder)
    informers = Informers(client, env)
    # One node asks for its own pods only; many ask for all of them once.
    only = f"spec.nodeName={names[0]}" if len(names) == 1 else ""
    pods = informers.get(PODS, fields=only, indexes=[NODE])
    by_name = agents.get

    def changed(change: Change) -> None:
        entry = change.new or change.old
        for name in entry.values[0] if entry is not None else ():
            if (agent := by_name(name)) is not None:
                agent.changed(change)

    pods.subscribe(changed)
    try:
        await tasks.together([agent.run_with(pods.cache) for agent in agents.values()], name="pretend node")
    finally:
        await informers.stop()
