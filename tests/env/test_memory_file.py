"""Files without a place on disk."""

import os

import pytest

from mainstay.env.memory_file import memory_file


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_bytes_can_be_read_as_a_file_and_are_gone_afterwards(monkeypatch, tmp_path, has_memory_files):
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = os.urandom(100_000)

    with memory_file(data) as path:
        assert path.read_bytes() == data
        assert path.stat().st_mode & 0o077 == 0 or has_memory_files

    assert not path.exists()
    assert list(tmp_path.iterdir()) == []
