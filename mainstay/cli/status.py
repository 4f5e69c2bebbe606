"""`mainstay status`: what of a cluster on this machine runs, and how it is doing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click
import msgspec

from mainstay.api.holds import Held
from mainstay.api.times import format_time, human_duration
from mainstay.cli import cluster as shape
from mainstay.cli.cluster import Cluster
from mainstay.cli.data_dir import data_dir_option
from mainstay.cli.exits import Exit
from mainstay.cli.hold_target import holds_of, holds_text
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.readiness import NodeState, are_up, asking, nodes_of
from mainstay.env import Chance, Env, SystemClock, SystemDisk, commands, disk, tasks
from mainstay.supervisor import records
from mainstay.supervisor.records import Record


@dataclass(frozen=True, slots=True)
class _State:
    """All that is shown."""

    cluster: Cluster
    supervisor: Record | None
    records: Mapping[str, Record]
    running: Mapping[str, Record]
    nodes: Mapping[str, NodeState] | None
    """None: nobody could be asked."""
    now: datetime
    holds: tuple[Held, ...] = ()
    """Those in force."""

    @property
    def wanted(self) -> list[str]:
        return [component.name for component in self.cluster.components()]

    @property
    def node_names(self) -> list[str]:
        return [node.name for node in self.cluster.nodes()]

    @property
    def up(self) -> list[str]:
        """The nodes that are."""
        since = {name: record.since for name, record in self.running.items()}
        return are_up(self.node_names, self.nodes or {}, since)

    @property
    def code(self) -> Exit:
        is_complete = {*self.wanted} <= {*self.running}
        if is_complete and len(self.up) == len(self.node_names):
            return Exit.SATISFIED
        # While somebody looks after it, it becomes well by itself. Without, only what is all there can.
        return Exit.WAITING if is_complete or self.supervisor is not None else Exit.BLOCKED


@click.command()
@data_dir_option("Of the cluster.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="In which form."
)
def status(data_dir: Path, output: str) -> int:
    """Show what of the cluster runs that `mainstay up` has started, and how it is doing.

    \b
    Exit codes: 0 all runs and all nodes are ready; 3 not yet, but it is being seen to; 2 something is missing, and
    nobody sees to it (`mainstay up` does).
    """
    set_up_logs("text", 0)
    settings = shape.read_settings(SystemDisk(data_dir)) if disk.is_directory(data_dir / "run") else None
    if settings is None:
        raise click.ClickException(f"there is no cluster in {data_dir}: `mainstay up` makes one")
    state = tasks.run(_look(Cluster(data_dir, settings)))
    click.echo(_json(state) if output == "json" else _text(state))
    return state.code


async def _look(cluster: Cluster) -> _State:
    runs = SystemDisk(cluster.run)
    clock = SystemClock()
    env = Env(clock, Chance.fresh(), SystemDisk(cluster.data_dir))
    supervisor = records.read(runs, records.SUPERVISOR)
    if supervisor is not None and not commands.is_alive(supervisor.identity):
        supervisor = None
    known = records.read_all(runs)
    running = {name: record for name, record in known.items() if commands.is_alive(record.identity)}
    async with asking(cluster.kubeconfig, cluster.url, env) as client:
        nodes = None if client is None else await nodes_of(client)
        holds = () if client is None else await holds_of(client, clock.wall())
    return _State(cluster, supervisor, known, running, nodes, clock.wall(), holds)


def _json(state: _State) -> str:
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
            }
        )
    up = state.up
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
        "nodes": [{"name": node.name, "zone": node.zone, "ready": node.name in up} for node in state.cluster.nodes()],
        "kubeconfig": str(state.cluster.kubeconfig),
        "url": state.cluster.url,
        "dataDir": str(state.cluster.data_dir),
    }
    return msgspec.json.format(msgspec.json.encode(shown)).decode()


def _text(state: _State) -> str:
    lines = [f"data       {state.cluster.data_dir}", f"server     {state.cluster.url}"]
    if state.supervisor is not None:
        age = human_duration(state.now - state.supervisor.since)
        lines.append(f"supervisor process {state.supervisor.pid}, for {age}")
    else:
        lines.append("supervisor none: what ends is not started again. `mainstay up` takes over what runs")
    zones = {node.name: node.zone for node in state.cluster.nodes()}
    up = state.up
    lines += ["", f"{'NAME':<15}{'STATE':<12}{'PROCESS':<10}{'AGE':<8}{'RESTARTS':<10}ZONE"]
    for name in [*state.wanted, *(name for name in state.running if name not in state.wanted)]:
        record = state.records.get(name)
        pid, age = "-", "-"
        if record is not None and name in state.running:
            pid, age = str(record.pid), human_duration(state.now - record.since)
        restarts = str(record.restarts) if record is not None else "-"
        lines.append(
            f"{name:<15}{_state_of(state, name, up):<12}{pid:<10}{age:<8}{restarts:<10}{zones.get(name, '')}".rstrip()
        )
        if record is not None and name not in state.running and record.retry_at is not None and state.supervisor:
            seconds = max((record.retry_at - state.now).total_seconds(), 0)
            log = state.cluster.logs / f"{name}.log"
            lines.append(f"{'':<15}started again in {seconds:.0f} s; {log} may say why it ended")
    lines += [*holds_text(state.holds, state.now), "", f"export KUBECONFIG={state.cluster.kubeconfig}"]
    return "\n".join(lines)


def _state_of(state: _State, name: str, up: list[str]) -> str:
    if name not in state.running:
        return "restarting" if state.supervisor is not None else "stopped"
    if name not in state.node_names:
        return "running"
    if state.nodes is None:
        return "unknown"
    return "Ready" if name in up else "NotReady"
