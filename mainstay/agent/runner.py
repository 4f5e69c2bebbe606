"""What the agent asks of whatever runs containers on its machine.

A runner is the seam between the agent and the machine: `runners/process` starts real processes, `runners/pretend.py`
only says so, and the simulator has one whose containers outlive the agent. The agent decides (agent/pod/lifecycle.py),
the runner does, and keeps what it did where a crash of the agent cannot reach it:

- A container is begun at most once for each `ContainerId`, whatever crashes when. `run` with an id that was begun
  before does nothing.
- Containers live on without the agent. Its next incarnation finds them, and what became of them, in `instances`.
- After a reboot of the machine nothing runs, and the instances of before are `Exited`.
- At-most-one containers end by themselves when the node's lease does (`hold_until`), whether the agent lives or not.

Nothing here speaks to the API server.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from mainstay.api.kind import Object


@dataclass(frozen=True, slots=True, order=True)
class ContainerId:
    """One attempt to run a container of a pod. The attempts of a container are numbered from 0, without gaps."""

    pod_uid: str
    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory (or one file) that the container finds at `path`."""

    source: str
    """The volume: where it is on the machine."""
    path: str
    """Where the container expects it: absolute."""
    is_read_only: bool = False
    sub_path: str = ""
    """The part of the volume that is mounted; empty: all. Whatever links are in the volume, it is never outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """What a container asks for in its `securityContext`, besides users and groups. What is not said is up to the
    runner, and as strict as it can be."""

    is_privileged: bool = False
    is_read_only: bool = False
    """All that it sees but its volumes."""
    capabilities_added: tuple[str, ...] = ()
    """In the words of Kubernetes: `NET_BIND_SERVICE`, `ALL`."""
    capabilities_dropped: tuple[str, ...] = ()
    gains_nothing: bool = False
    """It insists on it: `allowPrivilegeEscalation: false`."""
    seccomp: str = ""
    """`RuntimeDefault` or `Unconfined`."""
    has_host_pids: bool = False
    has_host_ipc: bool = False
    has_host_network: bool = False
    has_own_users: bool = False
    """It insists on a user namespace: `hostUsers: false`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container to be run, with everything resolved: no references to other objects are left."""

    id: ContainerId
    namespace: str
    pod_name: str
    image: str
    command: tuple[str, ...]
    """Never empty: a container without a command is rejected before."""
    env: tuple[tuple[str, str], ...]
    working_dir: str = ""
    """Empty: a directory of the container's own."""
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    security: SecurityOptions = SecurityOptions()
    mounts: tuple[Mount, ...] = ()
    cpu_millis_wanted: int = 0
    cpu_millis_max: int | None = None
    memory_bytes_max: int | None = None
    address: str = ""
    """Of the pod."""
    has_stdin: bool = False
    has_terminal: bool = False
    message_path: str = "/dev/termination-log"
    is_message_from_log: bool = False
    """If it leaves no message and fails, the end of its log is the message."""
    is_at_most_one: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    started_at: datetime
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    code: int
    """128 + the signal, if it was one."""
    signal: int = 0
    reason: str = ""
    """`Completed`, `Error`, `OOMKilled`, `Fenced`, `StartError` (with code 128), `ContainerStatusUnknown` (with code
    137: its end was not observed)."""
    message: str = ""
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class Starting:
    """It was begun, and is not there yet."""


State = Starting | Running | Exited


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    cpu_nanocores: int
    """How many billionths of a core it used, over the window."""
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What is used, as of a moment, over a window that ended then."""

    at: datetime
    window: timedelta
    node: ContainerUsage
    containers: Mapping[ContainerId, ContainerUsage]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    is_previous: bool = False
    """Of the attempt before the latest."""
    follow: bool = False
    """Go on with what is written from now on, until the container has ended (then end), or the reader stops."""
    tail_lines: int | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    time: str
    """RFC 3339, with nanoseconds: `2026-11-16T02:40:00.123456789Z`."""
    stream: str
    """`stdout` or `stderr`."""
    text: bytes
    """With its newline; without, if it was too long for one line or the container wrote none."""


class NoSuchContainer(Exception):
    """There is no such attempt, or no log of it."""


class CannotRun(Exception):
    """The machine does not let us, for now or for good. `reason` is what the container waits with."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CannotPull(Exception):
    """The image cannot be had, for now or for good. `reason` is what the container waits with."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


Pull = Callable[[], Awaitable[None]]


class Session(Protocol):
    """A command that runs beside a container, with its streams."""

    async def read(self) -> tuple[int, bytes] | None:
        """What it wrote: 1 for standard output, 2 for standard error. None when there is no more."""

    async def write(self, data: bytes) -> None:
        """Into its standard input. After it has ended, into the void."""

    async def close_input(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def wait(self) -> int:
        """Its exit code."""

    async def kill(self) -> None:
        """End it, with all its children, and wait for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """What a pod has on the machine before its containers start."""

    directory: str
    volumes: Mapping[str, str] = field(default_factory=dict)
    """By the volume's name: where it is."""


@dataclass(frozen=True, slots=True)
class VolumeFile:
    path: str
    """Relative, inside its volume."""
    data: bytes = field(repr=False)
    mode: int = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlan:
    """One volume of a pod, with its content if it is of the kind that has some."""

    name: str
    host_path: str = ""
    """If it is a directory of the machine itself: this one."""
    host_path_type: str = ""
    """As in the API: empty, `DirectoryOrCreate`, `Directory`, `File`, …"""
    is_in_memory: bool = False
    files: tuple[VolumeFile, ...] | None = None
    """None: a directory that the containers write to (`emptyDir`)."""
    group: int | None = None
    """If not None, the directory and its files belong to this group (`fsGroup`), which may also write to an `emptyDir`;
    what is made in it belongs to it too."""


class Runner(Protocol):
    async def start(self) -> None:
        """Find what earlier incarnations left. Everything else comes after."""

    async def stop(self) -> None:
        """The agent ends. Containers live on."""

    def subscribe(self, changed: Callable[[str], None]) -> None:
        """Be told the uid of a pod whenever one of its instances has changed."""

    def pods(self) -> Sequence[str]:
        """The uids of all pods of which anything is there, sorted. Those that are not bound here any more have to be
        ended and forgotten."""

    def instances(self, pod_uid: str) -> Mapping[ContainerId, State]:
        """All attempts that are known, in order."""

    def recover(self, pod: Object) -> None:
        """The agent sees a pod for the first time in its life. For runners that remember nothing themselves: what its
        status says was so."""

    async def place(self, pod_uid: str, namespace: str, name: str, volumes: Sequence[VolumePlan]) -> PodPlace:
        """Make, or bring up to date, the directories of a pod. Changed files of a volume are replaced all at once, as
        seen by the containers. Raises `CannotRun`."""

    def pull(self, image: str, policy: str) -> Pull | None:
        """What brings the image of a container onto the machine, by its `imagePullPolicy`. None: there is nothing to
        pull. Raises `CannotPull`, and so does what it returns, when it is called and awaited."""

    async def run(self, spec: ContainerSpec) -> None:
        """Begin a container, once. Returns when that is durable; what becomes of it is in `instances`. Raises
        `CannotRun`, then it was not begun."""

    async def end(self, container: ContainerId, grace: timedelta, *, with_signal: str = "SIGTERM") -> None:
        """Ask a container to end, and kill it with all that it started if it has not after the grace. Returns at once;
        asked again with a shorter grace, the shorter one counts. Nothing if it has ended."""

    async def forget(self, pod_uid: str) -> None:
        """Remove all that is left of a pod of which nothing runs, logs and volumes included."""

    async def prune(self, pod_uid: str, name: str, keep: int) -> None:
        """Forget the oldest ended attempts of a container, but for the last `keep`."""

    def log(self, pod_uid: str, name: str, query: LogQuery) -> AsyncIterator[LogLine]:
        """What a container wrote. Raises `NoSuchContainer` at the first step."""

    async def execute(
        self, container: ContainerId, command: Sequence[str], *, stdin: bool = False, terminal: bool = False
    ) -> Session:
        """Run a command with the environment, directory and user of a running container. Raises `NoSuchContainer`,
        `CannotRun`."""

    async def usage(self) -> Usage: ...

    async def hold_until(self, monotonic_ns: int, stopping: timedelta) -> None:
        """The node's lease is held until then, on the machine's monotonic clock. Without a later call, at-most-one
        containers are asked to end `stopping` before it, and are gone by then: also if the agent is not there any more
        to see to it. Durable when it returns. Before the first call nothing is held: such containers do not start.
        Raises `CannotRun`: then what was said before still counts."""
