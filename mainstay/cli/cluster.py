"""What a cluster on one machine consists of: its settings, its directory, its processes.

    DATA_DIR/
      kubeconfig               of the administrator
      cluster.json             the settings of the last `up`
      ca.crt, store/, …        of the server (guides/server.md)
      scheduler/               of the scheduler: credentials.yaml, its records of decisions; controllers/ and
                               controllers-2/ likewise
      nodes/NAME/              of a node: credentials.yaml, the files of its pods
      run/NAME.json            the process of each component (supervisor/records.py)
      logs/NAME.log            the output of each process

Starts nothing. `mainstay up`, `down` and `status` share it, so that they agree on the layout.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from mainstay.env import Chance, Disk
from mainstay.supervisor.decide import ProcessSpec

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
"""The lease duration of the controllers. Short, because no network loses heartbeats on one machine."""

_FILE: Final = "cluster.json"
_UNFINISHED: Final = "cluster.unfinished"
# -P: do not import modules from the working directory.
_PROGRAM: Final = (sys.executable, "-P", "-m", "mainstay.cli.main")


class ClusterCannotStart(Exception):
    """The cluster cannot start. The message says what to do."""


class StopOrder(IntEnum):
    """The order of stopping. The workloads stop between the nodes and the server."""

    DECIDING = 0
    NODES = 1
    SERVER = 2


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The settings of `up`. Omitted options keep their previous values."""

    host: str = "127.0.0.1"
    port: int = PORT
    nodes: int = NODES
    zones: int = ZONES
    runner: str = "process"
    capacity: str = ""
    lease_duration_s: float = 0
    """0: the default of the agent."""
    has_scheduler: bool = True
    has_controllers: bool = True
    controllers_count: int = 1
    """Processes that run the controllers. One leads, the others stand by."""
    has_journal: bool = True
    network: int = 0
    """Pods have addresses in 127.NETWORK.0.0/16, different for each cluster, so that several fit on one machine."""


def read_settings(disk: Disk) -> ClusterSettings | None:
    """Read the settings of the last `up`; None if there are none, or damaged ones. Blocks."""
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


def choose_network(chance: Chance) -> int:
    """Choose the network for the pods of a new cluster. Many machines use 127.0.0.0/16 and a few more."""
    return chance.stream("pod network").randrange(64, 255)


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """The settings on the command line."""

    given: Mapping[str, Any]

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> "GivenSettings":
        names = {each: f"has_{each}" for each in ("scheduler", "controllers", "journal")}
        given = {names.get(name, name): value for name, value in options.items() if value is not None}
        if (length := given.pop("lease_duration", None)) is not None:
            given["lease_duration_s"] = length.total_seconds()
        return cls(given)

    def apply_to(self, before: ClusterSettings) -> ClusterSettings:
        given = dict(self.given)
        if given.get("port") == 0 and before.port and before.network:
            # A free port is the previous one, too, and then clients keep their address.
            del given["port"]
        return msgspec.structs.replace(before, **given)


def merge_settings(disk: Disk, given: GivenSettings) -> ClusterSettings:
    """Merge the settings on the command line into those of the last `up`. Blocks."""
    before = read_settings(disk) or ClusterSettings(port=0 if given.given.get("port") == 0 else PORT)
    settings = given.apply_to(before)
    if not settings.network:
        settings = msgspec.structs.replace(settings, network=choose_network(Chance.fresh()))
    return settings


@dataclass(frozen=True, slots=True)
class LocalNode:
    name: str
    zone: str
    subnet: str


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """One cluster. `data_dir` is absolute."""

    data_dir: Path
    settings: ClusterSettings

    @property
    def url(self) -> str:
        """The address of the server for clients on this machine, as in the kubeconfig."""
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

    def component_directory(self, component: str) -> Path:
        """The directory of a scheduler, of controllers or of a node."""
        decides = component in self.deciders()
        return self.data_dir / component if decides else self.data_dir / "nodes" / component

    def nodes(self) -> list[LocalNode]:
        """The nodes in order: one in each zone, then the next in each."""
        made = []
        for index in range(self.settings.nodes):
            letter = chr(ord("a") + index % self.settings.zones)
            name = f"node-{letter}{index // self.settings.zones + 1}"
            made.append(LocalNode(name, f"zone-{letter}", f"127.{self.settings.network}.{index}.0/24"))
        return made

    def components(self) -> list[ProcessSpec]:
        """All processes, in the order of starting."""
        made = [ProcessSpec(SERVER, self._server(), StopOrder.SERVER)]
        made += [ProcessSpec(node.name, self._agent(node), StopOrder.NODES) for node in self.nodes()]
        # Without leader election: there is one scheduler, and the server rejects binds that would overcommit a node.
        # So a killed scheduler is back at once, without waiting for its lease to expire.
        if self.settings.has_scheduler:
            made.append(ProcessSpec(SCHEDULER, self._deciding(SCHEDULER, SCHEDULER, "--share"), StopOrder.DECIDING))
        for name in self._controllers():
            duration = f"{TAKEN_OVER_AFTER.total_seconds():g}s"
            argv = self._deciding(CONTROLLERS, name, "--lease-duration", duration)
            made.append(ProcessSpec(name, argv, StopOrder.DECIDING))
        return made

    def deciders(self) -> list[str]:
        """The components that decide: neither the server nor an agent."""
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
        directory = self.component_directory(name)
        options = [*more, "--instance", name, "--data-dir", str(directory)]
        if not self.settings.has_journal:
            options.append("--no-journal")
        return (*_PROGRAM, command, *options, "--kubeconfig", str(directory / "credentials.yaml"), "-v")

    def _agent(self, node: LocalNode) -> tuple[str, ...]:
        directory = self.component_directory(node.name)
        options = ["--name", node.name, "--kubeconfig", str(directory / "credentials.yaml")]
        options += ["--data-dir", str(directory), "--zone", node.zone, "--pod-cidr", node.subnet]
        options += ["--address", "127.0.0.1", "--listen", "127.0.0.1:0", "--runner", self.settings.runner]
        if not self.settings.has_journal:
            options.append("--no-journal")
        if self.settings.capacity:
            options += ["--capacity", self.settings.capacity]
        if self.settings.lease_duration_s:
            options += lease_options(timedelta(seconds=self.settings.lease_duration_s))
        return (*_PROGRAM, "agent", *options, "-v")


def lease_options(duration: timedelta) -> list[str]:
    """The agent's options for a lease duration: four renewals in it, and a quarter of it for stopping."""
    quarter = f"{duration.total_seconds() / 4:g}s"
    return ["--lease-duration", f"{duration.total_seconds():g}s", "--renew-every", quarter, "--stopping", quarter]


def up_command(data_dir: Path) -> tuple[str, ...]:
    """The command line that runs a cluster in the foreground."""
    return (*_PROGRAM, "up", "--data-dir", str(data_dir))
