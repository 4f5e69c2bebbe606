"""`mainstay agent`: what runs the pods of one node.

Puts together what is elsewhere: the agent (agent/agent.py), the runner that starts containers (agent/runners), and what
is answered to API servers (agent/serve/server.py). With `--runner pretend` nothing is really run, and one process can
be thousands of nodes.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import click

from mainstay.agent.agent import Agent
from mainstay.agent.runner import CannotRun
from mainstay.agent.serve.server import AgentServing
from mainstay.agent.settings import LEASE, PODS_MAX, AgentSettings, Taint
from mainstay.cli.address import Address
from mainstay.cli.component_process import shipping
from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.node_options import Capacity, Labels, NodeName, Subnet, Taints
from mainstay.cli.readiness import wait_for_server
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, signals, tasks
from mainstay.env.build import build
from mainstay.env.disk import DiskFull
from mainstay.http.certificates import BadCertificate, ServingCertificate, ensure_self_signed
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.program import config_of
from mainstay.loop.record import Recorder

Work = Callable[[], Awaitable[None]]


@click.command()
@click.option(
    "--name",
    type=NodeName(),
    metavar="NAME",
    help="Of the node; with --count the beginning of the names.  [default: the machine's]",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="How to reach the API server. If absent: $KUBECONFIG, else ~/.kube/config.",
)
@click.option(
    "--runner",
    type=click.Choice(["process", "pretend"]),
    default="process",
    show_default=True,
    help="Start real processes, or only say so.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 100_000),
    metavar="K",
    help="Be so many nodes, named NAME-0, NAME-1, … Only with --runner pretend.",
)
@click.option("--labels", type=Labels(), default="", metavar="A=B,…", help="That the node gets.")
@click.option("--taints", type=Taints(), default="", metavar="K=V:EFFECT,…", help="That a new node gets.")
@click.option(
    "--capacity",
    type=Capacity(),
    default="",
    metavar="cpu=4,memory=8Gi,…",
    help="What the node has.  [default: what the machine has]",
)
@click.option("--pods-max", type=click.IntRange(1), default=PODS_MAX, show_default=True, metavar="N", help="At a time.")
@click.option("--zone", default="", metavar="ZONE", help="Where it is: topology.kubernetes.io/zone.")
@click.option("--region", default="", metavar="REGION", help="Where that is: topology.kubernetes.io/region.")
@click.option(
    "--pod-subnet",
    type=Subnet(),
    default="127.64.0.0/24",
    show_default=True,
    metavar="NETWORK",
    help="Where pods have their addresses. Give each node its own.",
)
@click.option(
    "--address", default="127.0.0.1", show_default=True, metavar="HOST", help="Where API servers find this agent."
)
@click.option(
    "--listen",
    type=Address(),
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to serve logs and commands. Port 0 takes any free one.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIR",
    help="Where pods and their logs are kept.  [default: ~/.local/state/mainstay/agent.NAME]",
)
@click.option(
    "--lease-duration",
    type=Duration(),
    default=LEASE.duration,
    metavar="TIME",
    help="After how long of silence others may take this node for lost. Pods that ask for at-most-one have ended by"
    " then.  [default: 40s]",
)
@click.option(
    "--renew-every",
    type=Duration(),
    default=LEASE.renew_every,
    metavar="TIME",
    help="How often to say that it is alive.  [default: 10s]",
)
@click.option(
    "--stopping",
    type=Duration(),
    default=LEASE.stopping,
    metavar="TIME",
    help="How long at-most-one pods get to end before the lease does.  [default: 10s]",
)
@click.option("--start-delay", type=Duration(), default="1s", metavar="TIME", help="Pretend: until a container runs.")
@click.option("--stop-delay", type=Duration(), default="500ms", metavar="TIME", help="Pretend: until one has ended.")
@click.option(
    "--failure-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="RATE",
    help="Pretend: the share of containers that fail at once.",
)
@click.option(
    "--journal/--no-journal",
    default=True,
    show_default=True,
    help="Record what is decided about pods in the server's journal.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of standard error."
)
@click.option("-v", "--verbose", count=True, help="Say more. Twice: even more.")
def agent(
    name: str | None,
    kubeconfig: str,
    runner: str,
    count: int | None,
    lease_duration: timedelta,
    renew_every: timedelta,
    stopping: timedelta,
    data_dir: Path | None,
    log_format: str,
    verbose: int,
    **rest: Any,
) -> None:
    """Run the pods of a node.

    \b
        mainstay agent --name node-1 --kubeconfig credentials.yaml
        mainstay agent --name fleet --runner pretend --count 1000

    Containers are processes of this machine, and live on when the agent ends or is killed: the next one takes them
    over. What they are is said by `command` in the pod; there are no images.

    An agent that cannot reach its server ends the pods that asked for at-most-one (the annotation
    mainstay.dev/at-most-one) before its lease is over, so that nobody starts them elsewhere while they still run here.
    The three times of the lease say when that is.
    """
    set_up_logs(log_format, verbose)
    machine.keep_files_private()
    if count is not None and runner != "pretend":
        raise click.UsageError("--count is only for --runner pretend: a real machine is one node.")
    try:
        lease = LeaseTimes(duration=lease_duration, renew_every=renew_every, stopping=stopping)
    except ValueError as error:
        raise click.UsageError(f"--lease-duration, --renew-every and --stopping do not go together: {error}") from None
    node = _Node(name=name or machine.hostname().lower(), runner=runner, count=count, lease=lease, **rest)
    directory = data_dir or machine.state_dir(os.environ) / f"agent.{node.name}"
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
        tasks.run(_run(config_of(kubeconfig), env, directory, node))
    except (BadConfig, BadCertificate, CannotRun, DiskFull) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'the network'}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """What was said on the command line."""

    name: str
    runner: str
    count: int | None
    lease: LeaseTimes
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Mapping[str, str]
    pods_max: int
    zone: str
    region: str
    pod_subnet: IPv4Network
    address: str
    listen: tuple[str, int]
    start_delay: timedelta
    stop_delay: timedelta
    failure_rate: float
    journal: bool


async def _run(config: Config, env: Env, directory: Path, node: _Node) -> None:
    asked = signals.StopSignals()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(asked.close)
        client = await stack.enter_async_context(Client(config, env, user_agent="mainstay-agent"))
        recorder = None
        if node.journal:
            recorder = (await stack.enter_async_context(shipping(client, env, f"agent.{node.name}"))).record
        if node.runner == "pretend":
            work = _pretending(client, env, node, recorder)
        else:
            work = await stack.enter_async_context(_running(client, env, directory, node, recorder))
        click.echo(f"mainstay agent {node.name} asks {', '.join(config.servers)}")
        machine.settle()
        running = tasks.spawn(_work_once_served(config, work), name="agent")
        waiting = tasks.spawn(asked.first(), name="wait for a signal")
        try:
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            await tasks.stop(running)
            await tasks.stop(waiting)


async def _work_once_served(config: Config, work: Work) -> None:
    await wait_for_server(config)
    await work()


@contextlib.asynccontextmanager
async def _running(
    client: Client, env: Env, directory: Path, node: _Node, recorder: Recorder | None
) -> AsyncIterator[Work]:
    """An agent whose pods are real processes."""
    # Only here: whoever pretends does without.
    from mainstay.agent.runners.process import cgroups
    from mainstay.agent.runners.process.runner import ProcessRunner

    worker = tasks.Worker("start")
    try:
        certificate = await _certificate(worker, client.config, env, directory, node)
        limits = await worker.run(cgroups.find, directory)
    finally:
        worker.close()
    authorities = client.config.tls.authorities
    serving = await AgentServing.start(env, *node.listen, certificate=certificate, authorities=authorities)
    try:
        runner = ProcessRunner(directory)
        server = client.config.addresses[0]
        settings = AgentSettings(
            name=node.name,
            labels=node.labels,
            taints=node.taints,
            capacity=node.capacity,
            zone=node.zone,
            region=node.region,
            pod_subnet=node.pod_subnet,
            host_address=node.address,
            serving_port=serving.port,
            certificate_digest="" if certificate is None else certificate.digest.removeprefix("sha256:"),
            service_host=server.host,
            service_port=server.port,
            lease=node.lease,
            pods_max=node.pods_max,
            build=build(),
            limits_note=limits.note,
        )
        agent = Agent(client, env, runner, settings, machine.SystemMachine(str(directory)), recorder=recorder)
        serving.serve(node.name, agent, runner)
        yield agent.run
    finally:
        await serving.stop()


async def _certificate(
    worker: tasks.Worker, config: Config, env: Env, directory: Path, node: _Node
) -> ServingCertificate | None:
    """What the agent shows to API servers. None where the server itself does without."""
    if not config.addresses[0].is_tls:
        return None
    user = f"system:node:{node.name}"
    return await worker.run(ensure_self_signed, env.disk, directory, env.clock, user, [node.address])


def _pretending(client: Client, env: Env, node: _Node, recorder: Recorder | None) -> Work:
    """One node, or thousands, that start nothing."""
    from mainstay.agent.fleet import SUBNET_ADDRESSES, PretendSettings, run_pretend_nodes
    from mainstay.agent.runners.pretend import Delays

    names = [node.name] if node.count is None else [f"{node.name}-{number}" for number in range(node.count)]
    settings = PretendSettings(
        labels=node.labels,
        taints=node.taints,
        zones=(node.zone,) if node.zone else (),
        delays=Delays(node.start_delay, node.stop_delay),
        failure_rate=node.failure_rate,
        pods_max=node.pods_max,
        lease=node.lease,
    )
    if node.capacity:
        settings = replace(settings, capacity=node.capacity)
    # Several processes that pretend have different subnets if they were told different ones.
    number = int(node.pod_subnet.network_address) // SUBNET_ADDRESSES
    return lambda: run_pretend_nodes(names, client, env, settings, first_subnet=number, recorder=recorder)
