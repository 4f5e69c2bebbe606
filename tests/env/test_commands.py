"""Programs of the machine, with real ones."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mainstay.env import commands
from tests.processes import eventually

pytestmark = pytest.mark.real_loop


async def test_a_program_runs_and_is_known_by_its_identity_until_it_ends(tmp_path: Path):
    running = commands.start(["/bin/sh", "-c", "echo begun; exec sleep 1000"], output=tmp_path / "log")
    assert commands.is_alive(running)
    assert commands.find_identity(running.pid) == running
    assert os.getsid(running.pid) == running.pid

    waits = [asyncio.ensure_future(commands.ended(running)) for _ in range(3)]
    eventually(lambda: (tmp_path / "log").read_text() == "begun\n")
    assert commands.send(running, signal.SIGTERM)
    await asyncio.gather(*waits)

    assert not commands.is_alive(running)
    assert commands.find_identity(running.pid) is None
    assert not commands.send(running, signal.SIGTERM)
    await commands.ended(running)


async def test_who_ends_is_not_left_as_a_zombie():
    running = commands.start(["/bin/true"])
    await commands.ended(running)
    eventually(lambda: commands.is_alive(running) or not Path(f"/proc/{running.pid}").exists())


async def test_another_process_with_the_same_number_is_not_confused_with_it():
    running = commands.start(["/bin/sleep", "1000"])
    for other in (replace(running, started=running.started - 1), replace(running, boot="another")):
        assert not commands.is_alive(other)
        assert not commands.send(other, signal.SIGKILL)
        await commands.ended(other)
    assert commands.is_alive(running)
    assert commands.send(running, signal.SIGKILL)
    await commands.ended(running)


async def test_nothing_is_inherited_but_what_was_named(tmp_path: Path):
    reading, writing = os.pipe()
    script = f"import json, os; os.write({writing}, json.dumps(os.listdir('/proc/self/fd')).encode())"
    running = commands.start([sys.executable, "-I", "-S", "-c", script], env={}, inherit=[writing], cwd=tmp_path)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        numbers = {int(number) for number in json.load(pipe)}
    assert numbers == {0, 1, 2, 3, writing}  # 3 is that of the listing itself.
    await commands.ended(running)


async def test_what_cannot_be_started_says_so():
    with pytest.raises(FileNotFoundError):
        commands.start(["/no/such/program"])


async def test_how_it_ended_is_known_to_who_started_it():
    running = commands.start(["/bin/sh", "-c", "exit 3"])
    await commands.ended(running)
    assert commands.exit_code(running) == 3
    assert commands.exit_code(commands.own_identity()) is None


@pytest.mark.slow
@pytest.mark.parametrize("program", ["/bin/sleep", "/bin/true"])
def test_a_process_that_ends_first_does_not_complain(program: str):
    script = f"from mainstay.env import commands; commands.start([{program!r}, '3'])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
