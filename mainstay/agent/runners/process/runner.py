"""The process runner, as the agent sees it. mainstay/agent/runner.py says what it promises, this package how.

In memory it keeps what the files say of each attempt, and one task for each container that lives: the task waits for
the command to be executed, then for the shim to end, and then reads what the shim has recorded. Whatever blocks is done
by one worker thread, in order; requests to shims, and the lease, are written at once.

A shim that does not do what it is asked, because it was stopped from outside, is not waited for: a while after a
deadline the runner kills the container from outside. So it does when a lease ends.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from mainstay.agent.runner import (
    CannotRun,
    ContainerId,
    ContainerSpec,
    Exited,
    LogLine,
    LogQuery,
    NoSuchContainer,
    PodPlace,
    Running,
    Session,
    Starting,
    State,
    Usage,
    VolumePlan,
)
from mainstay.agent.runners.process import attempts, cgroups, logs, places, records, sessions
from mainstay.agent.runners.process.attempts import AttemptFiles, Begun
from mainstay.agent.runners.process.beneath import remove_tree
from mainstay.agent.runners.process.identities import DEFAULT, find_block, find_on_machine, release_block, take_block
from mainstay.agent.runners.process.isolation import MachineIsolation, find_isolation, plan_sandbox
from mainstay.agent.runners.process.pod_network import RoutedNetwork
from mainstay.agent.runners.process.usage import Counted, Meter, Reading, read_usage
from mainstay.agent.runners.process.volumes import VolumeOwners, forget_volumes, make_source, place_volume
from mainstay.api.kind import Object
from mainstay.env import SystemClock, commands, tasks
from mainstay.env.commands import Identity

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_LOCK_TRIES: Final = 50
_LOCK_TRIED_EVERY: Final = timedelta(milliseconds=100)
_LOOK_AGAIN: Final = timedelta(milliseconds=20)
_SHIM_IS_LATE: Final = timedelta(seconds=5)
_FENCE_LOOKS_EVERY: Final = timedelta(seconds=5)
_SETTLE_AGAIN: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(eq=False)
class _Container:
    """One attempt, as it is known."""

    attempt: AttemptFiles
    begun: Begun
    state: State = field(default_factory=Starting)
    shim: Identity | None = None
    kill_at_ns: int | None = None
    killing: "asyncio.Task[None] | None" = None
    sessions: "dict[sessions.ProcessSession, None]" = field(default_factory=dict)

    @property
    def id(self) -> ContainerId:
        return self.attempt.id

    @property
    def is_over(self) -> bool:
        return isinstance(self.state, Exited)


class ProcessRunner:
    """Runs containers as processes of this machine. All is kept in `directory`, which is made if it is not there.

    `limits_note` says why limits are not enforced; empty if they are. Known after `start`.
    """

    def __init__(
        self, directory: Path, isolation: MachineIsolation | None = None, network: RoutedNetwork | None = None
    ) -> None:
        """Without `isolation`, what the machine allows is found out at the start. Without `network`, pods are in that
        of the machine."""
        self.directory = directory.absolute()
        self.limits_note = ""
        self._pods_directory = places.find_pods(self.directory)
        self._lease_path = self.directory / "lease"
        self._clock = SystemClock()
        self._worker = tasks.Worker("runner")
        self._killer = tasks.Worker("killer")  # Of its own: it must not wait for a slow disk.
        self._lock = -1
        self._cgroups = cgroups.Cgroups()
        self._isolation = isolation
        self._network = network
        self._pods: dict[str, dict[ContainerId, _Container]] = {}
        self._pruned: dict[tuple[str, str], int] = {}  # The highest attempt that was forgotten.
        self._beginning: dict[ContainerId, asyncio.Task[CannotRun | None]] = {}
        self._watching: dict[_Container, asyncio.Task[None]] = {}
        self._subscribers: list[Callable[[str], None]] = []
        self._held: records.Lease | None = None  # As this incarnation of the agent was told.
        self._fencing: asyncio.Task[None] | None = None
        self._meter = Meter()

    # Life of the agent.

    async def start(self) -> None:
        """Find what earlier incarnations left. Raises `CannotRun` if another one is still there, and stays."""
        await self._take_directory()
        self._cgroups = await self._worker.run(cgroups.find, self.directory)
        self.limits_note = self._cgroups.note
        if self._isolation is None:
            self._isolation = await self._worker.run(find_isolation, self.directory)
        if self._has_only_users:
            self._pods_directory = await self._worker.run(places.open_pods, self.directory)
        for uid, pruned, found in await self._worker.run(self._find_all):
            self._pods[uid] = {}
            self._pruned.update({(uid, name): number for name, number in pruned.items()})
            for attempt, what in found:
                container = _Container(attempt, what.begun)
                self._pods[uid][attempt.id] = container
                match what:
                    case attempts.Over(_, exited):
                        container.state = exited
                    case attempts.Living(_, shim, running):
                        container.state = running or Starting()
                        self._watch(container, shim, None)
        if self._network is not None:
            await self._worker.run(self._network.remove_others, list(self._pods))
        self._fencing = tasks.spawn(self._fence(), name="fence")
        self._meter.add(await self._read_usage())

    async def _take_directory(self) -> None:
        self._pods_directory.mkdir(parents=True, exist_ok=True)
        self._pods_directory.chmod(0o711)
        self._lock = os.open(self.directory / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # An agent that was told to end takes a moment. So does one that was killed while it was starting something:
        # what it had forked holds the lock until it becomes another program.
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                await tasks.sleep(_LOCK_TRIED_EVERY)
        os.close(self._lock)
        self._lock = -1
        raise CannotRun("InUse", f"data directory {self.directory} is used by another agent")

    def _find_all(self) -> list[tuple[str, dict[str, int], list[tuple[AttemptFiles, attempts.Found]]]]:
        pods = []
        for pod in sorted(self._pods_directory.iterdir()):
            if pod.name.startswith("."):  # It was being forgotten.
                remove_tree(str(pod))
                continue
            pruned, found = {}, []
            for container in sorted((pod / "containers").glob("*")):
                for path in container.iterdir():
                    if path.name == "pruned":
                        pruned[container.name] = int(path.read_text())
                    elif path.name.isdigit():
                        attempt = AttemptFiles(pod, ContainerId(pod.name, container.name, int(path.name)))
                        if (what := attempts.find(attempt)) is not None:
                            found.append((attempt, what))
                    elif path.name.startswith("."):
                        remove_tree(str(path))
            pods.append((pod.name, pruned, sorted(found, key=lambda pair: pair[0].id)))
        return pods

    async def stop(self) -> None:
        """The agent ends. Containers live on; commands beside them do not."""
        if self._fencing is not None:
            await tasks.stop(self._fencing)
        if self._beginning:
            await asyncio.wait(list(self._beginning.values()))
        for container in self._all():
            await self._end_sessions(container)
            if container.killing is not None:
                await tasks.stop(container.killing)
        for task in list(self._watching.values()):
            await tasks.stop(task)
        await self._worker.run(self._cgroups.clean)
        self._worker.close()
        self._killer.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # What is known.

    def subscribe(self, changed: Callable[[str], None]) -> None:
        self._subscribers.append(changed)

    def pods(self) -> Sequence[str]:
        return sorted(self._pods)

    def instances(self, pod_uid: str) -> Mapping[ContainerId, State]:
        return {key: container.state for key, container in sorted(self._pods.get(pod_uid, {}).items())}

    def recover(self, pod: Object) -> None:
        """Nothing to do: all is in the files."""

    def _all(self) -> list[_Container]:
        return [container for pod in self._pods.values() for container in pod.values()]

    def _changed(self, container: _Container, state: State) -> None:
        container.state = state
        for changed in self._subscribers:
            changed(container.id.pod_uid)

    # Pods and containers.

    async def place(self, pod_uid: str, namespace: str, name: str, volumes: Sequence[VolumePlan]) -> PodPlace:
        _check_names(pod_uid, *(plan.name for plan in volumes))
        self._pods.setdefault(pod_uid, {})
        return await self._worker.run(self._place, pod_uid, namespace, name, volumes)

    def _place(self, pod_uid: str, namespace: str, name: str, plans: Sequence[VolumePlan]) -> PodPlace:
        pod = self._pods_directory / pod_uid
        try:
            for directory, mode in ((pod, self._pod_mode), (pod / "volumes", 0o711)):
                directory.mkdir(exist_ok=True)
                directory.chmod(mode)
            if not (pod / "pod.json").exists():
                record = msgspec.json.encode({"uid": pod_uid, "namespace": namespace, "name": name})
                records.replace(str(pod / "pod.json"), record)
        except OSError as error:
            raise CannotRun("FailedMount", f"cannot create the directory of the pod: {error}") from error
        owners = VolumeOwners(self._take_block(pod)) if plans and self._has_blocks else None
        return PodPlace(directory=str(pod), volumes={plan.name: place_volume(pod, plan, owners) for plan in plans})

    def pull(self, image: str, policy: str) -> None:
        """See `Runner`. Containers are started from what is on this machine: an image is only a name."""

    async def run(self, spec: ContainerSpec) -> None:
        key = spec.id
        _check_names(key.pod_uid, key.name)
        if self._was_begun(key):
            return
        if spec.is_at_most_one and not self._is_held():
            raise CannotRun("LeaseNotHeld", "the node does not hold its lease, so at-most-one containers cannot start")
        if key not in self._beginning:
            self._beginning[key] = tasks.spawn(self._begin(spec), name=f"begin {key}")
        # It goes on when the caller is cancelled: what was begun has to be known.
        refused = await asyncio.shield(self._beginning[key])
        if refused is not None:
            raise CannotRun(refused.reason, str(refused))

    def _was_begun(self, key: ContainerId) -> bool:
        if key.attempt <= self._pruned.get((key.pod_uid, key.name), -1):
            return True
        return key in self._pods.get(key.pod_uid, {})

    def _is_held(self) -> bool:
        return self._held is not None and records.boot_ns() < self._held.begin_stopping_ns

    async def _begin(self, spec: ContainerSpec) -> CannotRun | None:
        try:
            attempt = AttemptFiles(self._pods_directory / spec.id.pod_uid, spec.id)
            begun, launched = await self._worker.run(self._launch, attempt, spec, self._find_processes(spec.id.pod_uid))
            if isinstance(launched, CannotRun):
                return launched
            container = _Container(attempt, begun)
            self._pods.setdefault(spec.id.pod_uid, {})[spec.id] = container
            if launched is not None:
                self._watch(container, launched.shim, launched.report)
            else:  # Begun, although we did not know: the files tell.
                self._watch(container, None, None)
            self._changed(container, Starting())
            return None
        finally:
            del self._beginning[spec.id]

    def _find_processes(self, pod_uid: str) -> list[int]:
        states = [container.state for _, container in sorted(self._pods.get(pod_uid, {}).items())]
        return [state.pid for state in states if isinstance(state, Running)]

    def _launch(
        self, attempt: AttemptFiles, spec: ContainerSpec, others: Sequence[int]
    ) -> tuple[Begun, attempts.Launched | CannotRun | None]:
        """`others`: processes of other containers of the pod."""
        groups = self._cgroups.settings(spec)
        begun = Begun(wish=spec, boot=commands.boot_id(), at_ns=_wall_ns(self._clock), cgroups=groups)
        try:
            sandbox = plan_sandbox(spec, self._known_isolation, self._take_block(attempt.pod))
            if self._network is not None and not spec.security.has_host_network:
                network = self._network.connect(attempt.pod, spec.address, others)
                sandbox = replace(sandbox, network=network)
            begun = replace(begun, sandbox=sandbox)
            for mount in spec.mounts:
                make_source(mount.source, mount.sub_path)
            if self._has_only_users and not spec.security.is_privileged:
                self._check_way(spec)
        except CannotRun as refused:
            return begun, refused
        try:
            self._cgroups.prepare()
        except OSError as error:
            return begun, CannotRun("CreateContainerError", f"cannot create cgroups: {error}")
        return begun, attempts.begin(attempt, begun, lease=self._lease_path)

    def _check_way(self, spec: ContainerSpec) -> None:
        """Raises `CannotRun` if the user of a container, for which nothing is mounted, cannot get to its volumes."""
        closed = places.find_closed(self._pods_directory) if spec.mounts else []
        if closed:
            raise CannotRun(
                "CreateContainerConfigError",
                "volumeMounts: this node cannot mount, and its pods of an earlier version are where no other user can "
                f"go: remove {self._pods_directory} while no agent runs, or chmod o+x {' '.join(map(str, closed))}",
            )

    def _take_block(self, pod: Path) -> int:
        """The first of the ids that belong to a pod alone. 0 if there are none."""
        if not self._has_blocks:
            return 0
        try:
            pod.mkdir(exist_ok=True)
            pod.chmod(self._pod_mode)
            block = take_block(pod)
            if self._has_only_users:
                os.chown(pod, -1, find_on_machine(block, DEFAULT))
            return block
        except OSError as error:
            raise CannotRun("CreateContainerError", f"cannot record the user ids of the pod: {error}") from error

    @property
    def _has_blocks(self) -> bool:
        return self._known_isolation.has_blocks

    @property
    def _has_only_users(self) -> bool:
        """Whether its user is all that keeps a pod from others."""
        return self._has_blocks and not self._known_isolation.has_namespaces

    @property
    def _pod_mode(self) -> int:
        """Of the directory of a pod: whether other pods, which may know its name, may go through."""
        return 0o710 if self._has_only_users else 0o711

    @property
    def _known_isolation(self) -> MachineIsolation:
        assert self._isolation is not None, "the runner was not started"
        return self._isolation

    def _watch(self, container: _Container, shim: Identity | None, report: int | None) -> None:
        container.shim = shim
        self._watching[container] = tasks.spawn(self._follow(container, report), name=f"container {container.id}")

    async def _follow(self, container: _Container, report: int | None) -> None:
        """See a container through to its end."""
        attempt = container.attempt
        try:
            if report is not None:
                try:
                    await commands.readable(report)
                finally:
                    os.close(report)
            while container.shim is None:
                found = await self._worker.run(attempts.find, attempt)
                if found is None:  # Its shim was killed before it could start anything: it may be begun again.
                    del self._pods[container.id.pod_uid][container.id]
                    self._changed(container, Starting())
                    return
                if isinstance(found, attempts.Over):
                    break
                container.shim = found.shim
                await tasks.sleep(_LOOK_AGAIN if found.shim is None else timedelta())
            while isinstance(container.state, Starting) and container.shim is not None:
                if (running := attempts.read_running(attempt)) is not None:
                    if attempts.read_exit(attempt) is None:
                        self._changed(container, running)
                    break
                if not commands.is_alive(container.shim):
                    break
                await tasks.sleep(_LOOK_AGAIN)
            if container.shim is not None:
                await commands.ended(container.shim)
            exited = await self._settle(container)
            await self._end_sessions(container)
            if container.killing is not None:
                container.killing.cancel()
            self._changed(container, exited)
        finally:
            del self._watching[container]

    async def _settle(self, container: _Container) -> Exited:
        while True:
            try:
                return await self._worker.run(attempts.settle, container.attempt, container.begun)
            except OSError:  # No room to write it down. It counts as not ended until there is.
                await tasks.sleep(_SETTLE_AGAIN)

    async def end(self, container: ContainerId, grace: timedelta, *, with_signal: str = "SIGTERM") -> None:
        found = self._pods.get(container.pod_uid, {}).get(container)
        if found is None or found.is_over:
            return
        number = _signal_number(with_signal)
        deadline_ns = records.boot_ns() + max(timedelta(), grace) // _MICROSECOND * 1000
        attempts.ask(found.attempt, f"end {deadline_ns} {number}")
        kill_at_ns = deadline_ns + _SHIM_IS_LATE // _MICROSECOND * 1000
        if found.kill_at_ns is None or kill_at_ns < found.kill_at_ns:
            found.kill_at_ns = kill_at_ns
            if found.killing is not None:
                found.killing.cancel()
            found.killing = tasks.spawn(self._kill_late(found, kill_at_ns), name=f"kill {container}")

    async def _kill_late(self, container: _Container, at_ns: int) -> None:
        await self._sleep_until(at_ns)
        if not container.is_over:
            await self._killer.run(attempts.kill, container.attempt, container.begun)

    async def _sleep_until(self, at_ns: int) -> None:
        """On the clock that does not stand still while the machine sleeps."""
        while (left_ns := at_ns - records.boot_ns()) > 0:
            await tasks.sleep(min(timedelta(microseconds=left_ns // 1000 + 1), _FENCE_LOOKS_EVERY))

    async def forget(self, pod_uid: str) -> None:
        pod = self._pods.get(pod_uid, {})
        living = [key for key, container in sorted(pod.items()) if not container.is_over]
        if living or any(key.pod_uid == pod_uid for key in self._beginning):
            raise ValueError(f"cannot forget a pod with running containers: {living}")
        self._pods.pop(pod_uid, None)
        for name in [name for uid, name in self._pruned if uid == pod_uid]:
            del self._pruned[pod_uid, name]
        await self._worker.run(self._forget, pod_uid)

    def _forget(self, pod_uid: str) -> None:
        directory = self._pods_directory / pod_uid
        forget_volumes(directory)
        if self._network is not None:
            self._network.disconnect(directory)
        if directory.exists():
            block = find_block(directory)
            gone = directory.with_name(f".{pod_uid}.gone")
            remove_tree(str(gone))
            directory.rename(gone)
            if remove_tree(str(gone)) and block is not None:
                release_block(directory, block)
        self._cgroups.clean()

    async def prune(self, pod_uid: str, name: str, keep: int) -> None:
        pod = self._pods.get(pod_uid, {})
        ended = [container for key, container in sorted(pod.items()) if key.name == name and container.is_over]
        pruned = ended[: max(0, len(ended) - keep)]
        if not pruned:
            return
        self._pruned[pod_uid, name] = max(pruned[-1].id.attempt, self._pruned.get((pod_uid, name), -1))
        for container in pruned:
            del pod[container.id]
        await self._worker.run(self._prune, [container.attempt for container in pruned], self._pruned[pod_uid, name])

    def _prune(self, pruned: list[AttemptFiles], highest: int) -> None:
        # First the number: what is forgotten must not be begun again.
        records.replace(str(pruned[0].directory.with_name("pruned")), str(highest).encode())
        for attempt in pruned:
            attempts.remove(attempt)

    # Looking inside.

    def log(self, pod_uid: str, name: str, query: LogQuery) -> AsyncIterator[LogLine]:
        def find() -> tuple[Path, Callable[[], bool]]:
            found = [container for key, container in sorted(self._pods.get(pod_uid, {}).items()) if key.name == name]
            wanted = 2 if query.is_previous else 1
            if len(found) < wanted:
                what = "an earlier attempt of container" if query.is_previous else "container"
                raise NoSuchContainer(f"{what} {name!r} of pod {pod_uid} not found")
            container = found[-wanted]
            return container.attempt.log, lambda: container.is_over

        return logs.read(find, query)

    async def execute(
        self, container: ContainerId, command: Sequence[str], *, stdin: bool = False, terminal: bool = False
    ) -> Session:
        found = self._pods.get(container.pod_uid, {}).get(container)
        if found is None or not isinstance(found.state, Running):
            raise NoSuchContainer(f"container {container.name!r} of pod {container.pod_uid} is not running")
        orders = attempts.build_orders(found.attempt, found.begun)
        orders["argv"] = list(command)
        orders["pid"] = found.state.pid
        if terminal and "TERM" not in dict(orders["env"]):
            orders["env"].append(("TERM", "xterm"))
        argv = attempts.helper_command("beside", "ORDERS", container)
        session = sessions.start(orders, argv, has_stdin=stdin, has_terminal=terminal)
        found.sessions[session] = None
        session.when_over(lambda: found.sessions.pop(session, None))
        return session

    async def _end_sessions(self, container: _Container) -> None:
        for session in list(container.sessions):
            await session.end()

    async def usage(self) -> Usage:
        reading = await self._read_usage()
        started = {c.id: c.state.started_at for c in self._all() if isinstance(c.state, Running)}
        started.update({key: reading.at for key in reading.containers if key not in started})
        answer = self._meter.usage(reading, started)
        self._meter.add(reading)
        return answer

    async def _read_usage(self) -> Reading:
        running = {
            container.id: Counted(container.begun.cgroups, container.shim.pid)
            for container in self._all()
            if isinstance(container.state, Running) and container.shim is not None
        }
        return await self._worker.run(read_usage, self._clock.wall(), running)

    # The lease.

    async def hold_until(self, monotonic_ns: int, stopping: timedelta) -> None:
        """See `Runner`. Raises `CannotRun` if it could not be written: then nothing is held longer than before."""
        lease = records.Lease(commands.boot_id(), monotonic_ns, stopping // _MICROSECOND * 1000)
        try:
            records.write_lease(str(self._lease_path), lease)
        except OSError as error:
            raise CannotRun("LeaseNotRecorded", f"cannot write {self._lease_path}: {error}") from error
        self._held = lease
        if self._fencing is not None:  # It is perhaps later now, perhaps sooner.
            self._fencing.cancel()
            self._fencing = tasks.spawn(self._fence(), name="fence")

    async def _fence(self) -> None:
        """When the lease has ended, kill what should have been ended by its shim. There is nothing unless a shim was
        stopped from outside."""
        lease = records.read_lease(str(self._lease_path), commands.boot_id())
        await self._sleep_until((lease.kill_ns + lease.until_ns) // 2)
        for container in self._all():
            if container.begun.wish.is_at_most_one and not container.is_over:
                await self._killer.run(attempts.kill, container.attempt, container.begun)


def _wall_ns(clock: SystemClock) -> int:
    return int(clock.wall().timestamp() * 1_000_000) * 1000


def _check_names(*names: str) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise CannotRun("CreateContainerError", f"invalid name {name!r}")


def _signal_number(name: str) -> int:
    if name.startswith("SIGRTMIN+"):
        return int(signal.SIGRTMIN) + int(name.removeprefix("SIGRTMIN+"))
    if name.startswith("SIGRTMAX-"):
        return int(signal.SIGRTMAX) - int(name.removeprefix("SIGRTMAX-"))
    with contextlib.suppress(KeyError):
        return int(signal.Signals[name])
    return int(signal.SIGTERM)
