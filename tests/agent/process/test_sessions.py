"""Commands beside a container."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.agent.runner import Mount, NoSuchContainer, Session
from mainstay.agent.runners.process import sessions
from mainstay.agent.runners.process.sessions import ProcessSession
from tests.agent.process.agent_program import an_agent, kill
from tests.agent.process.machine import (
    AT_ONCE,
    a_runner,
    a_spec,
    as_root,
    exited,
    has_file,
    processes_of,
    running,
    soon,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

FIRST = a_spec("").id


async def all_of(session: Session) -> dict[int, bytes]:
    found = {1: b"", 2: b""}
    while (part := await session.read()) is not None:
        found[part[0]] += part[1]
    return found


async def test_a_command_has_the_environment_and_directory_of_the_container(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("touch here; exec sleep 1000"))
        await soon(lambda: has_file(directory, "root/here"))
        session = await runner.execute(FIRST, ["sh", "-c", "echo $GREETING; ls; echo oh >&2; exit 3"])
        assert await all_of(session) == {1: b"hello\ndev\nhere\n", 2: b"oh\n"}
        assert await session.wait() == 3
        await session.kill()


async def test_input_reaches_the_command_also_much_of_it(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, ["cat"], stdin=True)
        data = b"0123456789" * 200_000
        reading = asyncio.ensure_future(all_of(session))
        await session.write(data)
        await session.close_input()
        assert (await reading)[1] == data
        assert await session.wait() == 0
        await session.write(b"into the void")


async def test_a_terminal(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(
            FIRST, ["sh", "-c", "stty size; read x; stty size; echo got $x; cat"], stdin=True, terminal=True
        )
        assert await session.read() == (1, b"0 0\r\n")
        session.resize(120, 40)
        await session.write(b"something\n")
        text = b""
        while b"got" not in text:
            part = await session.read()
            assert part is not None
            text += part[1]
        await session.close_input()
        text += (await all_of(session))[1]
        assert text.replace(b"\r\n", b"\n").startswith(b"something\n40 120\ngot something\n")
        assert await session.wait() == 0


async def test_a_command_is_killed_with_all_that_it_started(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, ["sh", "-c", "setsid sleep 1001 & (setsid sleep 1002 &); sleep 1003"])
        await soon(lambda: len(processes_of(directory)) == 5)
        await session.kill()
        assert await session.wait() == 137
        assert len(processes_of(directory)) == 1


async def test_what_a_command_leaves_ends_with_it(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, ["sh", "-c", "setsid sleep 1001 & echo done"])
        assert (await all_of(session))[1] == b"done\n"
        assert await session.wait() == 0
        assert len(processes_of(directory)) == 1


async def test_commands_end_with_their_container(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, ["sleep", "1001"])
        await soon(lambda: [line for line in processes_of(directory) if line.startswith("sleep 1001")])
        await runner.end(FIRST, AT_ONCE)
        await exited(runner, FIRST)
        assert await session.wait() == 137
        assert await session.read() is None
        with pytest.raises(NoSuchContainer):
            await runner.execute(FIRST, ["true"])


async def test_commands_end_with_their_container_without_an_agent(directory: Path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1)  # No control groups.
    async with a_runner(directory) as runner:
        state = await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, ["sleep", "1001"])
        await soon(lambda: [line for line in processes_of(directory) if line.startswith("sleep 1001")])
        os.kill(state.pid, signal.SIGKILL)
        assert await session.wait() == 137


async def test_a_stopped_helper_does_not_keep_a_command_alive(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "_HELPER_IS_LATE", timedelta(milliseconds=500))
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, ["sleep", "1001"])
        assert isinstance(session, ProcessSession)
        await soon(lambda: len(processes_of(directory)) == 2)
        os.kill(session._process.pid, signal.SIGSTOP)
        await session.kill()
        await soon(lambda: len(processes_of(directory)) == 1)


async def test_commands_end_with_their_agent_and_the_container_lives_on(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, ["sleep", "1001"])
        await soon(lambda: [line for line in processes_of(directory) if line.startswith("sleep 1001")])
    assert await session.wait() == 137
    await session.kill()
    assert len(processes_of(directory)) == 1


async def test_after_adoption_commands_work(directory: Path):
    kill(an_agent(directory, specs=[{"script": "exec sleep 1000"}]))
    async with a_runner(directory) as runner:
        session = await runner.execute(FIRST, ["sh", "-c", "echo $GREETING"])
        assert (await all_of(session))[1] == b"hello\n"


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("/etc/passwd", 126)])
async def test_a_command_that_is_not_there_says_so(directory: Path, command: str, code: int):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))
        session = await runner.execute(FIRST, [command])
        assert (await all_of(session))[2].startswith(b'mainstay: exec: "%s": ' % command.encode())
        assert await session.wait() == code


@as_root
async def test_a_command_sees_the_mounts_and_has_the_user_of_the_container(directory: Path):
    (directory / "volume").mkdir()
    (directory / "volume" / "file").write_text("content")
    async with a_runner(directory) as runner:
        mount = Mount(str(directory / "volume"), "/mnt", is_read_only=True)
        await running(runner, a_spec("exec sleep 1000", mounts=(mount,), user=1234, group=2345))
        session = await runner.execute(FIRST, ["sh", "-c", "cat /mnt/file; id -u; touch /mnt/other"])
        found = await all_of(session)
        assert found[1] == b"content1234\n", found
        assert b"ead-only" in found[2]


async def test_many_commands_at_once(directory: Path):
    async with a_runner(directory) as runner:
        await running(runner, a_spec("exec sleep 1000"))

        async def one(number: int) -> bytes:
            session = await runner.execute(FIRST, ["echo", str(number)])
            text = (await all_of(session))[1]
            assert await session.wait() == 0
            return text

        assert await asyncio.gather(*map(one, range(30))) == [b"%d\n" % number for number in range(30)]
        await runner.end(FIRST, timedelta(seconds=1))
