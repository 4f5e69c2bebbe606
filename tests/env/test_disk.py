"""A directory of the real file system. That synced data survives a power cut cannot be shown here, only asked for."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstay.env.disk import DiskFull, Locked, SystemDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    disk = SystemDisk(tmp_path / "data")
    yield disk
    disk.close()


def test_the_directory_is_made_with_those_above_it(tmp_path: Path):
    disk = SystemDisk(tmp_path / "a" / "b")

    assert disk.names() == []


def test_what_is_appended_is_read_back(disk: SystemDisk):
    disk.append("log", b"one ")
    disk.append("log", b"two")

    assert disk.read("log") == b"one two"


def test_what_was_there_before_is_appended_to(disk: SystemDisk):
    (disk.root / "log").write_bytes(b"one ")

    disk.append("log", b"two")

    assert disk.read("log") == b"one two"


def test_a_large_piece_is_appended_whole(disk: SystemDisk):
    data = os.urandom(5_000_000)

    disk.append("log", data)

    assert disk.read("log") == data


def test_syncing_asks_the_machine_to_sync_the_file_and_its_name(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch):
    disk.append("log", b"data")
    synced = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))

    disk.sync("log")
    assert synced == [str(disk.root / "log"), str(disk.root)]

    disk.sync("log")
    assert synced[2:] == [str(disk.root / "log")], "the name is durable already"


def test_a_name_is_synced_again_when_another_file_may_have_it(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch):
    disk.append("log", b"data")
    disk.sync("log")
    disk.remove("log")
    disk.append("log", b"data")
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))

    disk.sync("log")

    assert synced == [str(disk.root)]


def test_bytes_are_overwritten_in_place_and_the_rest_stays(disk: SystemDisk):
    disk.append("mark", b"0123456789")

    disk.overwrite("mark", 3, b"abc")
    disk.sync("mark")
    disk.append("mark", b"!")

    assert disk.read("mark") == b"012abc6789!"


def test_a_file_with_a_second_name_stays_when_the_first_is_removed(disk: SystemDisk):
    disk.append("log", b"data")

    assert disk.link("log", "kept")
    disk.remove("log")

    assert disk.read("kept") == b"data"


def test_names_are_sorted_and_only_those_of_files(disk: SystemDisk):
    for name in ("b", "a", "c"):
        disk.append(name, b"")
    (disk.root / "directory").mkdir()

    assert disk.names() == ["a", "b", "c"]


def test_a_file_is_cut_to_a_size_and_goes_on_from_there(disk: SystemDisk):
    disk.append("log", b"one two")

    disk.truncate("log", 4)
    disk.append("log", b"three")

    assert disk.read("log") == b"one three"


def test_a_renamed_file_replaces_what_had_its_name(disk: SystemDisk):
    disk.append("log", b"old")
    disk.append("log.new", b"new")

    disk.rename("log.new", "log")

    assert disk.names() == ["log"]
    assert disk.read("log") == b"new"


def test_after_a_rename_each_name_is_used_for_the_file_that_has_it_now(disk: SystemDisk):
    disk.append("log", b"old")
    disk.append("log.new", b"new")
    disk.rename("log.new", "log")

    disk.append("log", b" and more")
    disk.append("log.new", b"the next one")

    assert disk.read("log") == b"new and more"
    assert disk.read("log.new") == b"the next one"


def test_a_removed_file_is_gone_and_can_be_made_again(disk: SystemDisk):
    disk.append("log", b"old")

    disk.remove("log")

    assert disk.names() == []
    disk.append("log", b"new")
    assert disk.read("log") == b"new"


@pytest.mark.parametrize("operation", ["read", "remove"])
def test_a_file_that_is_not_there_cannot_be_read_or_removed(disk: SystemDisk, operation: str):
    with pytest.raises(FileNotFoundError):
        getattr(disk, operation)("nothing")


def test_files_are_for_their_owner_only(disk: SystemDisk):
    disk.append("log", b"")
    disk.lock("lock", "me")

    assert [(disk.root / name).stat().st_mode & 0o777 for name in disk.names()] == [0o600, 0o600]


def test_a_full_disk_is_told_as_such(disk: SystemDisk):
    # The one file of every Linux machine that is always full.
    (disk.root / "log").symlink_to("/dev/full")

    with pytest.raises(DiskFull, match=str(disk.root)):
        disk.append("log", b"data")


def test_another_failure_of_the_disk_is_not_taken_for_a_full_one(disk: SystemDisk):
    (disk.root / "log").mkdir()

    with pytest.raises(IsADirectoryError):
        disk.append("log", b"data")


def test_a_lock_is_refused_to_a_second_holder_who_learns_who_has_it(disk: SystemDisk):
    disk.lock("lock", "process 17")

    with pytest.raises(Locked) as refused:
        SystemDisk(disk.root).lock("lock", "process 18")

    assert refused.value.holder == "process 17"
    assert disk.read("lock") == b"process 17"


def test_a_lock_is_free_again_once_its_holder_closed(disk: SystemDisk):
    disk.lock("lock", "a holder with a long name")
    disk.close()

    second = SystemDisk(disk.root)
    second.lock("lock", "the second")

    assert second.read("lock") == b"the second"
    second.close()


LOCK_IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from mainstay.env.disk import Locked, SystemDisk

try:
    SystemDisk(Path(sys.argv[1])).lock("lock", "the other process")
except Locked as error:
    print("refused:", error.holder, flush=True)
else:
    print("locked", flush=True)
sys.stdin.read()
"""


def another_process(disk: SystemDisk) -> subprocess.Popen[str]:
    """A process that tries to take the lock, says how that went, and keeps it until its input ends or it is killed."""
    command = [sys.executable, "-c", LOCK_IN_ANOTHER_PROCESS, str(disk.root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_lock_is_refused_to_another_process(disk: SystemDisk):
    disk.lock("lock", "this process")

    output, _ = another_process(disk).communicate()

    assert output == "refused: this process\n"


def test_the_lock_of_a_killed_process_is_free(disk: SystemDisk):
    with another_process(disk) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(Locked, match="the other process"):
            disk.lock("lock", "this process")
        process.kill()

    disk.lock("lock", "this process")


def test_a_full_disk_does_not_keep_anyone_from_taking_a_lock(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    # The file that is always full cannot be locked, so this time it has to be pretended.
    monkeypatch.setattr(os, "pwrite", full)
    disk.lock("lock", "this process")

    with pytest.raises(Locked, match="an unknown process"):
        SystemDisk(disk.root).lock("lock", "another one")


def test_closing_lets_go_of_every_file(disk: SystemDisk):
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "b"):
        disk.append(name, b"data")
        disk.sync(name)
    disk.lock("lock", "me")
    with pytest.raises(Locked):
        SystemDisk(disk.root).lock("lock", "another one")

    disk.close()

    assert len(os.listdir("/proc/self/fd")) == before
