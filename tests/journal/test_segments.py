"""Segments on a disk: closing, compressing, finding, and what becomes of damage."""

import contextlib
import errno
import os
from pathlib import Path

import pytest

from mainstay.env.disk import Disk, DiskFull, SystemDisk
from mainstay.env.invariants import BrokenInvariant
from mainstay.journal.errors import JournalInUse
from mainstay.journal.files import Series, Suffix, parsed_name
from mainstay.journal.record import ChangeRecord, ReachedRecord, Record, encode
from mainstay.journal.scan import Scan
from mainstay.journal.segments import SegmentLimits, Segments
from mainstay.sim.disk import PowerLost, SimDisk, Survival
from mainstay.sim.run.choices import Choices
from tests.journal.builders import AT, a_pod
from tests.store.test_disk_log import Always


def a_disk(choices: Choices | None = None) -> SimDisk:
    return SimDisk(choices or Choices(), "disk")


def opened(disk: SimDisk, segment_bytes: int = 2_000) -> Segments:
    segments = Segments(disk, Series.HISTORY, SegmentLimits(segment_bytes=segment_bytes))
    segments.open()
    return segments


def write(segments: Segments, first: int, last: int) -> None:
    for revision in range(first, last + 1):
        records: list[Record] = [
            ReachedRecord(revision - 1, revision, AT + revision),
            ChangeRecord(revision, f"core/pods/default/p{revision}", a_pod(f"p{revision}"), AT + revision),
        ]
        segments.append([encode(record) for record in records], AT + revision)


def revisions(disk: Disk, **how: object) -> list[int]:
    scan = Scan([disk])
    return [
        record.revision
        for block in scan.blocks(Series.HISTORY, **how)  # type: ignore[arg-type]
        for record in block.records
        if isinstance(record, ChangeRecord)
    ]


def files(disk: Disk, suffix: Suffix) -> list[str]:
    return [name for name in disk.names() if (parsed := parsed_name(name)) and parsed.suffix == suffix]


def damage(disk: SimDisk, name: str, at: int) -> None:
    data = bytearray(disk.read(name))
    data[at] ^= 0xFF
    disk.remove(name)
    disk.append(name, bytes(data))
    disk.sync(name)


def test_a_full_segment_is_compressed_and_everything_stays_readable():
    disk = a_disk()
    segments = opened(disk)
    write(segments, 1, 100)

    assert revisions(disk) == list(range(1, 101))
    assert len(files(disk, Suffix.CLOSED)) > 5
    assert len(files(disk, Suffix.OPEN)) <= 1
    before = sum(index.bytes_before for index in segments.closed.values())
    assert sum(len(disk.read(name)) for name in files(disk, Suffix.CLOSED)) < before


@pytest.mark.parametrize(("number", "unclosed"), [(0, []), (1, [1]), (2, [2, 1])])
def test_a_segment_that_would_not_be_the_last_is_not_begun(number: int, unclosed: list[int]):
    segments = opened(a_disk())
    write(segments, 1, 10)
    segments.roll()
    segments._number, segments._unclosed = number, unclosed
    if not unclosed:
        assert 1 in segments.closed

    with pytest.raises(BrokenInvariant, match="a new segment comes after all others"):
        write(segments, 11, 11)


def test_a_segment_is_closed_when_it_is_old():
    disk = a_disk()
    segments = opened(disk)
    write(segments, 1, 1)

    segments.roll_if_old(AT + 3_599_000_000)
    assert files(disk, Suffix.CLOSED) == []
    segments.roll_if_old(AT + 3_601_000_000)
    assert files(disk, Suffix.CLOSED) == ["history-000000000001.zst"]
    assert files(disk, Suffix.OPEN) == []


def test_an_index_says_what_is_in_a_segment():
    disk = a_disk()
    segments = opened(disk, 10**9)
    write(segments, 5, 9)
    segments.roll()

    (index,) = segments.closed.values()

    assert (index.covers, index.first_at, index.last_at) == (((4, 9),), AT + 5, AT + 9)
    again = opened(reopened(disk))
    assert again.closed == segments.closed


def reopened(disk: SimDisk) -> SimDisk:
    return disk.after_power_cut()


def test_a_name_is_looked_for_only_where_it_may_be():
    disk = a_disk()
    write(opened(disk), 1, 100)
    disk.remove(files(disk, Suffix.OPEN)[0])

    found = revisions(disk, named="object pods default/p50")

    assert 50 in found
    assert len(found) < 20


def test_two_processes_do_not_write_one_series():
    disk = a_disk()
    opened(disk)

    with pytest.raises(JournalInUse, match="another directory"):
        opened(disk)


@pytest.mark.parametrize("survival", list(Survival))
def test_a_power_cut_at_any_moment_loses_nothing_that_was_appended_and_tears_nothing(survival):
    for operation in range(1, 80):
        disk = a_disk(Always(survival))
        segments = opened(disk, 600)
        disk.cut_power_before(operation)
        durable = 0
        with contextlib.suppress(PowerLost):
            for revision in range(1, 30):
                write(segments, revision, revision)
                durable = revision
        disk = disk.after_power_cut()

        before = revisions(disk)
        again = opened(disk, 600)
        after = revisions(disk)

        assert sorted(dict.fromkeys(before)) == list(range(1, max(before, default=0) + 1))
        assert max(before, default=0) in (durable, durable + 1)
        assert sorted(dict.fromkeys(after)) == sorted(dict.fromkeys(before))
        assert Scan([disk]).damages == ()
        write(again, 100, 110)
        assert revisions(disk)[-11:] == list(range(100, 111))


def test_a_full_disk_refuses_a_record_and_keeps_the_rest():
    disk = a_disk()
    segments = opened(disk, 10**9)
    write(segments, 1, 3)
    disk.capacity_bytes = sum(len(disk.read(name)) for name in disk.names()) + 20

    with pytest.raises(DiskFull):
        write(segments, 4, 4)
    assert revisions(disk) == [1, 2, 3]
    segments.roll()  # There is no room for a compressed copy either.
    assert revisions(disk) == [1, 2, 3]

    disk.capacity_bytes = None
    write(segments, 4, 5)
    segments.roll()
    assert revisions(disk) == [1, 2, 3, 4, 5]
    assert files(disk, Suffix.OPEN) == []


def test_after_a_failed_write_a_new_segment_is_begun():
    class Failing(Choices):
        is_failing = False

        def occurs(self, label: str, probability: float) -> bool:
            return self.is_failing and label.endswith("sync-error")

    choices = Failing()
    disk = a_disk(choices)
    disk.error_probability = 1.0
    segments = opened(disk, 10**9)
    write(segments, 1, 2)
    choices.is_failing = True
    with pytest.raises(OSError, match="input/output") as failure:
        write(segments, 3, 3)
    assert failure.value.errno == errno.EIO
    choices.is_failing = False

    write(segments, 3, 4)

    assert len(files(disk, Suffix.OPEN)) == 2
    assert sorted(dict.fromkeys(revisions(disk))) == [1, 2, 3, 4]
    segments.roll()
    assert sorted(dict.fromkeys(revisions(disk))) == [1, 2, 3, 4]


def test_a_damaged_block_is_reported_and_the_rest_is_read():
    disk = a_disk()
    write(opened(disk), 1, 100)
    name = files(disk, Suffix.CLOSED)[2]
    whole = revisions(disk)
    damage(disk, name, 60)

    scan = Scan([disk])
    found = [
        each.revision
        for block in scan.blocks(Series.HISTORY)
        for each in block.records
        if isinstance(each, ChangeRecord)
    ]

    (noted,) = scan.damages
    lost = [revision for revision in whole if revision not in found]
    assert noted.file == name
    assert noted.lost == ((lost[0] - 1, lost[-1]),)
    assert str(noted).endswith(
        "Put a good copy of the file in its place, if there is one, and remove its .index; otherwise leave it"
    )
    assert len(found) > 80


@pytest.mark.parametrize("size", [0, 10, 25, 60, -5])
def test_a_closed_segment_that_is_cut_short_is_reported_and_the_rest_is_read(size):
    disk = a_disk()
    write(opened(disk), 1, 100)
    name = files(disk, Suffix.CLOSED)[2]
    data = disk.read(name)[:size]
    disk.remove(name)
    disk.append(name, data)
    disk.sync(name)

    scan = Scan([disk])
    found = [each for block in scan.blocks(Series.HISTORY) for each in block.records]

    assert len(found) > 150
    # Only what is behind the block is missing: with the index beside it, that is no loss.
    assert {each.file for each in scan.damages} == (set() if size == -5 else {name})
    disk.remove(name.replace("zst", "index"))
    scan = Scan([disk])
    assert len([each for block in scan.blocks(Series.HISTORY) for each in block.records]) > 150
    assert {each.file for each in scan.damages} == {name}


@pytest.mark.parametrize("suffix", [Suffix.INDEX, Suffix.NAMES])
def test_what_is_only_a_help_can_be_damaged_or_gone(suffix):
    disk = a_disk()
    write(opened(disk), 1, 100)
    helps = files(disk, suffix)
    damage(disk, helps[0], 40)
    disk.remove(helps[1])

    assert revisions(disk) == list(range(1, 101))
    assert 3 in revisions(disk, named="object pods default/p3")
    assert Scan([disk]).damages == ()
    again = opened(disk.after_power_cut())
    assert len(again.closed) == len(helps) + 1  # The one that was open.


def test_a_damaged_frame_of_an_open_segment_costs_only_itself():
    disk = a_disk()
    segments = opened(disk, 10**9)
    write(segments, 1, 10)
    name = files(disk, Suffix.OPEN)[0]
    damage(disk, name, len(disk.read(name)) // 2)
    disk = disk.after_power_cut()

    assert len(revisions(disk)) == 9
    (noted,) = Scan([disk]).damages
    assert noted.file == name

    opened(disk)
    assert len(revisions(disk)) == 9
    (noted,) = Scan([disk]).damages
    assert noted.file == name.replace("open", "zst")


def test_files_that_are_not_ours_are_left_alone():
    disk = a_disk()
    disk.append("history-x.zst", b"?")
    disk.append("README", b"?")
    disk.append("history-000000000004.open", b"something else entirely")
    write(opened(disk), 1, 3)

    assert revisions(disk) == [1, 2, 3]
    assert [each.what for each in Scan([disk]).damages] == ["not a segment of a journal"]
    assert "README" in disk.names()


def test_an_open_segment_that_others_remove_is_noticed_and_another_is_begun(tmp_path, caplog):
    disk = SystemDisk(tmp_path)
    segments = Segments(disk, Series.HISTORY)
    segments.open()
    write(segments, 1, 2)
    assert segments.find_problem(AT) == ""
    (name,) = files(disk, Suffix.OPEN)
    (tmp_path / name).unlink()

    assert f"{name} was removed while it was being written" in segments.find_problem(AT)
    write(segments, 3, 4)
    assert f"{name} was removed while it was being written" in caplog.text
    assert not [each for each in Path("/proc/self/fd").iterdir() if name in os.path.realpath(each)]
    assert f"{name} was removed while" in segments.find_problem(AT)
    assert segments.find_problem(AT + 11 * 60 * 1_000_000) == ""
    segments.close()
    assert revisions(disk) == [3, 4]
    disk.close()


def test_an_open_segment_that_others_replace_is_left_to_them(tmp_path):
    disk = SystemDisk(tmp_path)
    segments = Segments(disk, Series.HISTORY)
    segments.open()
    write(segments, 1, 2)
    (name,) = files(disk, Suffix.OPEN)
    copy = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    (tmp_path / name).write_bytes(copy)

    assert "was removed" in segments.find_problem(AT)
    write(segments, 3, 4)
    segments.close()
    assert revisions(disk) == [1, 2, 3, 4]
    disk.close()
