"""What a cluster on one machine consists of: its settings, its directory, its processes.

    DATA_DIR/
      kubeconfig               the administrator's
      cluster.json             what `up` was told the last time
      ca.crt, store/, …        the server's (guides/server.md)
      scheduler/               the scheduler's: credentials.yaml, its records of decisions; controllers/ and
                               controllers-2/ likewise
      nodes/NAME/              a node's: credentials.yaml, what its pods have on the machine
      run/NAME.json            which process is which (supervisor/records.py)
      logs/NAME.log            what each process says

Nothing is started here. `mainstay up`, `down` and `status` all go by this, so they agree on what is where.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from mainstay.env import Chance, Disk, machine
from mainstay.supervisor.decide import Component

PORT: Final = 6443
NODES: Final = 3
NODES_MAX: Final = 250
ZONES: Final = 3
ZONES_MAX: Final = 26
LEASE_MIN: Final = timedelta(seconds=1)
SERVER: Final = "server"
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = "controllers"
CONTROLLERS_MAX: Final = 5
TAKEN_OVER_AFTER: Final = timedelta(seconds=6)
"""How long the lease of the controllers lasts. On one machine nothing is lost on the way, so it may be short."""

_FILE: Final = "cluster.json"
_UNFINISHED: Final = "cluster.unfinished"
# -P: what lies in the directory that `up` was called in is none of our modules.
_PROGRAM: Final = (sys.executable, "-P", "-m", "mainstay.cli.main")


class CannotStart(Exception):
    """The cluster does not run. The message says what to do."""


class Turn(IntEnum):
    """Who ends when. Between nodes and server the workloads do."""

    DECIDING = 0
    NODES = 1
    SERVER = 2


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What `up` was told. What it is not told is what it was the last time."""

    host: str = "127.0.0.1"
    port: int = PORT
    nodes: int = NODES
    zones: int = ZONES
    runner: str = "process"
    capacity: str = ""
    lease_duration_s: float = 0
    """0: the agent's own default."""
    has_scheduler: bool = True
    has_controllers: bool = True
    controllers_count: int = 1
    """How many processes of them. One acts, the others stand by."""
    has_journal: bool = True
    network: int = 0
    """Pods have addresses in 127.NETWORK.0.0/16: another one for each cluster, so that several fit on one machine."""


def read_settings(disk: Disk) -> ClusterSettings | None:
    """What was said the last time, if it can still be read. Blocks."""
    try:
        return msgspec.json.decode(disk.read(_FILE), type=ClusterSettings)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_settings(disk: Disk, settings: ClusterSettings) -> None:
    """Blocks. Raises `DiskFull`."""
    if _UNFINISHED in disk.names():
        disk.remove(_UNFINISHED)
    disk.append(_UNFINISHED, msgspec.json.format(msgspec.json.encode(settings)) + b"\n")
    disk.sync(_UNFINISHED)
    disk.rename(_UNFINISHED, _FILE)


def a_network(chance: Chance) -> int:
    """For the pods of a new cluster. 127.0.0.0/16 and some more are in use on many machines."""
    return chance.stream("pod network").randrange(64, 255)


@dataclass(frozen=True, slots=True)
class Told:
    """What was said on the command line this time."""

    given: Mapping[str, Any]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Told":
        names = {each: f"has_{each}" for each in ("scheduler", "controllers", "journal")}
        given = {names.get(name, name): value for name, value in told.items() if value is not None}
        if (length := given.pop("lease_duration", None)) is not None:
            given["lease_duration_s"] = length.total_seconds()
        return cls(given)

    def applied(self, before: ClusterSettings) -> ClusterSettings:
        given = dict(self.given)
        if given.get("port") == 0 and before.port and before.network:
            # Any port will do: then the one from the last time will, and clients need not be told anew.
            del given["port"]
        return msgspec.structs.replace(before, **given)


def settings_for(disk: Disk, told: Told) -> ClusterSettings:
    """What was said the last time, with what was said now. Blocks."""
    before = read_settings(disk) or ClusterSettings(port=0 if told.given.get("port") == 0 else PORT)
    settings = told.applied(before)
    if not settings.network:
        settings = msgspec.structs.replace(settings, network=a_network(Chance.fresh()))
    return settings


def default_data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    return machine.state_dir(environ) / "cluster"


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    zone: str
    subnet: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster. `data_dir` is absolute."""

    data_dir: Path
    settings: ClusterSettings

    @property
    def url(self) -> str:
        """Where the server is found from here, as it says itself in the kubeconfig."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.settings.host, self.settings.host)
        return f"https://[{host}]:{self.settings.port}" if ":" in host else f"https://{host}:{self.settings.port}"

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def run(self) -> Path:
        return self.data_dir / "run"

    def directory_of(self, component: str) -> Path:
        """Of whoever decides, or of a node."""
        decides = component in self.deciders()
        return self.data_dir / component if decides else self.data_dir / "nodes" / component

    def nodes(self) -> list[Node]:
        """In the order in which they are counted: one in each zone, then the next in each."""
        made = []
        for index in range(self.settings.nodes):
            letter = chr(ord("a") + index % self.settings.zones)
            name = f"node-{letter}{index // self.settings.zones + 1}"
            made.append(Node(name, f"zone-{letter}", f"127.{self.settings.network}.{index}.0/24"))
        return made

    def components(self) -> list[Component]:
        """All processes, in the order in which they are started."""
        made = [Component(SERVER, self._server(), Turn.SERVER)]
        made += [Component(node.name, self._agent(node), Turn.NODES) for node in self.nodes()]
        # Without an election: there is only one scheduler, and the server refuses what two of them would take for the
        # same room. So one that was killed is back at once, and not when its lease is over.
        if self.settings.has_scheduler:
            made.append(Component(SCHEDULER, self._deciding(SCHEDULER, SCHEDULER, "--share"), Turn.DECIDING))
        for name in self._controllers():
            duration = f"{TAKEN_OVER_AFTER.total_seconds():g}s"
            argv = self._deciding(CONTROLLERS, name, "--lease-duration", duration)
            made.append(Component(name, argv, Turn.DECIDING))
        return made

    def deciders(self) -> list[str]:
        """Those of the components that are neither the server nor an agent."""
        return [*([SCHEDULER] if self.settings.has_scheduler else ()), *self._controllers()]

    def _controllers(self) -> list[str]:
        count = self.settings.controllers_count if self.settings.has_controllers else 0
        return [CONTROLLERS if number == 1 else f"{CONTROLLERS}-{number}" for number in range(1, count + 1)]

    def _server(self) -> tuple[str, ...]:
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        options = ["--data-dir", str(self.data_dir), "--listen", f"{host}:{self.settings.port}"]
        if not self.settings.has_journal:
            options.append("--no-journal")
        return (*_PROGRAM, "server", *options, "-v")

    def _deciding(self, command: str, name: str, *more: str) -> tuple[str, ...]:
        directory = self.directory_of(name)
        options = [*more, "--instance", name, "--data-dir", str(directory)]
        if not self.settings.has_journal:
            options.append("--no-journal")
        return (*_PROGRAM, command, *options, "--kubeconfig", str(directory / "credentials.yaml"), "-v")

    def _agent(self, node: Node) -> tuple[str, ...]:
        directory = self.directory_of(node.name)
        options = ["--name", node.name, "--kubeconfig", str(directory / "credentials.yaml")]
        options += ["--data-dir", str(directory), "--zone", node.zone, "--pod-subnet", node.subnet]
        options += ["--address", "127.0.0.1", "--listen", "127.0.0.1:0", "--runner", self.settings.runner]
        if not self.settings.has_journal:
            options.append("--no-journal")
        if self.settings.capacity:
            options += ["--capacity", self.settings.capacity]
        if self.settings.lease_duration_s:
            options += lease_options(timedelta(seconds=self.settings.lease_duration_s))
        return (*_PROGRAM, "agent", *options, "-v")


def lease_options(duration: timedelta) -> list[str]:
    """The agent's options for a lease of this length: renewed four times in it, and given a quarter to stop."""
    quarter = f"{duration.total_seconds() / 4:g}s"
    return ["--lease-duration", f"{duration.total_seconds():g}s", "--renew-every", quarter, "--stopping", quarter]


def up_command(data_dir: Path) -> tuple[str, ...]:
    """What keeps a cluster up that was already told what it is."""
    return (*_PROGRAM, "up", "--data-dir", str(data_dir))
