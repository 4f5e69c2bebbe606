"""A real etcd for tests and benchmarks: one member or several, on this machine, each with a data directory of its own.

`shared_etcd()` starts one per test process and keeps it until that ends; tests that use it keep apart by their prefixes
(`unique_prefix`). A test that wants to kill its etcd, or to fill it up, starts one of its own.
"""

import atexit
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.processes import wait_until

START_LIMIT_S: Final = 30.0
START_ATTEMPTS: Final = 5

_prefix_numbers = itertools.count(1)


class EtcdProcess:
    """One member. Use it as a context manager, or call `start` and later `stop`."""

    def __init__(self, *options: str, name: str = "default", certificates: Path | None = None) -> None:
        """`options` are further command line options. With `certificates`, a directory with `ca.crt`, `server.crt` and
        `server.key`, clients speak TLS and must show a certificate of that authority.
        """
        self._options = options
        self._name = name
        self._certificates = certificates
        self._directory = Path(tempfile.mkdtemp(prefix="mainstay-etcd-"))
        self._log = self._directory / "log"
        self._take_ports()
        self._process: subprocess.Popen[bytes] | None = None
        self.cluster = self.peer
        """All members, as each of them must know when it starts for the first time."""

    def _take_ports(self) -> None:
        self._client_port, self._peer_port, self._health_port = _free_ports(3)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._client_port}"

    @property
    def peer(self) -> str:
        return f"{self._name}=http://127.0.0.1:{self._peer_port}"

    def start(self) -> None:
        """Start it, for the first time or again on the data it had, and wait until it answers."""
        for _ in range(START_ATTEMPTS):
            self.launch()
            if self.answers():
                return
            if self.cluster == self.peer and not (self._directory / "data" / "member").exists():
                # Another process may have taken a port meanwhile. Later on, others know our ports: then they stay.
                self._take_ports()
                self.cluster = self.peer
        raise RuntimeError(f"etcd does not start; it says:\n{self._log.read_text()[-4000:]}")

    def launch(self) -> None:
        """Start it, and do not wait."""
        scheme = "http" if self._certificates is None else "https"
        client, peer = f"{scheme}://{self.endpoint}", f"http://127.0.0.1:{self._peer_port}"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "etcd",
                    f"--name={self._name}",
                    f"--data-dir={self._directory / 'data'}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={peer}",
                    f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster={self.cluster}",
                    f"--listen-metrics-urls=http://127.0.0.1:{self._health_port}",
                    *self._tls_options(),
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )

    def _tls_options(self) -> list[str]:
        directory = self._certificates
        if directory is None:
            return []
        files = {"--cert-file": "server.crt", "--key-file": "server.key", "--trusted-ca-file": "ca.crt"}
        return ["--client-cert-auth", *(f"{option}={directory / name}" for option, name in files.items())]

    def answers(self) -> bool:
        """Wait until it says that it is well, or has ended, or has taken too long."""
        url = f"http://127.0.0.1:{self._health_port}/health"
        if wait_until(lambda: _is_healthy(url), START_LIMIT_S, every_s=0.02, is_hopeless=lambda: not self._runs()):
            return True
        self.kill()
        return False

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it at once, as a crash would. Its data directory stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Let it do nothing more, although its connections stay. `kill` still works."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

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


@contextlib.contextmanager
def an_etcd_cluster(size: int) -> Iterator[list[EtcdProcess]]:
    """Several members of one cluster, all of them well."""
    members = [EtcdProcess(name=f"member-{number}") for number in range(size)]
    try:
        for member in members:
            member.cluster = ",".join(each.peer for each in members)
            member.launch()
        if not all(member.answers() for member in members):
            raise RuntimeError("the etcd cluster does not start")
        yield members
    finally:
        for member in members:
            member.stop()


@cache
def shared_etcd(*, is_compacted: bool = True) -> EtcdProcess:
    """The one etcd of this test process, whose history some tests compact; or another one, where none may. Under
    pytest-xdist, each worker has its own."""
    etcd = EtcdProcess()
    atexit.register(etcd.stop)
    etcd.start()
    return etcd


def unique_prefix() -> str:
    """A prefix that no other test uses in this etcd."""
    return f"/test-{os.getpid()}-{next(_prefix_numbers)}/"


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(json.load(answer)["health"] == "true")
    except (OSError, ValueError):
        return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
