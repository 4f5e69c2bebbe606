"""The loop of a supervisor: observe, decide, act.

To observe is to ask the machine which of the known processes are alive. Known are those of the records (records.py),
those that this supervisor started, and those that carry its mark without a record: a supervisor that is killed between
starting a process and writing its record leaves such a process. All are known by identity, because another process may
have the same process id by now.

The end of a process and a new goal wake the loop at once; otherwise it sleeps until the plan's next step. A lock in the
directory of the records allows one supervisor at a time. If it is killed, its processes continue, and the next
supervisor adopts them.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, assert_never

import msgspec

from mainstay.env import Clock, Disk, tasks, vital
from mainstay.env.commands import Identity
from mainstay.env.disk import DiskFull, Locked
from mainstay.supervisor import decide as deciding
from mainstay.supervisor import records
from mainstay.supervisor.decide import (
    ComponentHistory,
    ExitReason,
    Process,
    ProcessEnded,
    ProcessSpec,
    Run,
    SendSignal,
    StartProcess,
    Stop,
    SupervisorPlan,
    Wish,
)
from mainstay.supervisor.machine import ProcessHost
from mainstay.supervisor.records import ProcessRecord

_NO_TURN: Final = -1
PROBED_EVERY: Final = timedelta(seconds=10)
FAILED_PROBES_MAX: Final = 8  # In a row. These are kubeadm's for the API server.
KILLED_AFTER_PROBES: Final = 2
LOGS_TRIMMED_EVERY: Final = timedelta(seconds=30)

_log = logging.getLogger(__name__)


class Supervised(Exception):
    """Another supervisor runs these processes. `pid` is its process id, 0 if unknown."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid}")
        self.pid = pid


@dataclass(frozen=True, slots=True)
class ComponentFailure:
    """A component has ended by itself, or could not start."""

    name: str
    exit_code: int | None
    failures: int
    """How often in a row, and soon after its start."""
    pause: timedelta
    """After which it is started again."""
    why: str = ""
    """Why it could not be started, if so."""


class Supervisor:
    """Make one; call `lock`, `begin`, `run`, `leave_off`, `stop` and `close`, in this order."""

    def __init__(self, machine: ProcessHost, disk: Disk, clock: Clock, *, own: Identity) -> None:
        """`disk` is where the records are, and `own` is this very process."""
        self._components: tuple[ProcessSpec, ...] = ()
        self._machine = machine
        self._disk = disk
        self._clock = clock
        self._own = own
        self._worker = tasks.Worker("supervisor")
        self._wish: Wish = Run()
        self._is_hurried = False
        self._woken = asyncio.Event()
        self._running: dict[str, Process] = {}
        self._waiting: dict[Identity, asyncio.Task[None]] = {}
        self._outdated: set[Identity] = set()
        self._memory: Mapping[str, ComponentHistory] = {}
        self._records: dict[str, ProcessRecord] = {}
        self.on_failure: Callable[[ComponentFailure], None] = lambda _failure: None

    async def lock(self) -> None:
        """Be the only one. Raises `Supervised`, then nothing was done."""
        await self._worker.run(self._lock)

    async def begin(self, components: Sequence[ProcessSpec]) -> Sequence[str]:
        """Find what runs already. Returns the names of what can be left as it is."""
        self._components = tuple(components)
        await self._worker.run(self._find)
        self._memory = {name: self._get_history(name) for name in self._records}
        for process in self._running.values():
            self._wait_for(process.identity)
        wanted = {component.name: component.argv for component in components}
        return [name for name, process in sorted(self._running.items()) if wanted.get(name) == process.argv]

    async def run(self) -> None:
        """Keep everything running, until `leave_off`. If it is cancelled instead, a process that was just being started
        may not be known here."""
        trimming = tasks.spawn(self._trim(), name="trim logs")
        probing = vital.spawn(self._probe(), name="probe components")
        try:
            await self._loop()
        finally:
            await tasks.stop(trimming)
            await tasks.stop(probing)

    def leave_off(self) -> None:
        """Let `run` return, as soon as it has done what it is just doing. Nothing is ended by this."""
        self._wish = Stop(_NO_TURN, self._is_hurried)
        self._woken.set()

    async def stop(self, through: int) -> None:
        """End everything whose turn is this or an earlier one, in order, and return when it is gone. It can be hurried.

        Only after `run` has returned, or without it.
        """
        self._wish = Stop(through, self._is_hurried)
        await self._loop()

    def hurry(self) -> None:
        """For this stop and all to come: do not wait for anything to end by itself."""
        self._is_hurried = True
        if isinstance(self._wish, Stop):
            self._wish = replace(self._wish, is_hurried=True)
        self._woken.set()

    def renew(self, name: str) -> None:
        """Restart a component, because a file that it has read has changed."""
        process = self._running.get(name)
        if process is not None:
            self._outdated.add(process.identity)
            self._woken.set()

    def running(self) -> Mapping[str, Process]:
        """The processes that were alive at the last look."""
        return dict(self._running)

    async def close(self) -> None:
        """Release the lock. Running processes continue."""
        for task in list(self._waiting.values()):
            await tasks.stop(task)
        self._waiting.clear()
        await self._worker.run(self._leave)
        self._worker.close()

    # The loop.

    async def _loop(self) -> None:
        while True:
            self._woken.clear()
            await self._worker.run(self._observe)
            plan = deciding.decide(
                self._components, self._as_seen(), self._memory, self._clock.monotonic_ns(), self._wish
            )
            self._memory = plan.memory
            for news in plan.ended:
                await self._tell(news)
            await self._act(plan)
            if plan.is_done:
                return
            if not any(isinstance(action, StartProcess) for action in plan.actions):
                await self._wait(plan.wake_ns)

    def _observe(self) -> None:
        for name, process in list(self._running.items()):
            if not self._machine.is_alive(process.identity):
                del self._running[name]
                self._outdated.discard(process.identity)

    def _as_seen(self) -> Mapping[str, Process]:
        # One that is to be replaced is one that runs otherwise than wanted, whatever its command line says.
        return {
            name: replace(process, argv=()) if process.identity in self._outdated else process
            for name, process in self._running.items()
        }

    async def _act(self, plan: SupervisorPlan) -> None:
        for action in plan.actions:
            match action:
                case StartProcess(component):
                    if isinstance(self._wish, Run):  # It may have changed since it was decided.
                        await self._start(component)
                case SendSignal(_, identity, number):
                    await self._worker.run(self._machine.send, identity, number)
                case _:
                    assert_never(action)

    async def _start(self, component: ProcessSpec) -> None:
        past = self._memory[component.name]
        try:
            identity = await self._worker.run(self._machine.start, component)
        except OSError as error:
            failed = deciding.not_started(past, self._clock.monotonic_ns())
            self._memory = {**self._memory, component.name: failed}
            why = f"{error.filename or component.argv[0]}: {error.strerror or error}"
            self.on_failure(
                ComponentFailure(component.name, None, failed.failures, deciding.pause(failed.failures), why)
            )
            return
        self._running[component.name] = Process(identity, component.argv, component.turn)
        self._wait_for(identity)
        await self._write(_build_record(component.name, self._running[component.name], self._clock.wall(), past))

    async def _wait(self, wake_ns: int | None) -> None:
        if wake_ns is None:
            await self._woken.wait()
            return
        left = timedelta(microseconds=max(wake_ns - self._clock.monotonic_ns(), 0) // 1000 + 1)
        try:
            async with tasks.timeout(left):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _wait_for(self, identity: Identity) -> None:
        self._waiting[identity] = tasks.spawn(self._ended(identity), name=f"wait for the end of process {identity.pid}")

    async def _ended(self, identity: Identity) -> None:
        await self._machine.ended(identity)
        self._waiting.pop(identity, None)
        self._woken.set()

    async def _tell(self, news: ProcessEnded) -> None:
        past, record = self._memory[news.name], self._records.get(news.name)
        pause = timedelta(microseconds=max(news.start_at_ns - self._clock.monotonic_ns(), 0) // 1000)
        if record is not None:
            now = self._clock.wall()
            retry_at = now + pause if isinstance(self._wish, Run) else None
            await self._write(
                msgspec.structs.replace(
                    record, restarts=past.restarts, failures=past.failures, ended=now, retry_at=retry_at
                )
            )
        if news.ending is ExitReason.FAILED and isinstance(self._wish, Run):
            self.on_failure(ComponentFailure(news.name, self._machine.exit_code(news.identity), news.failures, pause))

    async def _probe(self) -> None:
        """Stop a component that says it is not alive, or does not answer. What ends is restarted, with backoff."""
        failures: dict[Identity, int] = {}
        while True:
            await tasks.sleep(PROBED_EVERY)
            for name, process in sorted(self._running.items()):
                identity = process.identity
                failure = await self._machine.find_failure(name)
                if not failure or not isinstance(self._wish, Run):
                    failures.pop(identity, None)
                    continue
                failures[identity] = count = failures.get(identity, 0) + 1
                if count == FAILED_PROBES_MAX:
                    _log.error("%s is not alive; stopping it, to be restarted: %s", name, failure)
                    await self._worker.run(self._machine.send, identity, signal.SIGTERM)
                elif count >= FAILED_PROBES_MAX + KILLED_AFTER_PROBES:
                    await self._worker.run(self._machine.send, identity, signal.SIGKILL)

    async def _trim(self) -> None:
        while True:
            await tasks.sleep(LOGS_TRIMMED_EVERY)
            try:
                await self._worker.run(self._machine.trim_logs)
            except OSError as error:
                _log.warning("cannot trim the logs: %s", error)

    # Files.

    def _lock(self) -> None:
        try:
            self._disk.lock(records.LOCK, f"process {self._own.pid}")
        except Locked:
            other = records.read(self._disk, records.SUPERVISOR)
            raise Supervised(0 if other is None else other.pid) from None
        records.write(
            self._disk,
            _build_record(records.SUPERVISOR, Process(self._own, ()), self._clock.wall(), ComponentHistory()),
        )

    def _find(self) -> None:
        self._records = dict(records.read_all(self._disk))
        for name, record in self._records.items():
            if self._machine.is_alive(record.identity):
                self._running[name] = Process(record.identity, record.argv, record.turn)
        missing = [component for component in self._components if component.name not in self._running]
        if missing:
            for name, process in self._machine.lost(missing).items():
                self._running[name] = process
                self._records[name] = _build_record(name, process, self._clock.wall(), self._get_history(name))
                records.write(self._disk, self._records[name])

    def _leave(self) -> None:
        records.remove(self._disk, records.SUPERVISOR)
        for name in self._records:
            if name not in self._running:
                records.remove(self._disk, name)
        self._disk.close()

    async def _write(self, record: ProcessRecord) -> None:
        self._records[record.name] = record
        try:
            await self._worker.run(records.write, self._disk, record)
        except (DiskFull, OSError) as error:
            # The process is there all the same, and carries its mark.
            _log.warning("cannot write the record of %s: %s", record.name, error)

    def _get_history(self, name: str) -> ComponentHistory:
        record = self._records.get(name)
        return (
            ComponentHistory()
            if record is None
            else ComponentHistory(restarts=record.restarts, failures=record.failures)
        )


def _build_record(name: str, process: Process, since: datetime, past: ComponentHistory) -> ProcessRecord:
    identity = process.identity
    return ProcessRecord(
        name=name,
        pid=identity.pid,
        started=identity.started,
        boot=identity.boot,
        argv=process.argv,
        since=since,
        turn=process.turn,
        restarts=past.restarts,
        failures=past.failures,
    )
