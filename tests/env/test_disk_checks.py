"""A data directory that is full, read-only or gone is noticed. Real file systems, in a mount namespace of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.env import disk_checks
from mainstay.env.clock import SystemClock
from mainstay.env.health import Health
from tests.agent.process.machine import as_root

CHECK = """
import asyncio, sys
from pathlib import Path
from mainstay.env.clock import SystemClock
from mainstay.env.disk_checks import add_disk_checks
from mainstay.env.health import Health

health = Health(SystemClock())
add_disk_checks(health, Path(sys.argv[1]))
for name in ("data-directory", "disk-space"):
    print(asyncio.run(health.check(name)).problem or "ok")
"""


def check_on(directory: Path, options: str) -> list[str]:
    """What the checks say of a directory with a file system of its own."""
    script = 'mount -t tmpfs -o "$1" none "$2" && exec "$3" -c "$4" "$2"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", options, str(directory), sys.executable, CHECK]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@as_root
@pytest.mark.slow
def test_a_read_only_file_system_is_noticed(tmp_path: Path):
    said = f"{tmp_path} is on a read-only file system: check the disk, and mount it read-write"
    assert check_on(tmp_path, "ro,size=64m") == [said, "ok"]


@as_root
@pytest.mark.slow
def test_a_full_disk_is_noticed(tmp_path: Path):
    directory, space = check_on(tmp_path, "size=1m")
    assert directory == "ok"
    room = f"1024 KiB are free in {tmp_path}, at least 16384 KiB are needed"
    assert space == f"{room}: free some space on this disk, or make it larger"


async def test_a_directory_in_which_nothing_can_be_made_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    directory = tmp_path / "data"
    directory.mkdir(mode=0o500)
    health = Health(SystemClock())
    disk_checks.add_disk_checks(health, directory)
    if os.geteuid() == 0:  # Who may do everything.
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
        monkeypatch.setattr(os, "supports_effective_ids", {os.access})
    assert "may not write to" in (await health.check("data-directory")).problem
    directory.rmdir()
    assert "is gone: stop the process" in (await health.check("data-directory")).problem
    assert "No such file" in (await health.check("disk-space")).problem
