"""What containers wrote: complete, in order, from where one wants it, while it is written and rotated."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainstay.agent.runner import LogQuery, NoSuchContainer
from mainstay.agent.runners.process import shim_log
from mainstay.agent.runners.process.logs import read
from mainstay.agent.runners.process.runner import ProcessRunner
from mainstay.agent.runners.process.shim_log import LogStream, LogWriter
from tests.agent.process.machine import AT_ONCE, POD, a_runner, a_spec, exited, output, outside, ran, running

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

FIRST = a_spec("").id


async def test_every_byte_is_kept_and_long_lines_are_kept_in_parts(directory: Path):
    async with a_runner(directory) as runner:
        script = "printf 'a\\n\\n b \\n'; head -c 40000 /dev/zero | tr '\\0' x; printf '\\nend'"
        await ran(runner, a_spec(script))
        lines = [line.text async for line in runner.log(POD, "main", LogQuery())]
        assert b"".join(lines) == b"a\n\n b \n" + b"x" * 40000 + b"\nend"
        assert [len(line) for line in lines] == [2, 1, 4, 16384, 16384, 7233, 3]


async def test_the_last_lines_the_latest_lines_and_the_attempt_before(directory: Path):
    async with a_runner(directory) as runner:
        await ran(runner, a_spec("seq 1 1000"))
        between = datetime.now(UTC)
        await ran(runner, a_spec("seq 2001 2003", attempt=1))
        latest = a_spec("", attempt=1).id
        assert await output(runner, latest, tail_lines=2) == b"2002\n2003\n"
        assert await output(runner, latest, tail_lines=0) == b""
        assert await output(runner, latest, tail_lines=99) == b"2001\n2002\n2003\n"
        assert await output(runner, latest, is_previous=True, tail_lines=1) == b"1000\n"
        assert await output(runner, latest, since=between) == b"2001\n2002\n2003\n"
        assert await output(runner, latest, is_previous=True, since=between) == b""


@pytest.mark.parametrize("tail", [None, 2])
async def test_who_does_not_follow_gets_what_was_there_however_fast_it_is_written(directory: Path, tail: int | None):
    path = directory / "0.log"
    log = LogStream(LogWriter(str(path)), b"stdout")
    log.take(b"one\ntwo\n")
    lines = read(lambda: (path, lambda: False), LogQuery(tail_lines=tail))
    found = []
    async for line in lines:
        found.append(line.text)
        log.take(b"more\n")
        if len(found) > 9:
            break
    assert found == [b"one\n", b"two\n"]


async def test_what_is_not_there_says_so(directory: Path):
    async with a_runner(directory) as runner:
        with pytest.raises(NoSuchContainer, match="container 'main' of pod"):
            await output(runner, FIRST)
        await ran(runner, a_spec("true"))
        assert await output(runner, FIRST) == b""
        with pytest.raises(NoSuchContainer, match="an earlier attempt of container 'main'"):
            await output(runner, FIRST, is_previous=True)


async def test_a_log_is_followed_to_the_end_of_the_container(directory: Path):
    async with a_runner(directory) as runner:
        await running(
            runner,
            a_spec(
                "echo one; while [ ! -e mnt/outside/go ]; do sleep 0.01; done; seq 2 5000; exit 1",
                mounts=outside(directory),
            ),
        )
        lines = runner.log(POD, "main", LogQuery(follow=True))
        assert (await anext(lines)).text == b"one\n"
        (directory / "outside" / "go").touch()
        assert [line.text async for line in lines] == [b"%d\n" % number for number in range(2, 5001)]
        assert (await exited(runner, FIRST)).code == 1


async def test_a_follower_can_stop_while_nothing_comes(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("echo one; sleep 1000"))
        first = asyncio.Event()

        async def follow() -> None:
            async for _ in runner.log(POD, "main", LogQuery(follow=True)):
                first.set()

        task = asyncio.ensure_future(follow())
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await runner.end(FIRST, AT_ONCE)
        await exited(runner, FIRST)


async def test_much_output_is_rotated_and_a_follower_misses_nothing(directory: Path):
    """More than is kept, so the beginning goes, and nothing else. It comes in two parts, of which each is less than is
    kept: a follower who is slower than that by five files would miss some, and here everything may be slow."""
    count, half = 65_000, 35_000
    wait = f"while [ ! -e mnt/outside/%s ]; do sleep 0.01; done; seq %d %d | sed 's/$/ {'x' * 1000}/'; "
    script = wait % ("go", 1, half) + wait % ("on", half + 1, count)
    async with a_runner(directory) as runner:
        await running(runner, a_spec(script, mounts=outside(directory)))
        followed = 0

        async def follow() -> None:
            nonlocal followed
            async for line in runner.log(POD, "main", LogQuery(follow=True)):
                followed += 1
                assert int(line.text.split()[0]) == followed
                if followed == half:
                    (directory / "outside" / "on").touch()

        task = asyncio.ensure_future(follow())
        (directory / "outside" / "go").touch()
        await task
        assert followed == count
        files = sorted((directory / "pods" / POD / "logs/main").iterdir())
        assert len(files) == 5
        assert all(file.stat().st_size <= shim_log.FILE_BYTES_MAX for file in files)
        numbers = await numbers_in(runner)
        assert numbers == list(range(numbers[0], count + 1))
        assert numbers[0] > 1
        assert await numbers_in(runner, tail_lines=30_000) == numbers[-30_000:]  # Over several files.


async def numbers_in(runner: ProcessRunner, **query: Any) -> list[int]:
    return [int(line.text.split()[0]) async for line in runner.log(POD, "main", LogQuery(**query))]


async def test_the_end_of_a_large_log_is_found_without_reading_all_of_it(directory: Path, monkeypatch):
    path = directory / "0.log"
    stream = LogStream(LogWriter(str(path)), b"stdout")
    for start in range(0, 100_000, 1000):
        stream.take(b"".join(b"line %d\n" % number for number in range(start, start + 1000)))
    with path.open("ab") as file:
        file.write(b"2026-11-16T02:40:00.1234")  # A shim was killed while it wrote this.
    lines = [line.text async for line in read(lambda: (path, lambda: True), LogQuery(tail_lines=3))]
    assert lines == [b"line 99997\n", b"line 99998\n", b"line 99999\n"]


async def test_on_a_full_disk_output_is_lost_and_that_is_said(directory: Path, monkeypatch):
    path = directory / "0.log"
    log = LogWriter(str(path))
    stream = LogStream(log, b"stdout")
    stream.take(b"before\n")
    full = os.open("/dev/full", os.O_WRONLY)
    file, log._file = log._file, full
    monkeypatch.setattr(os, "ftruncate", lambda *_: None)
    stream.take(b"lost\n")
    log._file = file
    stream.take(b"after\n")
    texts = [line.text async for line in read(lambda: (path, lambda: True), LogQuery())]
    assert texts[0] == b"before\n"
    assert texts[1].startswith(b"mainstay: disk full: about ")
    assert texts[2] == b"after\n"
    os.close(full)
