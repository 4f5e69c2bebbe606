"""`mainstay status`: show what runs of the cluster on this machine, and what is ready."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import click
import msgspec

from mainstay.api.holds import ParsedHold
from mainstay.api.times import format_time, human_duration
from mainstay.cli import cluster as shape
from mainstay.cli.cluster import LocalCluster
from mainstay.cli.data_dir import data_dir_option
from mainstay.cli.exits import Exit
from mainstay.cli.hold_target import list_holds, render_holds
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.readiness import NodeState, connect, find_ready, read_nodes
from mainstay.env import Chance, Env, SystemClock, SystemDisk, commands, disk, health_socket, tasks
from mainstay.env.check_result import CheckResult
from mainstay.env.health import WARNING_PREFIX
from mainstay.env.health_socket import HealthQuestion
from mainstay.supervisor import records
from mainstay.supervisor.records import ProcessRecord

ANSWER_WITHIN: Final = timedelta(seconds=5)
STARTING_FOR: Final = timedelta(seconds=30)
"""Until a process is this old, a check that fails may be one that has not passed yet."""


@dataclass(frozen=True, slots=True)
class _State:
    """Everything that `status` prints."""

    cluster: LocalCluster
    supervisor: ProcessRecord | None
    records: Mapping[str, ProcessRecord]
    running: Mapping[str, ProcessRecord]
    nodes: Mapping[str, NodeState] | None
    """None: the server did not answer."""
    now: datetime
    holds: tuple[ParsedHold, ...] = ()
    """The active ones."""
    failing: Mapping[str, Sequence[CheckResult] | None] = field(default_factory=dict)
    """The checks that fail of each running component. None: it cannot be asked."""

    @property
    def wanted(self) -> list[str]:
        return [component.name for component in self.cluster.components()]

    @property
    def node_names(self) -> list[str]:
        return [node.name for node in self.cluster.nodes()]

    @property
    def ready(self) -> list[str]:
        """The ready nodes."""
        since = {name: record.since for name, record in self.running.items()}
        return find_ready(self.node_names, self.nodes or {}, since)

    def find_failing(self, name: str) -> Sequence[CheckResult]:
        """The checks of a component that fail. Warnings are none."""
        return [each for each in self.failing.get(name) or () if not each.name.startswith(WARNING_PREFIX)]

    def find_warnings(self, name: str) -> Sequence[CheckResult]:
        return [each for each in self.failing.get(name) or () if each.name.startswith(WARNING_PREFIX)]

    @property
    def code(self) -> Exit:
        is_complete = {*self.wanted} <= {*self.running}
        # A supervisor restarts what is missing. Without one, only a complete cluster can become ready.
        if not is_complete and self.supervisor is None:
            return Exit.BLOCKED
        unhealthy = [name for name in self.failing if self.find_failing(name)]
        if any(self.now - self.running[name].since >= STARTING_FOR for name in unhealthy):
            return Exit.ERROR
        is_ready = is_complete and not unhealthy and len(self.ready) == len(self.node_names)
        return Exit.SATISFIED if is_ready else Exit.WAITING


@click.command()
@data_dir_option("Data directory")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format"
)
def status(data_dir: Path, output: str) -> int:
    """Show what runs and what is ready.

    \b
        mainstay status
        mainstay status -o json

    \b
    Exit codes: 0 everything runs and is ready, 1 error, or a health check fails, 2 something does not run and no
    supervisor restarts it (run `mainstay up`), 3 starting
    """
    set_up_logs("text", 0)
    try:
        settings = shape.read_settings(SystemDisk(data_dir)) if disk.is_directory(data_dir / "run") else None
        if settings is None:
            raise click.ClickException(f"no cluster in {data_dir}: start one with `mainstay up`, or use --data-dir")
        state = tasks.run(_read_state(LocalCluster(data_dir, settings)))
    except PermissionError as error:
        raise click.ClickException(
            f"no permission to read {error.filename or data_dir}: run as the user of `mainstay up`"
        ) from error
    click.echo(_render_json(state) if output == "json" else _render_text(state))
    return state.code


async def _read_state(cluster: LocalCluster) -> _State:
    runs = SystemDisk(cluster.run)
    clock = SystemClock()
    env = Env(clock, Chance.fresh(), SystemDisk(cluster.data_dir))
    supervisor = records.read(runs, records.SUPERVISOR)
    if supervisor is not None and not commands.is_alive(supervisor.identity):
        supervisor = None
    known = records.read_all(runs)
    running = {name: record for name, record in known.items() if commands.is_alive(record.identity)}
    async with connect(cluster.kubeconfig, cluster.url, env) as client:
        nodes = None if client is None else await read_nodes(client)
        holds = () if client is None else await list_holds(client, clock.wall())
    return _State(cluster, supervisor, known, running, nodes, clock.wall(), holds, await _ask_all(cluster.run, running))


async def _ask_all(run: Path, names: Iterable[str]) -> Mapping[str, Sequence[CheckResult] | None]:
    """Ask all components at once which checks fail."""
    asking = {
        name: tasks.spawn(
            health_socket.ask(health_socket.build_path(run, name), HealthQuestion.READY, ANSWER_WITHIN),
            name="ask health",
        )
        for name in names
    }
    return {name: await task for name, task in asking.items()}


def _render_json(state: _State) -> str:
    components = []
    for name in [*state.wanted, *(name for name in state.running if name not in state.wanted)]:
        record = state.records.get(name)
        is_running = name in state.running
        components.append(
            {
                "name": name,
                "pid": record.pid if record is not None and is_running else None,
                "running": is_running,
                "restarts": record.restarts if record is not None else 0,
                "since": format_time(record.since) if record is not None and is_running else None,
                "failingChecks": None if state.failing.get(name) is None else _render_checks(state.find_failing(name)),
                "warnings": _render_checks(state.find_warnings(name)),
            }
        )
    ready = state.ready
    shown = {
        "supervisor": {"pid": state.supervisor.pid if state.supervisor is not None else None},
        "components": components,
        "holds": [
            {
                "name": held.name,
                "what": str(held.what),
                "target": held.target_text,
                "owner": held.owner,
                "reason": held.reason,
                "expiresAt": held.until,
            }
            for held in state.holds
        ],
        "nodes": [
            {"name": node.name, "zone": node.zone, "ready": node.name in ready} for node in state.cluster.nodes()
        ],
        "kubeconfig": str(state.cluster.kubeconfig),
        "url": state.cluster.url,
        "dataDir": str(state.cluster.data_dir),
    }
    return msgspec.json.format(msgspec.json.encode(shown)).decode()


def _render_checks(results: Sequence[CheckResult]) -> list[dict[str, str]]:
    return [{"name": each.name.removeprefix(WARNING_PREFIX), "problem": each.problem} for each in results]


def _render_text(state: _State) -> str:
    lines = [f"data       {state.cluster.data_dir}", f"server     {state.cluster.url}"]
    if state.supervisor is not None:
        age = human_duration(state.now - state.supervisor.since)
        lines.append(f"supervisor process {state.supervisor.pid}, for {age}")
    else:
        lines.append("supervisor not running: run `mainstay up` to adopt the processes and restart what is stopped")
    zones = {node.name: node.zone for node in state.cluster.nodes()}
    ready = state.ready
    lines += ["", f"{'NAME':<15}{'STATE':<12}{'PROCESS':<10}{'AGE':<8}{'RESTARTS':<10}ZONE"]
    for name in [*state.wanted, *(name for name in state.running if name not in state.wanted)]:
        record = state.records.get(name)
        pid, age = "-", "-"
        if record is not None and name in state.running:
            pid, age = str(record.pid), human_duration(state.now - record.since)
        restarts = str(record.restarts) if record is not None else "-"
        shown = _describe(state, name, ready)
        lines.append(f"{name:<15}{shown:<12}{pid:<10}{age:<8}{restarts:<10}{zones.get(name, '')}".rstrip())
        if record is not None and name not in state.running and record.retry_at is not None and state.supervisor:
            seconds = max((record.retry_at - state.now).total_seconds(), 0)
            log = state.cluster.logs / f"{name}.log"
            lines.append(f"{'':<15}restarting in {seconds:.0f} s; its log is {log}")
        lines += [f"{'':<15}check {each.name} fails: {each.problem}" for each in state.find_failing(name)]
        for each in state.find_warnings(name):
            lines.append(f"{'':<15}warning {each.name.removeprefix(WARNING_PREFIX)}: {each.problem}")
    lines += [*render_holds(state.holds, state.now), "", f"export KUBECONFIG={state.cluster.kubeconfig}"]
    return "\n".join(lines)


def _describe(state: _State, name: str, ready: list[str]) -> str:
    if name not in state.running:
        return "restarting" if state.supervisor is not None else "stopped"
    if name not in state.node_names:
        return "unhealthy" if state.find_failing(name) else "running"
    if state.nodes is None:
        return "unknown"
    return "Ready" if name in ready else "NotReady"
