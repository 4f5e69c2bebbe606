"""The backup file: what goes in comes out, and nothing that is not whole is accepted."""

from pathlib import Path

import pytest

from mainstay.store.backup_format import (
    CHUNK_BYTES,
    BackupFile,
    BackupHead,
    BackupReader,
    BackupWriter,
    BadBackup,
    chunks,
)
from mainstay.store.interface import Entry

HEAD = BackupHead(revision=70, made_at="2026-11-18T12:00:00Z", build="0.2.0+1", cluster="c-1", store="local")
ENTRIES = [
    Entry(f"core/configmaps/a/{n:03}", b'{"n":%d}' % n, created=n + 2, revision=n + 5, version=2) for n in range(40)
]
KEY = BackupFile("ca.key", b"secret")
FORMAT_1 = Path(__file__).parent / "data" / "format-1.backup"


def a_backup(entries: list[Entry] = ENTRIES, files: tuple[BackupFile, ...] = (KEY,)) -> bytes:
    writer = BackupWriter()
    parts = [writer.begin(HEAD), *(writer.add_file(file) for file in files)]
    parts += [writer.add_entries(chunk) for chunk in (entries[:15], entries[15:])]
    return b"".join([*parts, writer.finish()])


def read(data: bytes, piece: int = 1 << 20) -> tuple[BackupReader, list[Entry], list[BackupFile]]:
    """All of a backup, in pieces of this size. Raises `BadBackup`."""
    reader = BackupReader()
    entries: list[Entry] = []
    files: list[BackupFile] = []
    for start in range(0, len(data), piece):
        for part in reader.feed(data[start : start + piece]):
            if isinstance(part, BackupFile):
                files.append(part)
            else:
                entries += part
    reader.finish()
    return reader, entries, files


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 20])
def test_a_backup_read_in_pieces_of_any_size_is_what_was_written(piece: int):
    reader, entries, files = read(a_backup(), piece)

    assert (reader.head, entries, files) == (HEAD, ENTRIES, [KEY])
    assert (reader.entries, reader.files) == (40, 1)


def test_an_empty_store_has_a_backup_too():
    writer = BackupWriter()

    _, entries, _ = read(writer.begin(HEAD) + writer.finish())

    assert entries == []


def test_a_flipped_byte_anywhere_is_refused():
    data = a_backup()
    for at in range(len(data)):
        for flip in (0x01, 0x80):
            damaged = data[:at] + bytes((data[at] ^ flip,)) + data[at + 1 :]
            with pytest.raises(BadBackup):
                read(damaged)


def test_a_backup_that_is_cut_short_anywhere_is_refused():
    data = a_backup()
    for size in range(len(data)):
        with pytest.raises(BadBackup, match=r"truncated|not a Mainstay backup"):
            read(data[:size])


def test_more_after_the_end_is_refused():
    data = a_backup()
    for more in (b"x", data):
        with pytest.raises(BadBackup):
            read(data + more)


def test_a_backup_whose_parts_were_exchanged_is_refused():
    writer = BackupWriter()
    head, first, second, end = (
        writer.begin(HEAD),
        writer.add_entries(ENTRIES[:15]),
        writer.add_entries(ENTRIES[15:]),
        writer.finish(),
    )

    for parts in ((head, second, first, end), (head, first, end), (first, head, second, end), (head, head, end)):
        with pytest.raises(BadBackup):
            read(b"".join(parts))


def test_another_file_is_not_taken_for_a_backup():
    for data in (b"", b"SQLite format 3\0" * 10, b"MAINSTAY BUNDLE 1\n", b"MAINSTAY BACKUP x\n"):
        with pytest.raises(BadBackup, match=r"not a Mainstay backup|truncated"):
            read(data)


def test_a_newer_format_is_refused_with_what_to_do():
    data = a_backup().replace(b"MAINSTAY BACKUP 1\n", b"MAINSTAY BACKUP 2\n", 1)

    with pytest.raises(BadBackup, match=r"newer Mainstay \(backup format 2\).*restore it with that release"):
        read(data)


def test_a_file_of_format_1_is_read_by_every_later_release():
    reader, entries, files = read(FORMAT_1.read_bytes())

    assert (reader.head, entries, files) == (HEAD, ENTRIES, [KEY])


def test_entries_are_cut_into_chunks_by_their_size():
    entries = [Entry(f"k{n}", b"x" * (CHUNK_BYTES // 4), 2, 2, 1) for n in range(10)]

    parts = list(chunks(entries))

    assert [entry for part in parts for entry in part] == entries
    assert [len(part) for part in parts] == [4, 4, 2]
