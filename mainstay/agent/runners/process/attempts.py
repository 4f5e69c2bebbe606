"""The directory of one attempt to run a container: begin it once, find out what became of it, settle what was lost.

All of this blocks, and is called on a `tasks.Worker`. Who calls has the directory of the runner to itself.

What the files say, whatever was killed when:

| lock | wish.json | started.json | exit.json | so |
|---|---|---|---|---|
| free | no | | | nothing was begun: `run` was cut short. Removed |
| held | yes | no | no | its shim is about to start it: `Living`, starting |
| held | yes | yes | | its shim looks after it: `Living` |
| free | yes | | yes | it has ended: `Over` |
| free | yes | yes | no | the shim was killed: what is left is killed, and that is recorded |
| free | yes | no | no | its command was never executed, and now never will be. Removed: the agent may begin it again |
| | yes, of another boot | | no | the machine was rebooted; that is recorded |
"""

import contextlib
import errno
import fcntl
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from mainstay.agent.runner import CannotRun, ContainerId, ContainerSpec, Exited, Running
from mainstay.agent.runners.process import records, trees
from mainstay.agent.runners.process.beneath import remove_tree
from mainstay.agent.runners.process.cgroups import Settings
from mainstay.agent.runners.process.isolation import Sandbox
from mainstay.agent.runners.process.orders import Orders, send
from mainstay.agent.runners.process.seccomp import build_filter
from mainstay.env import commands
from mainstay.env.commands import Identity

_SHIM: Final = str(Path(__file__).with_name("shim.py"))
_NOT_OBSERVED: Final = 137
_START_ERROR: Final = 128
_LET_GO_WITHIN_S: Final = 5.0
_KILLED_WITHIN_S: Final = 5.0
_ROUND_S: Final = 0.005
_SHIM_ERROR_BYTES: Final = 2000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

RecordT = TypeVar("RecordT")

REBOOTED: Final = "the machine was rebooted"
UNREADABLE: Final = "the record of the container is unreadable"
SHIM_KILLED: Final = "the shim of the container was killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What is written down when a container is begun."""

    wish: ContainerSpec
    boot: str
    at_ns: int
    cgroups: tuple[Settings, ...]
    sandbox: Sandbox = field(default_factory=Sandbox)


@dataclass(frozen=True, slots=True)
class Over:
    begun: Begun
    exited: Exited


@dataclass(frozen=True, slots=True)
class Living:
    begun: Begun
    shim: Identity | None
    """None: it was not yet there long enough to say so."""
    running: Running | None
    """None: the command is not executed yet."""


Found = Over | Living


@dataclass(frozen=True, slots=True)
class Launched:
    shim: Identity
    report: int
    """A descriptor: can be read when the command was executed, or never will be. The caller closes it."""


class Started(msgspec.Struct):
    pid: int
    ticks: int
    boot: str
    at_ns: int


class _Ended(msgspec.Struct):
    code: int
    signal: int
    reason: str
    message: str
    started_ns: int
    finished_ns: int


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """Where things are. `pod` is the directory of the pod."""

    pod: Path
    id: ContainerId

    @property
    def directory(self) -> Path:
        return self.pod / "containers" / self.id.name / str(self.id.attempt)

    @property
    def log(self) -> Path:
        return self.pod / "logs" / self.id.name / f"{self.id.attempt}.log"

    @property
    def root(self) -> Path:
        return self.directory / "root"

    @property
    def control(self) -> Path:
        return self.directory / "control"


def begin(attempt: AttemptFiles, begun: Begun, *, lease: Path) -> Launched | CannotRun | None:
    """Begin a container, unless it was begun before: then None. If it cannot be, it was not."""
    directory = attempt.directory
    try:
        _make_directories(attempt)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return _cannot(error)
    try:
        if not _take(lock) or (directory / "wish.json").exists():
            return None
        try:
            records.replace(str(directory / "wish.json"), msgspec.json.encode(begun))
            return _launch(attempt, begun, lock, lease)
        except OSError as error:
            (directory / "wish.json").unlink(missing_ok=True)
            return _cannot(error)
    finally:
        os.close(lock)


def _cannot(error: OSError) -> CannotRun:
    return CannotRun("CreateContainerError", f"cannot start a container: {error}")


def _make_directories(attempt: AttemptFiles) -> None:
    missing = [path for path in (attempt.directory, *attempt.directory.parents[:3]) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        path.chmod(0o711)  # Users of containers may go through to what they know of, and look around nowhere.
    attempt.log.parent.mkdir(parents=True, exist_ok=True)
    for path in missing:
        records.sync_directory(str(path.parent))


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _launch(attempt: AttemptFiles, begun: Begun, lock: int, lease: Path) -> Launched:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(attempt.control, 0o600)
    report, report_write = os.pipe()
    # Open for both, so that the shim finds what was asked before it came to listen, and never an end.
    control = os.open(attempt.control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    orders = -1
    try:
        orders = send(
            {
                **build_orders(attempt, begun),
                "lease": str(lease) if begun.wish.is_at_most_one else "",
                "lock": lock,
                "control": control,
                "report": report_write,
            }
        )
        shim = commands.start(
            helper_command("container", orders, attempt.id),
            env={},
            cwd=Path("/"),
            output=attempt.directory / "shim.err",
            inherit=(orders, lock, control, report_write),
        )
    except BaseException:
        os.close(report)
        raise
    finally:
        for descriptor in (report_write, control, orders):
            if descriptor >= 0:
                os.close(descriptor)
    return Launched(shim, report)


def helper_command(what: str, orders: int | str, container: ContainerId) -> list[str]:
    name = f"{container.pod_uid}/{container.name}/{container.attempt}"
    return [sys.executable, "-I", "-S", _SHIM, what, str(orders), name]


def build_orders(attempt: AttemptFiles, begun: Begun) -> Orders:
    """What is the same for a container and for commands beside it."""
    spec, sandbox = begun.wish, begun.sandbox
    return {
        "argv": list(spec.command),
        "env": list(spec.env),
        "cwd": spec.working_dir,
        "root": str(attempt.root),
        "is_isolated": sandbox.is_isolated,
        "has_own_pids": sandbox.has_own_pids,
        "has_own_ipc": sandbox.has_own_ipc,
        "network": sandbox.network,
        "is_privileged": sandbox.is_privileged,
        "is_read_only": sandbox.is_read_only,
        "hidden": list(sandbox.hidden),
        "shown": list(sandbox.shown),
        "owner": sandbox.owner,
        "user_map": list(sandbox.user_map),
        "group_map": list(sandbox.group_map),
        "is_own_user": sandbox.is_own_user,
        "user": sandbox.user,
        "group": sandbox.group,
        "groups": list(sandbox.groups),
        "capabilities": None if sandbox.capabilities is None else list(sandbox.capabilities),
        "ambient": list(sandbox.ambient),
        "gains_nothing": sandbox.gains_nothing,
        "filter": build_filter() if sandbox.has_filter else b"",
        "mounts": [(mount.source, mount.sub_path, mount.path, mount.is_read_only) for mount in spec.mounts],
        "cgroups": [(settings.directory, list(settings.values)) for settings in begun.cgroups],
        "has_stdin": spec.has_stdin,
        "has_terminal": spec.has_terminal,
        "attempt": str(attempt.directory),
        "log": str(attempt.log),
        "lease": "",
        "boot": begun.boot,
        "message": str(attempt.directory / "message"),
        "message_path": spec.message_path,
        "is_message_from_log": spec.is_message_from_log,
        "lock": -1,
        "control": -1,
        "report": -1,
        "pid": 0,
    }


def find(attempt: AttemptFiles) -> Found | None:
    """What became of it, going by the files alone. None: it was never begun, and nothing of it is left now."""
    try:
        begun = _read(attempt.directory / "wish.json", Begun)
    except msgspec.DecodeError:
        begun = _unreadable(attempt)
        kill(attempt, begun)
        return Over(begun, read_exit(attempt) or _record(attempt, begun, "ContainerStatusUnknown", UNREADABLE))
    if begun is None:
        remove(attempt)
        return None
    if begun.boot != commands.boot_id():
        return Over(begun, read_exit(attempt) or _record(attempt, begun, "ContainerStatusUnknown", REBOOTED))
    if _is_held(attempt):
        return Living(begun, find_shim(attempt), read_running(attempt))
    # The shim is gone, so no file will change any more.
    if (exited := read_exit(attempt)) is not None:
        return Over(begun, exited)
    if read_started(attempt) is None:
        kill(attempt, begun)
        remove(attempt)
        return None
    return Over(begun, settle(attempt, begun))


def _unreadable(attempt: AttemptFiles) -> Begun:
    """For a file that was damaged, or written by a version that we do not understand. What it says is not known, but
    it was begun, and must not be again."""
    spec = ContainerSpec(id=attempt.id, namespace="", pod_name="", image="", command=("unknown",), env=())
    return Begun(wish=spec, boot="", at_ns=time.time_ns(), cgroups=())


def settle(attempt: AttemptFiles, begun: Begun) -> Exited:
    """How it ended, now that its shim has. If the shim could not say, what it left is killed first."""
    until = time.monotonic() + _LET_GO_WITHIN_S
    while _is_held(attempt) and time.monotonic() < until:  # By a copy that was just about to become the command.
        time.sleep(_ROUND_S)
    if (exited := read_exit(attempt)) is not None:
        return exited
    kill(attempt, begun)
    if read_started(attempt) is not None:
        return _record(attempt, begun, "ContainerStatusUnknown", SHIM_KILLED)
    said = ""
    with contextlib.suppress(FileNotFoundError):
        said = (attempt.directory / "shim.err").read_bytes()[-_SHIM_ERROR_BYTES:].decode(errors="replace").strip()
    last = said.splitlines()[-1] if said else SHIM_KILLED
    return _record(attempt, begun, "StartError", f"the command was not executed: {last}", code=_START_ERROR)


def kill(attempt: AttemptFiles, begun: Begun) -> bool:
    """Kill a container, with its shim, from outside. True when nothing of it is left."""
    shim, started = find_shim(attempt), read_started(attempt)
    if shim is not None:
        commands.send(shim, signal.SIGKILL)
    cgroups = [settings.directory for settings in begun.cgroups]
    first = None if started is None else (started.pid, started.ticks)
    is_gone = trees.kill_from_outside(str(attempt.root), first, cgroups, _KILLED_WITHIN_S)
    return trees.remove_cgroups(cgroups, _KILLED_WITHIN_S) and is_gone


def ask(attempt: AttemptFiles, line: str) -> bool:
    """Say something to the shim. False if there is none, or if it has not listened for long."""
    try:
        control = os.open(attempt.control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.ENOENT):
            raise
        return False
    try:
        os.write(control, f"{line}\n".encode())
    except (BlockingIOError, BrokenPipeError):
        return False
    finally:
        os.close(control)
    return True


def remove(attempt: AttemptFiles) -> None:
    """Remove all that is left of an attempt of which nothing runs. Its spec goes last."""
    for path in (attempt.log, *attempt.log.parent.glob(f"{attempt.log.name}.*")):
        path.unlink(missing_ok=True)
    if attempt.directory.exists():
        gone = attempt.directory.with_name(f".{attempt.id.attempt}.gone")
        remove_tree(str(gone))
        attempt.directory.rename(gone)
        remove_tree(str(gone))


def find_shim(attempt: AttemptFiles) -> Identity | None:
    holder = records.read_holder(str(attempt.directory / "lock"))
    return None if holder is None else Identity(*holder)


def read_started(attempt: AttemptFiles) -> Started | None:
    with contextlib.suppress(msgspec.DecodeError):  # Cut short by a power cut.
        return _read(attempt.directory / "started.json", Started)
    return None


def read_running(attempt: AttemptFiles) -> Running | None:
    started = read_started(attempt)
    return None if started is None else Running(_time(started.at_ns), started.pid)


def read_exit(attempt: AttemptFiles) -> Exited | None:
    try:
        ended = _read(attempt.directory / "exit.json", _Ended)
    except msgspec.DecodeError:
        return None
    if ended is None:
        return None
    return Exited(
        code=ended.code,
        signal=ended.signal,
        reason=ended.reason,
        message=ended.message,
        started_at=_time(ended.started_ns),
        finished_at=_time(ended.finished_ns),
    )


def _record(attempt: AttemptFiles, begun: Begun, reason: str, message: str, *, code: int = _NOT_OBSERVED) -> Exited:
    started = read_started(attempt)
    started_ns = begun.at_ns if started is None else started.at_ns
    ended = _Ended(code, 0, reason, message, started_ns, max(started_ns, time.time_ns()))
    records.replace(str(attempt.directory / "exit.json"), msgspec.json.encode(ended))
    exited = read_exit(attempt)
    assert exited is not None
    return exited


def _is_held(attempt: AttemptFiles) -> bool:
    try:
        lock = os.open(attempt.directory / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, and released at once: one that looks must not be what another one finds.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _read(path: Path, kind: type[RecordT]) -> RecordT | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None


def _time(time_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_ns // 1000)
