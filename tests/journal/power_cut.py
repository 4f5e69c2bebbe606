"""The scenario of a journal whose process or machine dies again and again while a store is being written and compacted.

The store is elsewhere and lives on. A run records its history and some decisions, ends by a power cut before some
operation of the disk, or by the end of the process alone, looks at what a reader finds on the disk, starts again, and
looks again. `run(seed)` raises `Broken` if something that was reported durable is gone, or something is there that
never was.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from mainstay.env import tasks
from mainstay.journal.coverage import holes
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.history import HistoryRecorder
from mainstay.journal.reader import Reader
from mainstay.journal.record import DecisionRecord, micros
from mainstay.journal.segments import SegmentLimits
from mainstay.server.decisions.history_source import StoreHistory
from mainstay.sim.disk import SimDisk
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Committed, DeleteEntry, Put, Store, Write
from tests.journal.builders import a_decision, a_pod

STARTS = 5
OPERATIONS_MAX = 120
KEYS = 4
LIMITS = SegmentLimits(segment_bytes=1_500, segment_age=timedelta(seconds=4), snapshot_changes=12)


class Broken(AssertionError):
    """A promise of the journal was broken."""


@dataclass
class World:
    store: Store
    states: dict[int, dict[str, tuple[int, bytes]]] = field(default_factory=lambda: {1: {}})
    """What the store had at each revision."""
    frontier: int = 0
    """The latest revision that was reported durable."""
    decided: dict[str, DecisionRecord] = field(default_factory=dict)
    durable: list[str] = field(default_factory=list)
    """The decisions that were reported durable."""
    has_gaps: bool = False
    is_writing: bool = False


class _ToldSource(StoreHistory):
    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self._world = world

    def advance(self, revision: int) -> None:
        super().advance(revision)
        self._world.frontier = max(self._world.frontier, revision)


def run(seed: int, *, error_probability: float = 0.0) -> str:
    """One run. Returns the digest of all that happened."""
    with Simulation(seed) as simulation:
        simulation.run(_run(simulation, error_probability))
        return simulation.digest


async def _run(simulation: Simulation, error_probability: float) -> None:
    choices = simulation.choices
    world = World(await open_memory())
    disk = SimDisk(choices, "machine")
    source = _ToldSource(world)
    for start in range(STARTS):
        disk.cut_power_before(1 + choices.choose("power", OPERATIONS_MAX))
        is_only_the_process = choices.choose("only-the-process", 2) == 1
        until = timedelta(milliseconds=choices.choose("until", 8_000))
        recording = tasks.spawn(
            _record(simulation, disk, source, world, start, error_probability), name="journal's process"
        )
        world.is_writing = True
        writing = tasks.spawn(_write(simulation, world, start), name="writing")
        try:
            async with tasks.timeout(until if is_only_the_process else timedelta(seconds=60)):
                while disk.has_power:
                    await tasks.sleep(timedelta(milliseconds=5))
        except TimeoutError:
            pass
        if disk.has_power and is_only_the_process:
            disk.cut_power_before(0)  # Never: the machine goes on.
            await _end_process()
            disk.close()
        else:
            disk.cut_power()
            await _end_process()
            disk = disk.after_power_cut()
        world.is_writing = False
        await asyncio.wait([recording, writing])
        disk.error_probability = 0
        if choices.choose("away", 4) == 3:
            # The recorder is away for so long that the store forgets.
            source.close()
            source = _ToldSource(world)
            await _commit(simulation, world, f"away-{start}")
            await world.store.compact(await world.store.revision())
            world.has_gaps = True
        _compare(Reader(disk), world)


async def _end_process() -> None:
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        if task.get_name().startswith("journal"):
            await tasks.stop(task)


async def _record(
    simulation: Simulation, disk: SimDisk, source: StoreHistory, world: World, start: int, error_probability: float
) -> None:
    clock = simulation.get_clock("journal")
    log = DecisionRecorder(disk, clock, LIMITS)
    recorder = HistoryRecorder(disk, source, clock, LIMITS)
    await log.start()
    await recorder.start()
    disk.error_probability = error_probability
    own: list[str] = []
    for number in range(100_000):
        decision = a_decision(
            f"d{number % 3}", id=f"{start}.{number}", at=micros(clock.wall()), reasons=("because",) * (number % 5)
        )
        world.decided[decision.id] = decision
        own.append(decision.id)
        log.record(decision)
        if simulation.choices.choose("flush", 3) == 0:
            await log.flush()
            world.durable += own
            own.clear()
        await tasks.sleep(timedelta(milliseconds=simulation.choices.choose("decide", 200)))


async def _write(simulation: Simulation, world: World, start: int) -> None:
    number = 0
    while world.is_writing:
        number += 1
        await _commit(simulation, world, f"{start}-{number}")
        if simulation.choices.choose("compact", 6) == 0:
            await world.store.compact(await world.store.revision())
        await tasks.sleep(timedelta(milliseconds=simulation.choices.choose("pause", 100)))


async def _commit(simulation: Simulation, world: World, value: str) -> None:
    """Write one or two keys together: no reader may see half of it."""
    first = simulation.choices.choose("key", KEYS)
    writes: list[Write] = []
    for offset in range(1 + simulation.choices.choose("both", 2)):
        key = f"core/pods/default/p{(first + offset) % KEYS}"
        is_delete = simulation.choices.choose("delete", 4) == 3
        writes.append(DeleteEntry(key) if is_delete else Put(key, a_pod(value)))
    answer = await world.store.commit([], writes)
    assert isinstance(answer, Committed)
    state = dict(world.states[max(world.states)])
    for write in writes:
        if isinstance(write, Put):
            state[write.key] = answer.revision, write.value
        else:
            state.pop(write.key, None)
    world.states[answer.revision] = state


def _compare(reader: Reader, world: World) -> None:
    if reader.damages():
        raise Broken(f"a crash is no damage: {reader.damages()}")
    changes = reader.changes()
    if not world.has_gaps and changes.gaps:
        raise Broken(f"nothing was missed, yet there are gaps: {changes.gaps}")
    recorded = reader.recorded()
    if world.frontier and (not recorded or recorded[-1][1] < world.frontier):
        raise Broken(f"revision {world.frontier} was reported durable; the journal has {recorded}")
    for revision in range(1, world.frontier + 1):
        state = reader.state({"pods": revision})
        if not state.is_complete:
            continue
        found = {f"core/pods/{key.namespace}/{key.name}": tuple(each) for key, each in state.kinds["pods"].items()}
        if found != world.states[max(each for each in world.states if each <= revision)]:
            raise Broken(f"at revision {revision} the store did not have {found}")
    if recorded and not world.has_gaps and holes((recorded[0][0], world.frontier), recorded):
        raise Broken(f"revisions up to {world.frontier} were reported durable, and some are gone: {recorded}")
    for change in changes.records:
        expected = world.states[change.revision].get(change.key)
        if (expected and expected[1]) != change.value:
            raise Broken(f"{change} was never written")
    found_decisions = {each.id: each for each in reader.decisions(limit=1_000_000).records}
    for decision in world.durable:
        if decision not in found_decisions:
            raise Broken(f"decision {decision} was reported durable and is gone")
    for name, record in found_decisions.items():
        if world.decided.get(name) != record:
            raise Broken(f"{record} was never recorded")
