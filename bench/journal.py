"""What does the journal cost: of time and room for a decision and for a change, and of time to rebuild a view?

Decisions look like those of the scheduler: a view of four kinds, twelve objects looked at, one write. Changes are pods
of about 1.4 KB, 10,000 of them, each changed about ten times. Everything goes to the disk of the current directory,
compressed as in production. Input is generated with seed 7.

The CPU time of a decision is what the component pays on its own loop (`record`) and, apart from that, everything
including what the writing thread does until the segments are closed.
"""

import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from bench.measure import Figure, Stopwatch, main
from mainstay.env import SystemClock, SystemDisk, tasks
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.history import HistoryBatch, HistoryRecorder, KeyVersion, Snapshot
from mainstay.journal.reader import Reader
from mainstay.journal.record import (
    AppliedPolicy,
    DecisionRecord,
    Ending,
    LookedAt,
    Outcome,
    Subject,
    ViewPart,
    WriteResult,
    action,
    micros,
)

OBJECTS: Final = 10_000
BATCH: Final = 200
_FOR_EVER: Final = timedelta(days=1)


def measure(quick: bool) -> Iterable[Figure]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as directory:
        yield from tasks.run(_decisions(Path(directory), 10_000 if quick else 100_000))
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as directory:
        yield from tasks.run(_changes(Path(directory), 20_000 if quick else 100_000))


async def _decisions(directory: Path, count: int) -> list[Figure]:
    disk = SystemDisk(directory)
    clock = SystemClock()
    chance = Random(7)
    log = DecisionRecorder(disk, clock)
    await log.start()
    alone = 0.0
    with Stopwatch() as all_of_it:
        for first in range(0, count, 1_000):
            batch = [_a_decision(chance, number, micros(clock.wall())) for number in range(first, first + 1_000)]
            with Stopwatch() as watch:
                for decision in batch:
                    log.record(decision)
            alone += watch.cpu_s
            await log.flush()
        await log.close()
    with Stopwatch() as making:
        for number in range(count):
            _a_decision(chance, number, 0)
    if log.dropped or log.details_dropped:
        raise AssertionError(f"{log.dropped} decisions were dropped, {log.details_dropped} lost their detail")
    total = (all_of_it.cpu_s - making.cpu_s) / count * 1e6
    stored = sum(len(disk.read(name)) for name in disk.names()) / count
    disk.close()
    return [
        Figure("journal: record a decision, on the loop", alone / count * 1e6, "µs CPU", goal="≤ 20"),
        Figure("journal: record a decision, with writing and compressing", total, "µs CPU"),
        Figure("journal: a decision on disk", stored, "bytes", goal="≤ 400"),
    ]


def _a_decision(chance: Random, number: int, at: int) -> DecisionRecord:
    name = f"web-{number % 3_000}-{chance.randrange(1 << 20):05x}"
    revision = 900_000 + number * 3
    looked_at = tuple(
        LookedAt("nodes", "", f"node-{chance.randrange(500)}", revision - chance.randrange(5_000)) for _ in range(12)
    )
    return DecisionRecord(
        id=f"scheduler-0.17.{number}",
        at=at,
        component="scheduler",
        build="0.1.0+9e3c8a1",
        subject=Subject("pods", f"team-{number % 7}", name, f"{chance.getrandbits(128):032x}", 1),
        outcome=Outcome(Ending.DONE, "Bound"),
        term="mainstay-system/scheduler=880123",
        view=(
            ViewPart("pods", revision),
            ViewPart("nodes", revision - 5),
            ViewPart("quotas", 899_000),
            ViewPart("leases", revision),
        ),
        now=at,
        seed="17",
        policies=(AppliedPolicy("placementpolicies.mainstay.dev", "default", "0b1e", 880_000),),
        queue_wait_us=chance.randrange(20_000),
        attempts=1,
        woken_by=(revision - 1,),
        woken_count=1,
        looked_at=looked_at,
        looked_at_count=12,
        reasons=("the least allocated of 38 nodes that fit",),
        actions=(action("create", "pods", "team", name, subresource="binding", body=name.encode()),),
        writes=(WriteResult("pods", "team", name, revision + 1),),
    )


class _Generated:
    """A source that first has all objects, and then changes them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._chance = Random(7)
        self.bytes = 0

    async def snapshot(self, at: int | None) -> Snapshot:
        return Snapshot(at or OBJECTS, self._pages())

    async def _pages(self) -> AsyncIterator[Sequence[KeyVersion]]:
        for first in range(0, OBJECTS, 500):
            yield [KeyVersion(number + 1, _key(number), _a_pod(number, 0)) for number in range(first, first + 500)]

    async def changes(self, after: int) -> AsyncGenerator[HistoryBatch, None]:
        for first in range(0, self._count, BATCH):
            changes = []
            for revision in range(OBJECTS + first + 1, OBJECTS + first + BATCH + 1):
                number = self._chance.randrange(OBJECTS)
                value = _a_pod(number, revision)
                self.bytes += len(value)
                changes.append(
                    KeyVersion(revision, _key(number), value, f"scheduler-0.17.{revision}", str(revision - 7))
                )
            yield HistoryBatch(changes[-1].revision, changes)
        await tasks.sleep(_FOR_EVER)

    def advance(self, revision: int) -> None:
        pass


async def _changes(directory: Path, count: int) -> list[Figure]:
    disk = SystemDisk(directory)
    source = _Generated(count)
    recorder = HistoryRecorder(disk, source, SystemClock())
    with Stopwatch() as recording:
        await recorder.start()
        await recorder.reach(OBJECTS + count)
        await recorder.close()
    with Stopwatch() as making:
        for number in range(count):
            _a_pod(number % OBJECTS, number)
    history = sum(len(disk.read(name)) for name in disk.names() if name.startswith("history"))
    snapshots = [len(disk.read(name)) for name in disk.names() if name.startswith("snapshot") and name.endswith("zst")]
    reader = Reader(disk)
    with Stopwatch() as rebuilding:
        state = reader.state({"pods": OBJECTS + count})
    if not state.is_complete or len(state.kinds["pods"]) != OBJECTS:
        raise AssertionError(f"the state was not rebuilt: {state.gaps}")
    with Stopwatch() as finding:
        found = reader.changes(kind="pods", namespace="team-1", name="web-02000")
    disk.close()
    return [
        Figure("journal: record a change, all of it", (recording.cpu_s - making.cpu_s) / count * 1e6, "µs CPU"),
        Figure("journal: a change on disk", history / count, "bytes"),
        Figure("journal: a change before compression", source.bytes / count, "bytes"),
        Figure("journal: a snapshot of 10,000 objects", snapshots[-1] / 1e6, "MB"),
        Figure(
            "journal: rebuild a view of 10,000 objects",
            rebuilding.wall_s * 1e3,
            "ms",
            rebuilding.cpu_s * 1e6,
            goal="≤ 1000",
        ),
        Figure(f"journal: find {len(found.records)} changes of one object", finding.wall_s * 1e3, "ms"),
    ]


def _key(number: int) -> str:
    return f"core/pods/team-{number // 1_500}/web-{number:05}"


def _a_pod(number: int, revision: int) -> bytes:
    fields: dict[str, object] = {
        f"f:{name}": {} for name in ("image", "name", "resources", "terminationMessagePath", "imagePullPolicy")
    }
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"web-{number:05}",
                "namespace": f"team-{number // 1_500}",
                "uid": f"{number * 2654435761 % 2**128:032x}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": f"web-{number % 20}", "pod-template-hash": f"{number % 40:08x}"},
                "managedFields": [
                    {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": fields}}
                    for manager in ("replicasets", "scheduler", "agent")
                ],
            },
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": f"registry.example/web:{number % 20}",
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                        "terminationMessagePath": "/dev/termination-log",
                        "imagePullPolicy": "IfNotPresent",
                    }
                ],
                "nodeName": f"node-{revision % 500}",
                "schedulerName": "mainstay",
                "restartPolicy": "Always",
            },
            "status": {
                "phase": "Running" if revision % 3 else "Pending",
                "podIP": f"10.{revision % 251}.{number % 253}.7",
                "conditions": [
                    {"type": name, "status": "True", "lastTransitionTime": f"2026-01-01T00:{revision % 60:02}:00Z"}
                    for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
                ],
            },
        }
    )


if __name__ == "__main__":
    main(measure)
