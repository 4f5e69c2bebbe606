"""A real API server for tests: a process of its own, on a free port, with TLS and a data directory that is thrown away.

`shared_server()` starts one per test process and keeps it until that ends; tests that use it keep apart by their
namespaces (`unique_name`). A test that kills or restarts its server, or counts what is in it, starts one of its own.
"""

import atexit
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

START_LIMIT_S: Final = 30.0
STOP_LIMIT_S: Final = 20.0

_numbers = itertools.count(1)


class ServerProcess:
    """Use it as a context manager, or call `start` and later `stop`."""

    def __init__(self, *options: str) -> None:
        """`options` are further command line options."""
        self._options = options
        self._directory = Path(tempfile.mkdtemp(prefix="mainstay-server-"))
        self._process: subprocess.Popen[str] | None = None
        self.data_dir = self._directory / "data"
        self.kubeconfig = self.data_dir / "kubeconfig"
        self.log = self._directory / "log"
        self.home = self._directory / "home"
        """For clients that keep a cache in it."""
        self.home.mkdir()
        self._address = "127.0.0.1:0"
        self.url = ""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client's process has to see: this server, and nothing of the environment of the test."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
        }

    def start(self) -> None:
        """Start it, for the first time or again on the data and the port it had, and wait until it is ready."""
        command = [sys.executable, "-m", "mainstay.cli.main", "server"]
        place = [f"--data-dir={self.data_dir}", f"--listen={self._address}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *place, *self._options], stdout=subprocess.PIPE, stderr=log, text=True
            )
        line = self._ready_line(self._process)
        if " is ready at " not in line:
            self.kill()
            raise RuntimeError(f"the server does not start: {line!r}; it says:\n{self.log.read_text()[-4000:]}")
        self.url = line.partition(" is ready at ")[2].partition(",")[0].strip()
        self._address = self.url.rpartition("/")[2]

    @staticmethod
    def _ready_line(process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], START_LIMIT_S)
        return process.stdout.readline() if readable else ""

    def kill(self) -> None:
        """End it at once, as a crash would. Its data directory stays."""
        self._end(signal.SIGKILL)

    def shut_down(self) -> int:
        """Ask it to end, and wait until it has. Returns its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(STOP_LIMIT_S)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def stop(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@cache
def shared_server() -> ServerProcess:
    """The one server of this test process. Under pytest-xdist, each worker has its own."""
    server = ServerProcess()
    atexit.register(server.stop)
    server.start()
    return server


def unique_name(what: str = "test") -> str:
    """A name that no other test of the shared server uses, for a namespace or anything without one."""
    return f"{what}-{os.getpid()}-{next(_numbers)}"
