"""Segments that others have removed, cut or damaged while no process wrote the journal: they are named."""

import contextlib

import pytest

from mainstay.journal.file_check import check_journal
from mainstay.journal.files import Series, Suffix
from mainstay.journal.manifest import find_missing, name_manifest, read_manifest
from mainstay.journal.reader import Reader
from mainstay.journal.scan import Scan
from mainstay.sim.disk import PowerLost, SimDisk
from tests.journal.test_segments import a_disk, files, opened, write


def missing(disk: SimDisk) -> list[str]:
    return [str(name) for name in find_missing(disk, Series.HISTORY)]


def remove(disk: SimDisk, name: str) -> None:
    for suffix in (Suffix.CLOSED, Suffix.OPEN, Suffix.INDEX, Suffix.NAMES):
        other = name.rsplit(".", 1)[0] + f".{suffix}"
        if other in disk.names():
            disk.remove(other)


def test_a_closed_segment_that_was_removed_is_named_until_it_would_be_forgotten():
    disk = a_disk()
    write(opened(disk), 1, 100)
    disk.close()
    gone = files(disk, Suffix.CLOSED)[2]
    remove(disk, gone)

    assert missing(disk) == [gone]
    segments = opened(disk)
    write(segments, 101, 120)
    assert missing(disk) == [gone], "also after more was written"
    (said,) = map(str, Scan([disk]).damages)
    assert said == f"{gone} is missing: what it held is in no answer. If it was moved away, put it back"

    segments.forget(sorted(segments.closed)[:3])
    assert missing(disk) == []


def test_an_open_segment_that_was_removed_is_named_and_its_number_is_not_used_again():
    disk = a_disk()
    write(opened(disk, 10**9), 1, 5)
    disk.close()
    (gone,) = files(disk, Suffix.OPEN)
    disk.remove(gone)

    assert missing(disk) == [gone.replace(".open", ".zst")]
    write(opened(disk, 10**9), 6, 9)
    assert gone not in disk.names()


def test_forgetting_and_closing_raise_no_alarm_whatever_is_cut_short():
    for operation in range(1, 120):
        disk = a_disk()
        disk.cut_power_before(operation)
        with contextlib.suppress(PowerLost):
            segments = opened(disk, 400)
            write(segments, 1, 30)
            segments.forget(sorted(segments.closed)[:2])
            segments.close()
        assert missing(disk.after_power_cut()) == []


def test_a_manifest_that_cannot_be_written_promises_nothing():
    disk = a_disk()
    segments = opened(disk, 400)
    write(segments, 1, 30)
    assert read_manifest(disk, Series.HISTORY)
    disk.capacity_bytes = disk.used_bytes

    segments.forget(sorted(segments.closed)[:1])

    assert (missing(disk), name_manifest(Series.HISTORY) in disk.names()) == ([], False)


@pytest.mark.parametrize("damage", ["flipped", "cut"])
async def test_all_closed_files_are_read_after_a_start(damage):
    disk = a_disk()
    segments = opened(disk)
    write(segments, 1, 100)
    segments.close()
    found: list[str] = []
    await check_journal(disk, found.append)
    assert found == []
    names = files(disk, Suffix.CLOSED)
    if damage == "flipped":
        disk.flip(names[1], 8 * 60)
    else:
        disk.put(names[1], disk.copy(names[1])[:-40])
    remove(disk, names[3])

    await check_journal(disk, found.append)

    assert found[0] == f"{names[3]} is missing"
    assert found[1].startswith(f"{names[1]}: ")
    assert len(found) == 2
    assert Reader(disk).recorded()


@pytest.mark.parametrize("kept", [0, 10, 60, -1])
def test_the_end_of_an_open_segment_that_is_gone_is_named_by_readers_and_by_the_next_start(kept):
    disk = a_disk()
    write(opened(disk, 10**9), 1, 5)
    disk.close()
    (name,) = files(disk, Suffix.OPEN)
    disk.put(name, disk.copy(name)[:kept])

    (before,) = Scan([disk]).damages
    write(opened(disk, 10**9), 6, 9)
    (after,) = Scan([disk]).damages

    assert (before.file, after.file) == (name, name.replace(".open", ".zst"))
    assert "bytes cannot be read" in before.what
    assert "bytes cannot be read" in after.what or "is missing" in after.what


def test_an_end_that_was_cut_off_by_a_crash_is_no_damage():
    disk = a_disk()
    segments = opened(disk, 10**9)
    write(segments, 1, 5)
    (name,) = files(disk, Suffix.OPEN)
    disk.append(name, b"half a frame")
    disk.close()

    assert Scan([disk]).damages == ()
    opened(disk, 10**9)
    assert Scan([disk]).damages == ()
