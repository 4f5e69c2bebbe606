"""How others on this machine ask a process for its health: a Unix socket, on which it says which checks fail, and why.

Not the port for clients: while that is flooded the process is alive, and a restart would not help. The supervisor
names the socket in the environment of the process (`VARIABLE`). Who connects asks for a page, `livez` (what a restart
would cure: the supervisor) or `readyz` (everything: `mainstay status`), and is sent a line for each check that fails,
or `ok`.
"""

import asyncio
import contextlib
import logging
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from mainstay.env import tasks
from mainstay.env.check_result import CheckResult

VARIABLE: Final = "MAINSTAY_HEALTH_SOCKET"
ANSWER_WITHIN: Final = timedelta(seconds=15)  # As kubeadm has it for the API server.
PATH_BYTES_MAX: Final = 100  # What systems take, with a little to spare.
_ASKED_WITHIN: Final = timedelta(seconds=1)
_READ_BYTES_MAX: Final = 64 * 1024
_OK: Final = b"ok\n"

_logger = logging.getLogger(__name__)


class HealthQuestion(StrEnum):
    LIVE = "livez"
    READY = "readyz"


class FindFailing(Protocol):
    """What a process says of itself."""

    async def __call__(self, *, live_only: bool) -> list[CheckResult]: ...


def build_path(run: Path, name: str) -> str:
    """The socket of a component, in the directory that is for what runs."""
    return str(run / f"{name}.sock")


async def listen(path: str, find_failing: FindFailing) -> asyncio.AbstractServer | None:
    """Answer on a socket until the server is closed. None if that cannot be: then the process is not asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            failing = await find_failing(live_only=await _read_question(reader) is not HealthQuestion.READY)
            lines = [f"{result.name}: {' '.join(result.problem.split())}\n" for result in failing]
            writer.write("".join(lines).encode()[:_READ_BYTES_MAX] or _OK)
            await writer.drain()
        except OSError:
            pass  # It has gone.
        finally:
            writer.close()

    if len(path.encode()) > PATH_BYTES_MAX:
        _logger.info("not listening on %s: its name is too long, so the supervisor only sees that it runs", path)
        return None
    try:
        return await asyncio.start_unix_server(answer, path)
    except OSError as error:
        _logger.warning("cannot listen on %s: %s", path, error)
        return None


async def _read_question(reader: asyncio.StreamReader) -> HealthQuestion:
    """Who asks nothing is a supervisor of an earlier version."""
    with contextlib.suppress(TimeoutError, ValueError):
        async with tasks.timeout(_ASKED_WITHIN):
            return HealthQuestion((await reader.readline()).decode(errors="replace").strip())
    return HealthQuestion.LIVE


async def ask(
    path: str, question: HealthQuestion = HealthQuestion.LIVE, within: timedelta = ANSWER_WITHIN
) -> list[CheckResult] | None:
    """The checks that fail of the process behind a socket. None if there is no process to ask. One that does not answer
    fails the check `ping`."""
    try:
        async with tasks.timeout(within):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(f"{question}\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except TimeoutError:
        return [CheckResult("ping", f"no answer within {within.total_seconds():.0f}s")]
    except OSError:
        return None
    if answer == _OK:
        return []
    lines = answer.decode(errors="replace").splitlines()
    parted = [line.partition(": ") for line in lines]
    return [CheckResult(name, problem) for name, _, problem in parted] or [CheckResult("ping", "no answer")]
