"""The scenario of a machine that loses power again and again while its store is being written, read and compacted.

A run starts the store on a simulated disk, lets a few writers and a watcher work until the power fails before some
operation of the disk, starts again with whatever has survived, and compares that with all answers that clients ever
got. `run(seed)` raises `Broken` if a promise of the store was broken, and says which.
"""

import asyncio
from dataclasses import dataclass, field

from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from mainstay.sim.disk import SimDisk
from mainstay.sim.simulation import Simulation
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import Corrupt, OutcomeUnknown, StoreUnavailable
from mainstay.store.interface import (
    FIRST_REVISION,
    Check,
    Committed,
    DeleteEntry,
    Entry,
    KeyChange,
    Put,
    Store,
    TransactionRefused,
    Write,
)
from mainstay.store.local import LocalStore

STARTS = 4  # Of the machine, in one run.
OPERATIONS_MAX = 60  # The power fails before one of so many operations of the disk.
KEYS = 3
WRITERS = 4
HISTORY_BEFORE = 1200  # Transactions written up front, so that a compaction takes several steps.


_KEYS = [f"{side}/k{number}" for side in ("left", "right") for number in range(KEYS)]


class Broken(AssertionError):
    """A promise of the store was broken."""


@dataclass
class Told:
    """All answers that clients ever got. None of them may turn out to be untrue later."""

    committed: dict[int, tuple[Write, ...]] = field(default_factory=dict)
    entries: dict[tuple[str, int], Entry] = field(default_factory=dict)
    """Seen by a reader, a watcher, or in a refusal: by key and revision."""
    compaction_asked: int = FIRST_REVISION

    def newest(self, key: str) -> int:
        """The last revision at which a writer was told of a write to this key."""
        acknowledged = [at for at, writes in self.committed.items() if any(write.key == key for write in writes)]
        return max([0, *acknowledged, *(revision for seen, revision in self.entries if seen == key)])


def run(seed: int, *, lost_sync_probability: float = 0.0, error_probability: float = 0.0) -> str:
    """One run. Raises `Broken` if a promise of the store was broken. Returns the digest of all that happened."""
    with Simulation(seed) as simulation:
        simulation.run(_run(simulation, lost_sync_probability, error_probability))
        return simulation.digest


async def _run(simulation: Simulation, lost_sync_probability: float, error_probability: float) -> None:
    told = Told()
    disk = SimDisk(simulation.choices, "machine")
    disk.lost_sync_probability = lost_sync_probability
    store = await LocalStore.open(DiskLog(disk))
    for number in range(HISTORY_BEFORE):
        await store.commit([], list(_pair(f"k{number % KEYS}", f"before-{number}")))
    for start in range(STARTS):
        disk.cut_power_before(1 + simulation.choices.choose("power", OPERATIONS_MAX))
        disk.error_probability = error_probability
        writers = [asyncio.ensure_future(_write(store, simulation, told, f"{start}.{who}")) for who in range(WRITERS)]
        others = [
            asyncio.ensure_future(_watch(store, told)),
            asyncio.ensure_future(_compact(store, simulation, told)),
        ]
        # Writers end when the store says that it takes no more: then nothing would ever touch the disk again.
        while disk.has_power and not all(writer.done() for writer in writers):
            await asyncio.sleep(0.001)
        disk.cut_power()
        # The machine is dead: nothing on it goes on, and nothing is written by whatever is being torn down.
        for worker in (*writers, *others):
            await tasks.stop(worker)
        disk = disk.after_power_cut()
        disk.error_probability = 0
        try:
            store = await LocalStore.open(DiskLog(disk))
        except (Corrupt, BrokenInvariant) as error:
            raise Broken(f"the store cannot be opened after a power cut: {error}") from error
        await _compare(store, told)
    await store.close()


def _pair(key: str, value: str) -> tuple[Put, ...]:
    """Two keys that are only ever written together. If they differ, a reader saw half a transaction."""
    return Put(f"left/{key}", value.encode()), Put(f"right/{key}", value.encode())


async def _write(store: Store, simulation: Simulation, told: Told, who: str) -> None:
    """Writes pairs as fast as it can, often against others on the same key."""
    for number in range(1000):
        key = f"k{simulation.choices.choose('key', KEYS)}"
        entry = await store.get(f"left/{key}")
        revision = 0 if entry is None else entry.revision
        writes: tuple[Write, ...] = _pair(key, f"{who}.{number}")
        if entry is not None and simulation.choices.choose("delete", 4) == 3:
            writes = tuple(DeleteEntry(write.key) for write in writes)
        try:
            answer = await store.commit([Check(f"left/{key}", revision)], writes)
        except (OutcomeUnknown, StoreUnavailable):
            return
        if isinstance(answer, Committed):
            told.committed[answer.revision] = writes
        else:
            _note(told, answer)
        await asyncio.sleep(simulation.choices.choose("pause", 4) / 1000)


def _note(told: Told, answer: TransactionRefused) -> None:
    for entry in answer.found.values():
        if entry is not None:
            told.entries[entry.key, entry.revision] = entry


async def _watch(store: Store, told: Told) -> None:
    with store.watch("", after=await store.revision()) as watch:
        async for batch in watch:
            for change in batch.changes:
                if change.entry is not None:
                    told.entries[change.key, change.revision] = change.entry


async def _compact(store: Store, simulation: Simulation, told: Told) -> None:
    while True:
        await asyncio.sleep(simulation.choices.choose("compaction", 20) / 1000)
        told.compaction_asked = await store.revision() - 5
        try:
            await store.compact(told.compaction_asked)
        except (OutcomeUnknown, StoreUnavailable):
            return


async def _compare(store: Store, told: Told) -> None:
    """What is there now, against all that was told before."""
    page = await store.range("")
    if told.committed and page.revision < max(told.committed):
        raise Broken(f"revision {max(told.committed)} was acknowledged, but the store is back at {page.revision}")
    changes = await _history(store, told.compaction_asked, page.revision)
    written = {(change.key, change.revision): change.entry for change in changes}
    state = {entry.key: entry for entry in page.entries}
    newest = {key: told.newest(key) for key in _KEYS}
    for change in changes:
        newest[change.key] = max(newest[change.key], change.revision)
    for revision, writes in told.committed.items():
        for write in writes:
            # Of what is compacted only the newest of a key can still be told, and only if it was not written since.
            if revision > told.compaction_asked:
                found = written.get((write.key, revision))
            elif revision == newest[write.key]:
                found = state.get(write.key)
            else:
                continue
            if (found and found.value) != (write.value if isinstance(write, Put) else None):
                raise Broken(f"{write} was acknowledged at revision {revision}; found {found}")
    for (key, revision), seen in told.entries.items():
        if revision > told.compaction_asked and written.get((key, revision)) != seen:
            raise Broken(f"{seen} was shown to a reader; found {written.get((key, revision))}")
    for number in range(KEYS):
        left, right = state.get(f"left/k{number}"), state.get(f"right/k{number}")
        if (left and (left.value, left.revision)) != (right and (right.value, right.revision)):
            raise Broken(f"half a transaction: {left} and {right}")


async def _history(store: Store, after: int, latest: int) -> list[KeyChange]:
    changes: list[KeyChange] = []
    if after >= latest:
        return changes
    with store.watch("", after=after) as watch:
        while not changes or changes[-1].revision < latest:
            changes += (await anext(watch)).changes
    revisions = sorted({change.revision for change in changes})
    if revisions != list(range(after + 1, latest + 1)):
        raise Broken(f"the history after {after} has {len(revisions)} revisions, not {latest - after}")
    return changes
