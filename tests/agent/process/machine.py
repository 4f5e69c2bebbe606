"""What the tests of the process runner share: a runner, containers to run, and what is left over."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainstay.agent.runner import ContainerId, ContainerSpec, Exited, LogQuery, Mount, Running, State
from mainstay.agent.runners.process.runner import ProcessRunner

POD = "6e5f1a52-0000-4000-8000-000000000001"
WITHIN_S = 30.0

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")


def a_spec(script: str, *, name: str = "main", attempt: int = 0, uid: str = POD, **more: Any) -> ContainerSpec:
    """A container that runs a shell script."""
    spec = ContainerSpec(
        id=ContainerId(uid, name, attempt),
        namespace="default",
        pod_name="web",
        image="none",
        command=("/bin/sh", "-c", script),
        env=(("PATH", "/usr/local/bin:/usr/bin:/bin"), ("GREETING", "hello")),
    )
    return replace(spec, **more)


def outside(directory: Path) -> tuple[Mount, ...]:
    """A directory of the machine, `DIRECTORY/outside`, that a container finds at `mnt/outside`, below its own one."""
    path = directory / "outside"
    path.mkdir(exist_ok=True)
    path.chmod(0o777)
    return (Mount(str(path), "/mnt/outside"),)


@contextlib.asynccontextmanager
async def a_runner(directory: Path) -> AsyncIterator[ProcessRunner]:
    """A runner that is stopped at the end; what it runs lives on."""
    runner = ProcessRunner(directory)
    await runner.start()
    try:
        yield runner
    finally:
        await runner.stop()


async def until(runner: ProcessRunner, container: ContainerId, is_so: Callable[[State | None], bool]) -> State:
    """Wait until the state of a container is so, as the runner tells. Fails after a while."""
    changed = asyncio.Event()
    runner.subscribe(lambda _: changed.set())
    async with asyncio.timeout(WITHIN_S):
        while True:
            changed.clear()
            state = runner.instances(container.pod_uid).get(container)
            if is_so(state):
                assert state is not None
                return state
            await changed.wait()


async def running(runner: ProcessRunner, spec: ContainerSpec) -> Running:
    await runner.run(spec)
    state = await until(runner, spec.id, lambda state: not _is_starting(state))
    assert isinstance(state, Running), state
    return state


async def ready(runner: ProcessRunner, spec: ContainerSpec) -> Running:
    """Run a container, and wait until it has written something."""
    state = await running(runner, spec)
    log = runner.directory / "pods" / spec.id.pod_uid / "logs" / spec.id.name / f"{spec.id.attempt}.log"
    await soon(lambda: log.stat().st_size)
    return state


async def exited(runner: ProcessRunner, container: ContainerId) -> Exited:
    state = await until(runner, container, lambda state: isinstance(state, Exited))
    assert isinstance(state, Exited)
    return state


async def ran(runner: ProcessRunner, spec: ContainerSpec) -> Exited:
    await runner.run(spec)
    return await exited(runner, spec.id)


def _is_starting(state: State | None) -> bool:
    return not isinstance(state, Running | Exited)


async def output(runner: ProcessRunner, container: ContainerId, **query: Any) -> bytes:
    """All that a container wrote."""
    return b"".join([line.text async for line in runner.log(container.pod_uid, container.name, LogQuery(**query))])


async def soon(is_so: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Wait for what no runner tells, such as what a container writes to a file."""
    async with asyncio.timeout(within_s):
        while not is_so():
            await asyncio.sleep(0.01)


def has_file(directory: Path, path: str) -> bool:
    """Whether a container has this file below its directory."""
    # Not `rglob`, which fails when a directory goes while it looks into it: runners write files by renaming.
    return any(Path(parent, path).exists() for parent, _, _ in os.walk(directory))


def processes_of(directory: Path) -> list[str]:
    """The command lines of all processes that belong to containers of a runner: by their environment, or as shims."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                texts = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                cgroup = (entry / "cgroup").read_text()
                is_alive = "\nState:\tZ" not in (entry / "status").read_text()
                if is_alive and (os.fsencode(f"MAINSTAY_ROOT={directory}") in texts or _group(directory) in cgroup):
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


def cgroups_of(directory: Path) -> list[Path]:
    """Control groups that a runner has, or has left."""
    # Not `rglob`, as above.
    walk = os.walk("/sys/fs/cgroup")
    return [Path(parent, name) for parent, names, _ in walk for name in names if name == _group(directory)]


def _group(directory: Path) -> str:
    return hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:12]


A_MOMENT = timedelta(seconds=20)
AT_ONCE = timedelta()
