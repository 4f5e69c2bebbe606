"""The store of a simulated cluster over the whole of a run: it is opened, lost, opened again, and put back to a backup.

At each moment there is one store process (store_proxy.py), or none. What the store commits is written into the history
here, each commit once, over all restarts: what was durable when the store died, and was not noted, is noted when it
is back.

    open       when the world boots
    lose       the process dies, with or without the power of its disk; `is_open` is cleared
    reopen     another process takes over what the disk has. The history says where it begins: `StoreReopened`
    restore    only of a store without a disk: it goes back to a `backup`, and so does the history: `StoreRestored`
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from datetime import timedelta
from typing import Final

from mainstay.env import tasks
from mainstay.journal.history import KeyVersion
from mainstay.journal.keys import is_object
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import ChangeRecord, micros
from mainstay.journal.secret_mask import masked
from mainstay.server.decisions.history_source import joined
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.sim.cluster.history import History, RevisionCommitted, StoreReopened, StoreRestored
from mainstay.sim.cluster.store_proxy import StoreProcess
from mainstay.sim.disk import SimDisk
from mainstay.sim.errors import SimulationError
from mainstay.sim.process_table import SimProcess
from mainstay.sim.simulation import Simulation
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import OutcomeUnknown
from mainstay.store.interface import Entry
from mainstay.store.local import LocalStore
from mainstay.store.log import Log, LogRow, MemoryLog, Recovered
from mainstay.store.sealer import PLAIN, Sealer

STORE: Final = "store"
HEARTBEATS: Final = (INTERNAL_PREFIX, "coordination.k8s.io/leases/", "mainstay.dev/componentstates/")
"""Keys under which writing never ends, and which no rest depends on."""

OPEN_ATTEMPTS_MAX: Final = 600
TRY_AGAIN_AFTER: Final = timedelta(seconds=1)


class KeptLog(MemoryLog):
    """Has all that was ever written, compacted or not."""

    def __init__(self, rows: Sequence[LogRow] = (), compacted: int = 0) -> None:
        self._rows = list(rows)
        self._compacted = compacted
        """Where it began, if it was filled."""

    async def open(self) -> Recovered:
        return Recovered(self._compacted, tuple(self._rows))

    async def append(self, rows: Sequence[LogRow]) -> None:
        self._rows += rows

    async def fill(self, compacted: int, rows: Sequence[LogRow]) -> None:
        self._rows, self._compacted = list(rows), compacted

    def copy(self) -> "KeptLog":
        return KeptLog(self._rows, self._compacted)


class StoreLifecycle:
    """The machine that the store is on. With `has_disk` it has one; without, the store is in memory, and never dies."""

    def __init__(self, sim: Simulation, history: History, journal: MemoryJournal | None, *, has_disk: bool) -> None:
        self.has_disk = has_disk
        self.make_sealer: Callable[[], Sealer] = lambda: PLAIN
        """Of each opening, for what is written to the disk."""
        self.is_open = asyncio.Event()
        self.rows: tuple[LogRow, ...] = ()
        """What it begins with. Only a store without a disk."""
        self.last_write_ns = 0
        """When something was last written that is no heartbeat."""
        self._sim = sim
        self._history = history
        self.journal = journal
        self._process: StoreProcess | None = None
        self._log: Log = MemoryLog()
        self._noted = 0
        """All commits up to this revision are in the history."""
        self._recording: asyncio.Task[None] | None = None

    @property
    def process(self) -> StoreProcess:
        """The present one, or the last, if it is dead."""
        if self._process is None:
            raise RuntimeError("the world has not booted")
        return self._process

    @property
    def disk(self) -> SimDisk:
        """The present one: after a power cut it is another."""
        return self._sim.get_disk(STORE)

    async def open(self) -> None:
        for row in self.rows:
            for entry in row.writes:
                if isinstance(entry, Entry):
                    now_ns = self._sim.loop.time_ns()
                    self._history.add(RevisionCommitted(now_ns, entry.revision, entry.key, entry.value, None, None))
        await self._open(self._new_log())
        self._noted = await self.process.store.revision()
        self._record()

    def lose(self, *, power: bool) -> None:
        """Let the process die at once; without `power`, the disk too. Does nothing if it is dead."""
        if not self.is_open.is_set():
            return
        if not self.has_disk:
            raise SimulationError("a store without a disk cannot be reopened")
        self.is_open.clear()
        self._stop_recording()
        self._sim.loop.processes.kill(self.process.process)
        if power:
            self.disk.close()  # Its locks end with the process.
        else:
            self.disk.cut_power()
        self.process.end()

    async def reopen(self) -> None:
        """Open it on what the disk has. If the disk does not let it, try again, as an operator would."""
        requests = self.process.requests
        for _ in range(OPEN_ATTEMPTS_MAX):
            try:
                await self._open(self._new_log())
                break
            except (OSError, OutcomeUnknown):
                await tasks.sleep(TRY_AGAIN_AFTER)
        else:
            raise SimulationError("the store cannot be opened")
        self.process.requests.update(requests)
        reached = await self.process.store.revision()
        self._history.add(StoreReopened(self._sim.loop.time_ns(), reached))
        self._noted = min(self._noted, reached)
        self._record()

    def backup(self) -> KeptLog:
        if not isinstance(self._log, KeptLog):
            raise SimulationError("a store with a disk cannot be copied")
        return self._log.copy()

    async def restore(self, backup: KeptLog, reaches: int = 0, left_out: Sequence[str] = ()) -> None:
        """Go back to a backup, in another process. No server must be running. `reaches` is the last revision that is in
        it, if it continues with others; `left_out` are the keys that it had and the store has no more."""
        self.is_open.clear()
        self._stop_recording()
        await self.process.store.close()
        await self._open(backup.copy())
        self._noted = await self.process.store.revision()
        now_ns = self._sim.loop.time_ns()
        self._history.add(StoreRestored(now_ns, reaches or self._noted))
        for key in left_out:
            self._history.add(RevisionCommitted(now_ns, self._noted, key, None, None, None))
        self._record()

    async def close(self) -> None:
        self._stop_recording()
        if self._process is not None:
            await self._process.store.close()

    # Inside.

    def _new_log(self) -> Log:
        if not self.has_disk:
            return KeptLog(self.rows)
        self._sim.env(STORE)  # If it has lost power: from now on its disk is what has survived.
        return DiskLog(self.disk, self.make_sealer())

    async def _open(self, log: Log) -> None:
        process = SimProcess(STORE, self._sim.network.host(STORE))
        opening = self._sim.loop.create_task(LocalStore.open(log), name="store open", context=process.context())
        self._process = StoreProcess(await opening, process)
        self._log = log

    def _record(self) -> None:
        self._recording = self._sim.loop.create_task(self._note_commits(), name="record commits", context=Context())
        self.is_open.set()

    def _stop_recording(self) -> None:
        if self._recording is not None:
            self._recording.cancel()
            self._recording = None

    async def _note_commits(self) -> None:
        loop, storing = self._sim.loop, self.process
        hold = storing.store.hold(self._noted)  # A compaction must not overtake us.
        with storing.store.watch("", after=self._noted) as watch:
            async for batch in watch:
                # By then the committer has said which request it was for.
                await asyncio.sleep(0)
                for change in batch.changes:
                    value = None if change.entry is None else change.entry.value
                    previous = None if change.previous is None else change.previous.value
                    request = storing.requests.get(change.revision)
                    if not change.key.startswith(HEARTBEATS):
                        self.last_write_ns = loop.time_ns()
                    self._history.add(
                        RevisionCommitted(loop.time_ns(), change.revision, change.key, value, previous, request)
                    )
                for change in batch.changes:
                    storing.requests.pop(change.revision, None)
                self._noted = batch.revision
                if self.journal is not None:
                    self._keep(self.journal, batch.revision, joined(batch.changes))
                hold.advance(batch.revision)

    def _keep(self, journal: MemoryJournal, revision: int, changes: Sequence[KeyVersion]) -> None:
        at = micros(self._sim.get_clock(STORE).wall())
        for each in changes:
            if is_object(each.key):
                value = None if each.value is None else masked(each.key, each.value)
                journal.change(ChangeRecord(each.revision, each.key, value, at, each.decision, each.cause))
        journal.reached(revision)
