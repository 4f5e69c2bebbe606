"""The process of `mainstay agent`: an agent, its runner, and its server for logs and exec.

With `--runner pretend` no container really runs, and one process can be thousands of nodes.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainstay.agent.agent import Agent
from mainstay.agent.runner import CannotRun
from mainstay.agent.serve.server import AgentServing
from mainstay.agent.settings import AgentSettings, TaintSetting
from mainstay.api.system_users import build_node_user
from mainstay.cli.component_process import run_until_signal, shipping
from mainstay.cli.node_join import CannotJoin, CredentialRotation, JoinOptions, NodeCredential, find_credential
from mainstay.cli.node_leave import find_directory, forget_cluster, leave_cluster
from mainstay.cli.readiness import wait_for_server
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, signals, tasks, vital
from mainstay.env.build import build
from mainstay.env.disk import DiskFull
from mainstay.env.disk_checks import add_disk_checks
from mainstay.env.health import Health
from mainstay.http.certificates import BadCertificate, ServingCertificate, ensure_self_signed
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.program import load_config
from mainstay.loop.record import Recorder

if TYPE_CHECKING:
    from mainstay.agent.runners.process.isolation import MachineIsolation
    from mainstay.agent.runners.process.pod_network import RoutedNetwork

Work = Callable[[], Awaitable[None]]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The options of the command line."""

    name: str
    runner: str
    count: int | None
    lease: LeaseTimes
    labels: Mapping[str, str]
    taints: tuple[TaintSetting, ...]
    capacity: Mapping[str, str]
    pods_max: int
    zone: str
    region: str
    pod_cidr: IPv4Network
    address: str
    listen: tuple[str, int] | None
    start_delay: timedelta
    stop_delay: timedelta
    failure_rate: float
    journal: bool


def run_node(kubeconfig: str, data_dir: Path | None, joining: JoinOptions | None, *, name: str, **options: Any) -> None:
    """Run the node until SIGTERM or SIGINT, or until it is removed from its cluster. Raises `click.ClickException` for
    errors that its user can fix."""
    node = AgentOptions(name=name or machine.hostname().lower(), **options)
    directory = find_directory(data_dir, node.name)
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(directory))
        if tasks.run(_start(kubeconfig, env, directory, node, joining)):
            forget_cluster(directory, env)
    except (BadConfig, BadCertificate, CannotJoin, CannotRun, DiskFull) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'network'}: {error.strerror or error}") from error


async def _start(kubeconfig: str, env: Env, directory: Path, node: AgentOptions, joining: JoinOptions | None) -> bool:
    """Returns whether the node has left its cluster."""
    credential = None if kubeconfig else await find_credential(env, node.name, joining)
    config = load_config(kubeconfig) if credential is None else credential.config
    address = node.address or "127.0.0.1"
    if credential is not None and not node.address:
        address = machine.outward_address(config.addresses[0].host)
    node = replace(node, address=address)
    return await _run(config, env, directory, node, credential)


async def _run(
    config: Config, env: Env, directory: Path, node: AgentOptions, credential: NodeCredential | None
) -> bool:
    has_left = False
    asked = signals.StopSignals()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(asked.close)
        health = stack.enter_context(Health(env.clock).active())
        add_disk_checks(health, directory)
        client = await stack.enter_async_context(Client(config, env, user_agent="mainstay-agent"))
        recorder = None
        if node.journal:
            recorder = (await stack.enter_async_context(shipping(client, env, f"agent.{node.name}"))).record
        if credential is not None:
            rotation = vital.spawn(CredentialRotation(client, env, credential).run(), name="credential-rotation")
            stack.push_async_callback(tasks.stop, rotation)
        if node.runner == "pretend":
            work = _pretending(client, env, node, recorder)
        else:
            agent = await stack.enter_async_context(_running(client, env, directory, node, recorder))

            async def work() -> None:
                nonlocal has_left
                await tasks.until_one_ends([agent.run(), agent.is_leaving.wait()], name="agent")
                has_left = await leave_cluster(client, env, directory, node.name)

        click.echo(f"mainstay agent {node.name}: connecting to {', '.join(config.servers)}")
        machine.settle()
        await run_until_signal(_work_once_served(config, work), asked, health)
    return has_left


async def _work_once_served(config: Config, work: Work) -> None:
    await wait_for_server(config)
    await work()


@contextlib.asynccontextmanager
async def _running(
    client: Client, env: Env, directory: Path, node: AgentOptions, recorder: Recorder | None
) -> AsyncIterator[Agent]:
    """An agent whose pods are real processes."""
    from mainstay.agent.runners.process import cgroups
    from mainstay.agent.runners.process.isolation import find_isolation
    from mainstay.agent.runners.process.runner import ProcessRunner

    worker = tasks.Worker("start")
    try:
        certificate = await _certificate(worker, client.config, env, directory, node)
        limits = await worker.run(cgroups.find, directory)
        isolation = await worker.run(find_isolation, directory)
        network = _choose_network(directory, node, client.config, isolation)
        if network is not None:
            await worker.run(network.start)
            isolation = replace(isolation, has_network=True)
    finally:
        worker.close()
    if isolation.missing:
        _logger.warning("pods of this node are not fully isolated from the machine: %s", isolation.summary)
    authorities = client.config.tls.authorities
    host, port = node.listen or (node.address, 0)
    serving = await AgentServing.start(env, host, port, certificate=certificate, authorities=authorities)
    try:
        runner = ProcessRunner(directory, isolation, network)
        server = client.config.addresses[0]
        settings = AgentSettings(
            name=node.name,
            labels=node.labels,
            taints=node.taints,
            capacity=node.capacity,
            zone=node.zone,
            region=node.region,
            pod_cidr=node.pod_cidr,
            has_pod_network=network is not None,
            host_address=node.address,
            serving_port=serving.port,
            certificate_digest="" if certificate is None else certificate.digest.removeprefix("sha256:"),
            service_host=server.host,
            service_port=server.port,
            lease=node.lease,
            pods_max=node.pods_max,
            build=build(),
            container_user=isolation.container_user,
            isolation=isolation.summary,
            limits_note=limits.note,
        )
        agent = Agent(
            client,
            env,
            runner,
            settings,
            machine.SystemMachine(str(directory)),
            recorder=recorder,
            set_routes=None if network is None else network.apply,
        )
        serving.serve(node.name, agent, runner)
        yield agent
    finally:
        await serving.stop()


def _choose_network(
    directory: Path, node: AgentOptions, config: Config, isolation: "MachineIsolation"
) -> "RoutedNetwork | None":
    """None: pods are in the network of the machine. Raises `click.UsageError`, `CannotRun`."""
    from mainstay.agent.runners.process.pod_network import RoutedNetwork

    if node.pod_cidr.is_loopback:
        return None
    what = f"--pod-cidr {node.pod_cidr} gives pods a network of their own"
    if not isolation.has_namespaces:
        raise CannotRun("NoPodNetwork", f"{what}, which this machine cannot ({isolation.why}): leave it out")
    if IPv4Address(node.address).is_loopback if _is_address(node.address) else node.address == "localhost":
        raise click.UsageError(f"{what}: also set --address to this machine's address, at which the others reach it")
    server = config.addresses[0].host
    if server == "localhost" or (_is_address(server) and IPv4Address(server).is_loopback):
        raise click.UsageError(f"{what}, from which {server} is not the API server: use a kubeconfig with its address")
    return RoutedNetwork(directory, node.pod_cidr)


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


async def _certificate(
    worker: tasks.Worker, config: Config, env: Env, directory: Path, node: AgentOptions
) -> ServingCertificate | None:
    """Make the agent's serving certificate. None if its server uses plain HTTP."""
    if not config.addresses[0].is_tls:
        return None
    user = build_node_user(node.name)
    return await worker.run(ensure_self_signed, env.disk, directory, env.clock, user, [node.address])


def _pretending(client: Client, env: Env, node: AgentOptions, recorder: Recorder | None) -> Work:
    """One node, or thousands, that only pretend to run pods."""
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
    # Several pretending processes need different --pod-cidr, so that their nodes have different subnets.
    number = int(node.pod_cidr.network_address) // SUBNET_ADDRESSES
    return lambda: run_pretend_nodes(names, client, env, settings, first_subnet=number, recorder=recorder)
