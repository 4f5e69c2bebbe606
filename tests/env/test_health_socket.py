"""A process tells its supervisor whether it is alive, on a socket. Real sockets, so a real loop."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.env import health_socket, tasks, vital
from mainstay.env.check_result import CheckResult
from mainstay.env.clock import SystemClock
from mainstay.env.health import Health
from mainstay.env.health_socket import HealthQuestion


def test_a_process_says_what_is_wrong_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = str(tmp_path / "s.sock")
    monkeypatch.setenv(health_socket.VARIABLE, path)

    async def fail() -> None:
        raise ZeroDivisionError("planted")

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        assert await health_socket.ask(path) is None
        health = Health(SystemClock())
        await health.listen()
        assert await health_socket.ask(path) == []
        with health.active():
            _ = vital.spawn(fail(), name="feed")
        await health.failed()
        health.add("disk-space", lambda: "too little:\nfree some")
        dead, full = CheckResult("task/feed", "planted"), CheckResult("disk-space", "too little: free some")
        assert await health_socket.ask(path) == [dead]
        assert await health_socket.ask(path, HealthQuestion.READY) == [full, dead]
        health.stopping()
        assert await health_socket.ask(path) is None

    asyncio.run(program())


def test_a_supervisor_of_an_earlier_version_asks_nothing_and_is_told_what_a_restart_cures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = str(tmp_path / "s.sock")
    monkeypatch.setenv(health_socket.VARIABLE, path)
    monkeypatch.setattr(health_socket, "_ASKED_WITHIN", timedelta(milliseconds=20))

    async def program() -> None:
        health = Health(SystemClock())
        health.add("disk-space", lambda: "too little")
        await health.listen()
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b"ok\n"
        writer.close()
        health.stopping()

    asyncio.run(program())


def test_a_process_that_does_not_answer_is_not_alive(tmp_path: Path):
    path = str(tmp_path / "s.sock")

    async def never(*, live_only: bool) -> list[CheckResult]:
        await asyncio.Event().wait()
        return []

    async def program() -> None:
        server = await health_socket.listen(path, never)
        assert server is not None
        failing = await health_socket.ask(path, within=timedelta(milliseconds=50))
        assert failing == [CheckResult("ping", "no answer within 0s")]
        server.close()
        await tasks.sleep(timedelta(0))

    asyncio.run(program())


def test_a_socket_whose_name_is_too_long_is_left_out(tmp_path: Path):
    async def program() -> None:
        assert await health_socket.listen(str(tmp_path / ("x" * 200)), None) is None  # type: ignore[arg-type]
        assert await health_socket.ask(str(tmp_path / ("x" * 200))) is None

    asyncio.run(program())
