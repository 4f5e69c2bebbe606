"""End all containers of a runner whose agent does not run any more: for `mainstay down`."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mainstay.agent.runner import ContainerId, Exited
from mainstay.agent.runners.process.runner import ProcessRunner


@dataclass(frozen=True, slots=True)
class ShutdownResult:
    """How many containers were ended, and which are still there although they were killed."""

    count: int
    left: tuple[ContainerId, ...]


async def stop_everything(
    directory: Path, grace: timedelta, *, at_most: timedelta = timedelta(seconds=20)
) -> ShutdownResult:
    """Ask all containers to end, kill them after the grace, and return when they are gone, or `at_most` after that.

    What is known of them stays: the next agent finds that they have ended. Raises `CannotRun` if an agent uses the
    directory, and goes on to.
    """
    if not (directory / "pods").is_dir():
        return ShutdownResult(0, ())
    runner = ProcessRunner(directory)
    changed = asyncio.Event()
    runner.subscribe(lambda _: changed.set())
    try:
        await runner.start()
        ended = _living(runner)
        for container in ended:
            await runner.end(container, grace)
        try:
            async with asyncio.timeout((grace + at_most).total_seconds()):
                while _living(runner):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            pass
        return ShutdownResult(len(ended), tuple(_living(runner)))
    finally:
        await runner.stop()


def _living(runner: ProcessRunner) -> list[ContainerId]:
    return [
        container
        for uid in runner.pods()
        for container, state in runner.instances(uid).items()
        if not isinstance(state, Exited)
    ]
