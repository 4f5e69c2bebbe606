"""Whatever happens in a test, nothing that it started is left."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstay.agent.runners.process import attempts
from mainstay.agent.runners.process.runner import ProcessRunner
from tests.agent.process.machine import cgroups_of


@pytest.fixture
def directory() -> Iterator[Path]:
    """For a runner. Short and open to all users, unlike `tmp_path`."""
    path = Path(tempfile.mkdtemp(prefix="mainstay-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        _kill_all(path)
        shutil.rmtree(path, ignore_errors=True)


def _kill_all(path: Path) -> None:
    runner = ProcessRunner(path)
    for _, _, found in runner._find_all() if (path / "pods").is_dir() else []:
        for attempt, what in found:
            if (shim := attempts.find_shim(attempt)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(shim.pid, signal.SIGCONT)
            if isinstance(what, attempts.Living):
                attempts.kill(attempt, what.begun)
    runner._worker.close()
    runner._killer.close()
    for group in cgroups_of(path):
        for inner in sorted(group.glob("*/"), reverse=True):
            with contextlib.suppress(OSError):
                inner.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
            group.parent.rmdir()
