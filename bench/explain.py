"""What does it cost to explain: room for a decision, time to find one among a million, time for `why`, and the journal
itself while pods are bound?

The million decisions are copies of real ones (_decision_records.py) about 50,000 objects, kept as a server keeps them:
by the default rules of sampling, compressed, with who asked for each write among them. After them comes the journal of
a simulated cluster of six nodes in which the replicas of a deployment cannot be placed; `why` is asked about one of
them, and runs the scheduler again to find out what would help. History before that: 100,000 changes of other objects.

"Cold" is a reader that has just been made, as each command makes one that reads files; "warm" is that of a server,
which has been asked before. The files are in the cache of the operating system both times.

What the journal costs a cluster is in _journal_overhead.py.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import msgspec

from bench import _journal_overhead
from bench._decision_records import copies, lived_journal, write_of
from bench.measure import Figure, main
from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.env import SystemDisk, tasks
from mainstay.explain.moment import Moment
from mainstay.explain.why.answer import WhyAnswer
from mainstay.explain.why.dispatch import why
from mainstay.journal.files import Series
from mainstay.journal.local_journal import LocalJournal
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.outbox import BATCH_BYTES
from mainstay.journal.reader import Reader
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    EntryRecord,
    ReachedRecord,
    Record,
    encode,
)
from mainstay.journal.sampling import Sampler
from mainstay.journal.segments import Segments
from mainstay.journal.snapshots import Snapshots
from mainstay.registry import REGISTRY

OBJECTS: Final = 50_000
SEED: Final = 7
ASKED: Final = 20  # Objects and decisions, each once: the median of so many.

T = TypeVar("T")


def measure(quick: bool) -> Iterable[Figure]:
    count = 20_000 if quick else 1_000_000
    with TemporaryDirectory(dir=".", prefix=".bench-") as text:
        disk = SystemDisk(Path(text))
        lived = lived_journal()
        written = _write_decisions(disk, lived, count)
        yield Figure(
            f"{count:,} decisions: one on disk, index and all", written.bytes / written.records, "bytes", None, "≤ 400"
        )
        _write_history(disk, lived, written.revision, 5_000 if quick else 100_000)
        yield from _finding(disk, count, written.asked)
        yield from tasks.run(_why(disk, count))
        disk.close()
    yield from _journal_overhead.measure(quick)


# What is in the journal.


class _Written(msgspec.Struct):
    records: int
    """Decisions that are on disk, without those that were lived."""
    bytes: int
    revision: int
    """The last that any of them knew."""
    asked: list[DecisionRecord]


def _write_decisions(disk: SystemDisk, lived: MemoryJournal, count: int) -> _Written:
    templates = lived.records()
    sampler, chance = Sampler(), Random(SEED)
    segments = Segments(disk, Series.DECISIONS)
    segments.open()
    asked: list[DecisionRecord] = []
    pieces = _Pieces(segments)
    ends_at = templates[0].at - 1
    for number, record in enumerate(copies(templates, count, OBJECTS, ends_at)):
        kept = sampler.sampled(record)
        if kept is None:
            raise AssertionError("the default rules keep everything")
        pieces.add(kept, kept.at)
        if (write := write_of(record, chance)) is not None:
            pieces.add(write, write.at)
        if number % (count // ASKED) == count // ASKED // 2:
            asked.append(kept)
    pieces.end(ends_at)
    segments.roll()
    size = sum(len(disk.read(name)) for name in disk.names())
    offset = 1_000 + 2 * count + 10
    for record in templates:
        pieces.add(_moved(record, offset), record.at)
    for asked_for in tasks.run(lived.writes(limit=1_000_000)).records:
        pieces.add(msgspec.structs.replace(asked_for, revision=asked_for.revision + offset), asked_for.at)
    pieces.end(templates[-1].at)
    return _Written(count, size, offset, asked)


class _Pieces:
    """Appends records as a recorder does."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, record: Record, at: int) -> None:
        self._waiting.append(encode(record))
        self._size += len(self._waiting[-1])
        if self._size >= BATCH_BYTES:
            self.end(at)

    def end(self, at: int) -> None:
        if self._waiting:
            self._segments.append(self._waiting, at)
        self._waiting, self._size = [], 0


def _moved(record: DecisionRecord, offset: int) -> DecisionRecord:
    """The same decision in a cluster that has had so many revisions before."""

    def later(revision: int) -> int:
        return revision + offset if revision else 0

    replace = msgspec.structs.replace
    return replace(
        record,
        view=tuple([replace(each, revision=later(each.revision)) for each in record.view]),
        woken_by=tuple(map(later, record.woken_by)),
        looked_at=tuple([replace(each, revision=later(each.revision)) for each in record.looked_at]),
        writes=tuple([replace(each, revision=later(each.revision)) for each in record.writes]),
        policies=tuple([replace(each, revision=later(each.revision)) for each in record.policies]),
    )


def _write_history(disk: SystemDisk, lived: MemoryJournal, offset: int, before: int) -> None:
    changes = tasks.run(lived.changes()).records
    snapshots = Snapshots(disk)
    segments = Segments(disk, Series.HISTORY)
    segments.open()
    first_at = changes[0].at
    pieces = _Pieces(segments)
    number = offset - before
    _snapshot(snapshots, number)
    while number < offset:
        until = min(number + 500, offset)
        at = first_at - (offset - until) * 1_000 - 1
        pieces.add(ReachedRecord(number, until, at), at)
        for revision in range(number + 1, until + 1):
            pieces.add(_filler(revision, at), at)
        pieces.end(at)
        number = until
    _snapshot(snapshots, offset)
    for change in changes:
        revision = change.revision + offset
        pieces.add(ReachedRecord(number, revision, change.at), change.at)
        pieces.add(msgspec.structs.replace(change, revision=revision), change.at)
        number = max(number, revision)
    pieces.end(changes[-1].at)


def _snapshot(snapshots: Snapshots, revision: int) -> None:
    entries: Sequence[EntryRecord] = ()
    snapshots.begin(revision)
    snapshots.add(entries)
    snapshots.finish(revision)


def _filler(revision: int, at: int) -> ChangeRecord:
    """A change of one of a thousand objects that no question is about. Every other one is a deletion: none is left."""
    name = f"filler-{revision // 2 % 1_000}"
    value = msgspec.json.encode({"metadata": {"name": name, "namespace": "team"}, "data": {"text": "x" * 500}})
    return ChangeRecord(revision, f"core/configmaps/team/{name}", None if revision % 2 else value, at, f"d-{revision}")


# Asking it.


def _finding(disk: SystemDisk, count: int, asked: Sequence[DecisionRecord]) -> Iterator[Figure]:
    def of_object(reader: Reader, record: DecisionRecord) -> object:
        subject = record.subject
        found = reader.decisions(kind=subject.kind, namespace=subject.namespace, name=subject.name)
        if record not in found.records:
            raise AssertionError(f"{record.id} is not found")
        return found

    def by_id(reader: Reader, record: DecisionRecord) -> object:
        if reader.decision(record.id) != record:
            raise AssertionError(f"{record.id} is not found")
        return record

    def writes(reader: Reader, record: DecisionRecord) -> object:
        subject = record.subject
        return reader.writes(kind=subject.kind, namespace=subject.namespace, name=subject.name)

    def changes(reader: Reader, record: DecisionRecord) -> object:
        found = reader.changes(kind="configmaps", namespace="team", name="filler-77")
        if not found.records:
            raise AssertionError("no changes are found")
        return found

    def latest(reader: Reader, record: DecisionRecord) -> object:
        return reader.decisions(component=record.component, limit=100)

    for what, ask in (
        ("all decisions about one object", of_object),
        ("one decision by its id", by_id),
        ("who wrote to one object", writes),
        ("all of the hundred changes of one object", changes),
        ("the last 100 decisions of a component", latest),
    ):
        living = Reader(disk)
        ask(living, asked[0])
        cold = [_time_ms(partial(ask, Reader(disk), record)) for record in asked]
        warm = [_time_ms(partial(ask, living, record)) for record in asked]
        goal = "≤ 300" if ask is not latest else ""
        yield Figure(f"{count:,} decisions: {what}, cold", statistics.median(cold), "ms", None, goal)
        yield Figure(f"{count:,} decisions: {what}, warm", statistics.median(warm), "ms")


async def _why(disk: SystemDisk, count: int) -> list[Figure]:
    figures = []
    for kind, name in ((PODS, "a pod that cannot be placed"), (DEPLOYMENTS, "its deployment")):
        times = []
        for _ in range(5):
            journal = LocalJournal(Reader(disk))
            start = time.perf_counter()
            answer = await _asked(journal, kind is PODS)
            times.append((time.perf_counter() - start) * 1e3)
            journal.close()
            _require_cause(answer)
        figures.append(Figure(f"{count:,} decisions: why {name}, cold", statistics.median(times), "ms", None, "≤ 1000"))
    return figures


async def _asked(journal: LocalJournal, is_pod: bool) -> WhyAnswer:
    now = await Moment.now(journal)
    if not is_pod:
        return await why(now, REGISTRY, DEPLOYMENTS, "stuck", "default")
    name = next(pod["metadata"]["name"] for pod in await now.all(PODS) if pod["metadata"]["name"].startswith("stuck"))
    return await why(now, REGISTRY, PODS, name, "default")


def _require_cause(answer: WhyAnswer) -> None:
    """A quick answer that is wrong would be no figure."""
    if "cpu" not in answer.sentence.lower():
        raise AssertionError(f"why said: {answer.sentence}")


def _time_ms(ask: Callable[[], T]) -> float:
    start = time.perf_counter()
    ask()
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main(measure)
