"""A flood of bare connections on a real server with few files: those who show a certificate get through."""

import http.client
import resource
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.server.test_process import LIMIT_S, Server, running

pytestmark = pytest.mark.slow

FILES = 300
CONNECTIONS = 600


def connect_bare(server: Server) -> socket.socket | None:
    """A connection that never begins TLS. None if the system does not complete it: the backlog is full."""
    parts = urlsplit(server.url)
    opened = socket.socket()
    opened.settimeout(5)
    try:
        opened.connect((parts.hostname, parts.port))
    except OSError:
        opened.close()
        return None
    return opened


def ask(server: Server, method: str, path: str, body: bytes = b"") -> int:
    parts = urlsplit(server.url)
    client = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=server.context(), timeout=LIMIT_S)
    try:
        client.request(method, path, body, {"Content-Type": "application/json"})
        return client.getresponse().status
    finally:
        client.close()


def test_more_connections_than_files_do_not_keep_out_the_administrator(tmp_path: Path):
    with running(tmp_path / "data", files=FILES) as server:
        flood = [opened for _ in range(CONNECTIONS) if (opened := connect_bare(server)) is not None]
        try:
            for number in range(3):
                made = b'{"metadata": {"name": "a%d"}, "data": {"a": "b"}}' % number
                assert ask(server, "POST", "/api/v1/namespaces/default/configmaps", made) == 201
                assert server.get("/readyz")[0] == 200
            files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
            assert files < FILES - 10
        finally:
            for opened in flood:
                opened.close()
        assert server.stop() == 0
        assert server.process.stderr is not None
        said = server.process.stderr.read()
        assert "Too many open files" not in said
        assert "cannot accept" not in said


def test_the_server_may_open_as_many_files_as_the_system_allows(tmp_path: Path):
    with running(tmp_path / "data", "--store", "memory", files=FILES) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (FILES, FILES)


def test_a_connection_that_never_begins_tls_is_closed_after_the_handshake_timeout(tmp_path: Path):
    with running(tmp_path / "data", "--store", "memory") as server:
        bare = connect_bare(server)
        assert bare is not None
        bare.settimeout(LIMIT_S / 2)  # The timeout is 10 s; asyncio's own, which is too long, would be 60 s.
        assert bare.recv(1) == b""
        bare.close()
        with pytest.raises(ssl.SSLError):
            server.get("/version", context=ssl.create_default_context())
