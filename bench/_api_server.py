"""A real API server in a process of its own, and a load generator in another, for the benchmarks that measure one.

The server is started as users start it, with its own certificates, a durable store, and whatever else is on by default.
What it costs is asked of the operating system, so that nothing of the measuring is in it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Final, Self

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_ENDS_WITHIN_S: Final = 30
_KIB_OF_MB: Final = 1000 * 1000 / 1024


class ApiServer:
    """A server, for the time of a `with` block. Its data stay in the directory, for another one to start with."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._command = [sys.executable, "-m", "mainstay.cli.main", "server", "--listen", "127.0.0.1:0"]
        self._command += ["--data-dir", str(directory), *options]
        self.kubeconfig = directory / "kubeconfig"
        self.ready_s = 0.0
        """From the start of the process to its word that it is ready."""

    def __enter__(self) -> Self:
        start = time.perf_counter()
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        line = _line_of(self._process)
        self.ready_s = time.perf_counter() - start
        if "is ready" not in line:
            raise AssertionError(f"the server did not start: {line!r}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._process)

    def cpu_s(self) -> float:
        """What it has used so far, all its threads together."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()  # The name of the program, in parentheses, could contain anything.
        return (int(fields[11]) + int(fields[12])) * _TICK_S

    def memory_mb(self) -> float:
        """The memory that is resident, in millions of bytes."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / _KIB_OF_MB
        raise AssertionError("the operating system does not say how much memory is used")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a job took."""

    operations: int
    wall_s: float
    server_s: float
    """CPU time of the server."""
    load_s: float
    """CPU time of the load generator, which shares the machine."""
    answer_bytes: int
    """Of the last answer."""


class Load:
    """A load generator (bench/_api_load.py), for the time of a `with` block."""

    def __init__(self, server: ApiServer, connections: int) -> None:
        self._server = server
        self._command = [sys.executable, "-m", "bench._api_load", str(server.kubeconfig), str(connections)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        _expect(self._process, "connected")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._process)

    def run(self, job: str, first: int, count: int) -> Cost:
        """Let a job be done, so many times. `first` numbers the objects that it is done with."""
        self._say(json.dumps({"job": job, "first": first, "count": count}))
        _expect(self._process, "prepared")
        before = self._server.cpu_s()
        self._say("go")
        done = json.loads(_line_of(self._process) or "{}")
        server_s = self._server.cpu_s() - before
        if done.get("operations") is None:
            raise AssertionError(f"the load generator has failed: {done}")
        return Cost(done["operations"], done["wall_s"], server_s, done["cpu_s"], done["answer_bytes"])

    def _say(self, line: str) -> None:
        stdin = _pipe(self._process.stdin)
        stdin.write(line + "\n")
        stdin.flush()


class Setting:
    """A fresh server with its load, for the time of a `with` block."""

    def __init__(self, connections: int, options: Sequence[str] = ()) -> None:
        self._connections = connections
        self._options = options

    def __enter__(self) -> tuple[ApiServer, Load]:
        with ExitStack() as stack:
            directory = stack.enter_context(TemporaryDirectory(prefix="bench-api-"))
            server = stack.enter_context(ApiServer(Path(directory), *self._options))
            load = stack.enter_context(Load(server, self._connections))
            self._stack = stack.pop_all()
        return server, load

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _expect(process: "subprocess.Popen[str]", wanted: str) -> None:
    line = _line_of(process).strip()
    if line != wanted:
        raise AssertionError(f"the load generator says {line!r}, and not {wanted!r}")


def _line_of(process: "subprocess.Popen[str]") -> str:
    return _pipe(process.stdout).readline()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise AssertionError("there is no pipe")
    return pipe


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
