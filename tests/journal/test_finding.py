"""Finding a few records among many: only what may have them is read, and the answer is the same as if all was."""

from array import array
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.env import frames
from mainstay.journal import files, name_hashes
from mainstay.journal.files import Series
from mainstay.journal.reader import Reader
from mainstay.journal.record import (
    DecisionRecord,
    LostRecord,
    SampledRecord,
    Subject,
    WriteRecord,
    encode,
    moment,
)
from mainstay.journal.segments import SegmentLimits, Segments
from mainstay.sim.disk import SimDisk
from mainstay.sim.run.choices import Choices
from tests.journal.builders import AT, a_decision


class CountingDisk(SimDisk):
    """Knows how often each sort of file was read."""

    def __init__(self) -> None:
        super().__init__(Choices(), "disk")
        self.reads: dict[str, int] = {}

    def read(self, name: str) -> bytes:
        suffix = name.rpartition(".")[2]
        self.reads[suffix] = self.reads.get(suffix, 0) + 1
        return super().read(name)


def about(number: int, objects: int = 40, **parts: Any) -> DecisionRecord:
    name = f"set-{number % objects}"
    given: dict[str, Any] = {
        "id": f"d-{number}",
        "at": AT + number * 1_000_000,
        "subject": Subject("replicasets.apps", "default", name, f"uid-{name}"),
        "component": f"component-{number % 3}",
    }
    return a_decision(**{**given, **parts})


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 1_000)


def written(disk: SimDisk, records: list[Any], *, together: int = 5, segment_bytes: int = 6_000) -> Segments:
    segments = Segments(disk, Series.DECISIONS, SegmentLimits(segment_bytes=segment_bytes))
    segments.open()
    for first in range(0, len(records), together):
        part = records[first : first + together]
        segments.append([encode(record) for record in part], getattr(part[-1], "at", AT))
    return segments


def test_only_files_that_may_have_the_object_are_read(small_blocks: None):
    disk = CountingDisk()
    records = [about(number) for number in range(400)]
    records[37] = about(37, subject=Subject("pods", "default", "rare", "uid-rare"))
    written(disk, records).roll()
    closed = sum(name.endswith(".zst") for name in disk.names())
    assert closed >= 10

    disk.reads.clear()
    assert Reader(disk).decisions(kind="pods", namespace="default", name="rare").records == (records[37],)
    assert disk.reads == {"manifest": 1, "index": closed, "names": closed, "zst": 1}

    disk.reads.clear()
    assert Reader(disk).decision("d-37") == records[37]
    assert disk.reads["zst"] == 1
    disk.reads.clear()
    assert Reader(disk).decisions(uid="uid-rare").records == (records[37],)
    assert Reader(disk).decisions(kind="pods").records == (records[37],)
    assert Reader(disk).decisions(component="missing").records == ()
    assert disk.reads["zst"] == 2


def test_a_reader_that_lives_reads_closed_files_once(small_blocks: None):
    disk = CountingDisk()
    segments = written(disk, [about(number) for number in range(200)])
    reader = Reader(disk)
    reader.decision("d-3")
    disk.reads.clear()

    assert reader.decision("d-4") == about(4)
    assert disk.reads.get("index", 0) == disk.reads.get("names", 0) == 0

    # And sees what was written since, in open files and closed ones.
    segments.append([encode(about(200))], AT)
    assert reader.decision("d-200") == about(200)
    segments.append([encode(about(201))], AT)
    segments.roll()
    assert reader.decision("d-201") == about(201)
    assert reader.decision("d-200") == about(200)
    segments.forget(sorted(segments.closed)[:1])
    assert reader.decision("d-0") is None


def test_of_more_than_the_limit_the_latest_are_found_without_reading_the_rest(small_blocks: None):
    disk = CountingDisk()
    records = [about(number) for number in range(400)]
    written(disk, records).roll()
    disk.reads.clear()

    assert Reader(disk).decisions(limit=7).records == tuple(records[-7:])
    assert disk.reads["zst"] == 1
    assert Reader(disk).decisions(limit=0).records == ()


def test_the_latest_are_those_by_time_also_where_clocks_have_jumped(small_blocks: None):
    disk = SimDisk(Choices(), "disk")
    chance = Random(7)
    records = [about(number, at=AT + chance.randrange(1_000_000)) for number in range(300)]
    written(disk, records).roll()
    in_order = sorted(records, key=lambda record: (record.at, record.id))

    for limit in (1, 10, 100, 299, 300, 1_000):
        assert Reader(disk).decisions(limit=limit).records == tuple(in_order[-limit:])
    mine = [record for record in in_order if record.component == "component-1"]
    assert Reader(disk).decisions(component="component-1", limit=9).records == tuple(mine[-9:])


def test_what_is_not_there_is_told_also_by_files_that_need_not_be_read(small_blocks: None):
    disk = CountingDisk()
    lost = LostRecord(AT + 1, AT + 2, 5, 0, "scheduler")
    sampled = [SampledRecord(AT + number, AT + number + 1, "rest", "hpa", 10) for number in range(3)]
    records = [*(about(number) for number in range(200)), lost, *sampled, *(about(each) for each in range(200, 400))]
    written(disk, records).roll()
    disk.reads.clear()

    answer = Reader(disk).decisions(kind="replicasets.apps", namespace="default", name="missing")

    assert answer.lost == (lost,)
    assert answer.left_out == (SampledRecord(AT, AT + 3, "rest", "hpa", 30),)
    assert not answer.is_complete
    assert "zst" not in disk.reads
    later = Reader(disk).decisions(since=moment(AT + 100))
    assert (later.lost, later.left_out, later.is_complete) == ((), (), True)


def test_who_wrote_after_a_revision_is_found_without_a_time(small_blocks: None):
    disk = SimDisk(Choices(), "disk")
    writes = [
        WriteRecord(number, "pods", "default", f"p{number % 7}", AT + number * 60_000_000, "patch", "ana")
        for number in range(1, 200)
    ]
    written(disk, writes).roll()

    assert Reader(disk).writes(after=150).records == tuple(writes[150:])
    assert Reader(disk).writes(after=150, limit=3).records == tuple(writes[-3:])
    assert Reader(disk).writes(kind="pods", namespace="default", name="p3").records == tuple(writes[2::7])


def test_files_of_names_of_the_first_format_are_understood(small_blocks: None):
    disk = CountingDisk()
    records = [about(number) for number in range(100)]
    written(disk, records).roll()
    for name in [each for each in disk.names() if each.endswith(".names")]:
        found = files.read_names(disk.read(name))
        first = found._bounds[0]  # type: ignore[index]
        old = array("I", sorted(set(found._hashes[first:])))
        disk.remove(name)
        disk.append(name, files.MAGIC + frames.frame(old.tobytes()))

    disk.reads.clear()
    assert Reader(disk).decision("d-50") == records[50]
    assert disk.reads["zst"] == 1


@pytest.mark.parametrize("harm", ["gone", "cut", "garbled", "other"])
def test_without_its_names_a_file_is_looked_into(small_blocks: None, harm: str):
    disk = SimDisk(Choices(), "disk")
    records = [about(number) for number in range(100)]
    written(disk, records).roll()
    first, *_ = [each for each in disk.names() if each.endswith(".names")]
    data = disk.read(first)
    content = {
        "cut": data[: len(data) // 2],
        "garbled": data[:40] + b"\xff" + data[41:],
        "other": name_hashes.MAGIC + frames.frame(name_hashes.packed([set()])),
    }
    disk.remove(first)
    if harm in content:
        disk.append(first, content[harm])

    reader = Reader(disk)
    if harm == "other":  # What it says of its only block is believed. The others it does not know.
        assert reader.decision("d-20") == records[20]
    else:
        assert reader.decision("d-1") == records[1]
    assert reader.decision("d-99") == records[99]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    steps=st.lists(st.sampled_from(["write", "write", "write", "roll", "forget", "ask"]), max_size=30),
)
def test_a_reader_that_lives_says_the_same_as_a_new_one(seed: int, steps: list[str]):
    chance = Random(seed)
    disk = SimDisk(Choices(), "disk")
    segments = Segments(disk, Series.DECISIONS, SegmentLimits(segment_bytes=3_000))
    segments.open()
    living = Reader(disk)
    number = 0
    for step in [*steps, "ask"]:
        match step:
            case "write":
                records = [about(number + each, 5, at=AT + chance.randrange(10_000)) for each in range(3)]
                number += 3
                segments.append([encode(record) for record in records], AT)
            case "roll":
                segments.roll()
            case "forget":
                segments.forget(sorted(segments.closed)[:1])
            case "ask":
                limit = chance.choice([1, 3, 1_000])
                for wanted in (
                    {"kind": "replicasets.apps", "namespace": "default", "name": f"set-{chance.randrange(5)}"},
                    {"component": "component-2"},
                    {"since": moment(AT + 5_000)},
                    {},
                ):
                    assert living.decisions(**wanted, limit=limit) == Reader(disk).decisions(**wanted, limit=limit)
                which = f"d-{chance.randrange(number + 1)}"
                assert living.decision(which) == Reader(disk).decision(which)
