"""An etcd with TLS, client certificates and users, for tests. All certificates are of our own making.

    root      may everything; etcd insists on this user
    mainstay  may read and write everything under /
    reader    may only read it
    stranger  may nothing

Each user's password is the user's name, and "-password".
"""

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc

from mainstay.env import SystemClock, SystemDisk
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import ensure_certificates, issue_client
from mainstay.store.etcd.access import EtcdAccess, EtcdLogin, EtcdTlsFiles
from tests.store.etcd_process import EtcdProcess

USERS: Final = ("root", "mainstay", "reader", "stranger")
_READ, _READ_WRITE = 0, 2


class PastClock(SystemClock):
    """So long ago that what it makes has expired by now."""

    def wall(self) -> datetime:
        return datetime.now(UTC) - timedelta(days=600)


def make_certificates(directory: Path, clock: SystemClock | None = None) -> None:
    """`ca`, `server` and `client`, each with `.crt` and `.key`."""
    clock = clock or SystemClock()
    disk = SystemDisk(directory)
    ensure_certificates(disk, clock, ["127.0.0.1", "localhost"])
    issued = issue_client(disk, clock, User("client", ()))
    disk.close()
    (directory / "client.crt").write_bytes(issued.certificate)
    (directory / "client.key").write_bytes(issued.key)


def tls_files(directory: Path, *, authority: Path | None = None, shows: bool = True) -> EtcdTlsFiles:
    """`shows`: a client certificate."""
    client = (directory / "client.crt", directory / "client.key") if shows else (None, None)
    return EtcdTlsFiles((authority or directory) / "ca.crt", *client)


class SecureEtcd:
    """One member. Use it as a context manager."""

    def __init__(self, *options: str, has_users: bool = True) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mainstay-secure-etcd-"))
        make_certificates(self.directory)
        self.process = EtcdProcess(*options, certificates=self.directory)
        self._has_users = has_users

    @property
    def endpoint(self) -> str:
        return self.process.endpoint

    def access(self, user: str = "mainstay", password: str = "") -> EtcdAccess:
        """Of one of the users, with a wrong password if one is given."""
        file = self.directory / f"password-{user}{'-wrong' * bool(password)}"
        file.write_text(f"{password or user + '-password'}\n")
        return EtcdAccess(tls_files(self.directory), EtcdLogin(user, file) if self._has_users else None)

    def start(self) -> None:
        self.process.start()
        if self._has_users:
            self._add_users()

    def stop(self) -> None:
        self.process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _add_users(self) -> None:
        with ExitStack() as stack:
            read = {name: (self.directory / name).read_bytes() for name in ("ca.crt", "client.key", "client.crt")}
            credentials = grpc.ssl_channel_credentials(*read.values())
            channel = stack.enter_context(grpc.secure_channel(self.endpoint, credentials))

            def call(method: str, fields: Mapping[int, str | bytes | int]) -> None:
                send = channel.unary_unary(f"/etcdserverpb.Auth/{method}", bytes, bytes)
                send(_message(fields), timeout=20)

            for user in USERS:
                call("UserAdd", {1: user, 2: f"{user}-password"})
                call("RoleAdd", {1: user})
                call("UserGrantRole", {1: user, 2: user})
            for role, kind in (("mainstay", _READ_WRITE), ("reader", _READ)):
                call("RoleGrantPermission", {1: role, 2: _message({1: kind, 2: "/", 3: "0"})})
            call("AuthEnable", {})


def _message(fields: Mapping[int, str | bytes | int]) -> bytes:
    """A protobuf message of short fields. The administration of etcd is no part of our own rpc.proto."""
    parts = []
    for number, value in fields.items():
        if isinstance(value, int):
            parts.append(bytes((number << 3, value)))
        else:
            encoded = value.encode() if isinstance(value, str) else value
            parts.append(bytes((number << 3 | 2, len(encoded))) + encoded)
    return b"".join(parts)


@cache
def shared_secure_etcd() -> SecureEtcd:
    """The one of this test process."""
    etcd = SecureEtcd()
    atexit.register(etcd.stop)
    etcd.start()
    return etcd
