"""`mainstay server` as a process of its own: real sockets, real TLS, real signals."""

import asyncio
import errno
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

import mainstay
from mainstay.cli.main import run
from mainstay.client.config import from_kubeconfig_file
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.server import process, store_choice
from mainstay.server.store_choice import MemoryChoice
from mainstay.store.errors import OutcomeUnknown
from mainstay.store.interface import Put
from mainstay.store.local import LocalStore
from mainstay.store.log import LogRow, MemoryLog
from tests.requirements import needs
from tests.store.secure_etcd import shared_secure_etcd

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "mainstay.cli.main", "server")
LIMIT_S = 60  # For what takes a second on a quiet machine.

TOKENS = 'root-token,root,1,"system:masters"\nann-token,ann,2,devs\n'


def load_admin(context: ssl.SSLContext, data: Path) -> None:
    """Let connections show the certificate in the administrator's kubeconfig."""
    tls = from_kubeconfig_file(data / "kubeconfig").tls
    path = data.parent / f"{data.name}-admin.pem"
    path.write_text(tls.certificate + tls.key)
    context.load_cert_chain(path)


def find_certificates(data: Path) -> list[str]:
    clients = [from_kubeconfig_file(path).tls.certificate for path in sorted(data.glob("*kubeconfig"))]
    return [(data / "ca.crt").read_text(), (data / "server.crt").read_text(), *clients]


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    data: Path
    url: str

    def context(self, *, certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.data / "ca.crt")
        if certificate:
            load_admin(context, self.data)
        return context

    def get(
        self, path: str, *, context: ssl.SSLContext | None = None, token: str | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or 0
        if parts.scheme == "https":
            tls = context or self.context(certificate=token is None)
            connection: http.client.HTTPConnection
            connection = http.client.HTTPSConnection(host, port, context=tls, timeout=LIMIT_S)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=LIMIT_S)
        try:
            connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            return response.status, response.read(), dict(response.getheaders())
        finally:
            connection.close()

    def post(self, path: str, obj: dict[str, Any], *, operation: str = "") -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port or 0, context=self.context(), timeout=LIMIT_S
        )
        headers = {"Content-Type": "application/json", "Mainstay-Operation": operation}
        try:
            connection.request("POST", path, json.dumps(obj), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)


@contextmanager
def running(data: Path, *options: str, files: int | None = None) -> Iterator[Server]:
    """`files`: how many it may open, at most."""
    limited = () if files is None else ("prlimit", f"--nofile={files // 2}:{files}")
    command = [*limited, *COMMAND, "--data-dir", str(data), "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    hung = threading.Timer(LIMIT_S, process.kill)
    hung.start()
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        hung.cancel()
        ready = re.fullmatch(r"mainstay server is ready at (\S+), kubeconfig (\S+)\n", line)
        assert ready is not None, f"{line!r}, {process.communicate()[1]}"
        assert ready[2] == str(data / "kubeconfig")
        yield Server(process, data, ready[1])
    finally:
        hung.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def refused(*options: str | Path) -> tuple[int, str]:
    """Exit code and standard error of a server that does not start."""
    done = subprocess.run([*COMMAND, *map(str, options)], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    (directory / "tokens.csv").write_text(TOKENS)
    options = ("--token-file", str(directory / "tokens.csv"), "--audit-log", str(directory / "audit.log"))
    with running(directory / "data", *options) as server:
        yield server


def names_in(body: bytes) -> list[str]:
    return [item["metadata"]["name"] for item in json.loads(body)["items"]]


# Who may come in.


def test_the_kubeconfig_is_all_that_its_owner_needs(server: Server, tmp_path: Path):
    config = yaml.safe_load((server.data / "kubeconfig").read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    (tmp_path / "pair").write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
    context = ssl.create_default_context(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    context.load_cert_chain(tmp_path / "pair")

    status, body, headers = server.get("/api/v1/namespaces", context=context)

    assert cluster["server"] == server.url
    assert (status, "default" in names_in(body)) == (200, True)
    assert len(headers["Audit-Id"]) == 36


def test_nothing_in_the_data_directory_is_readable_by_others(server: Server):
    paths = [server.data, *server.data.rglob("*")]

    assert [path.name for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    files = sorted(path.name for path in paths if "kubeconfig" in path.name)
    assert files == ["controllers.kubeconfig", "kubeconfig", "scheduler.kubeconfig"]


def test_a_client_that_trusts_another_authority_does_not_connect(server: Server, tmp_path: Path):
    with running(tmp_path / "other", "--store", "memory") as other, pytest.raises(ssl.SSLCertVerificationError):
        server.get("/healthz", context=other.context())


def test_a_certificate_of_another_authority_is_not_accepted(server: Server, tmp_path: Path):
    with running(tmp_path / "other", "--store", "memory") as other:
        context = server.context(certificate=False)
        load_admin(context, other.data)

        with pytest.raises(OSError, match=r"alert|reset|[Ee]rror|closed"):
            server.get("/api/v1/namespaces", context=context)


def test_a_certificate_is_checked_strictly_and_by_name(server: Server):
    context = server.context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    port = urlsplit(server.url).port

    with (
        socket.create_connection(("127.0.0.1", port or 0), timeout=LIMIT_S) as connection,
        context.wrap_socket(connection, server_hostname="kubernetes.default.svc") as tls,
    ):
        assert tls.version() in ("TLSv1.2", "TLSv1.3")


def test_a_token_is_as_good_as_its_user(server: Server):
    assert server.get("/api/v1/namespaces", token="root-token")[0] == 200
    status, body, _ = server.get("/api/v1/namespaces", token="ann-token")
    assert (status, 'User "ann" cannot list resource "namespaces"' in json.loads(body)["message"]) == (403, True)


def test_a_wrong_token_is_refused(server: Server):
    status, body, _ = server.get("/api/v1/namespaces", token="wrong")

    assert (status, json.loads(body)["message"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/version", 200), ("/api", 403), ("/api/v1/namespaces", 403), ("/metrics", 403)],
)
def test_anonymous_users_see_health_and_version_only(server: Server, path: str, status: int):
    assert server.get(path, context=server.context(certificate=False))[0] == status


# What it tells.


def test_metrics_count_what_was_asked(server: Server):
    server.get("/api/v1/namespaces/default")

    _, body, headers = server.get("/metrics")

    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert re.search(rb'apiserver_request_total\{code="200",.*resource="namespaces",scope="\w+",.*verb="GET"', body)
    assert b"process_resident_memory_bytes" in body


def test_the_audit_log_says_who_asked_for_what(server: Server):
    _, _, headers = server.get("/api/v1/namespaces?limit=7", token="ann-token")

    line = audited(server.data.parent / "audit.log", headers["Audit-Id"])

    assert line["requestURI"] == "/api/v1/namespaces?limit=7"
    assert line["user"]["username"] == "ann"
    assert line["objectRef"] == {"resource": "namespaces", "apiVersion": "v1"}
    assert line["responseStatus"]["code"] == 403
    assert line["annotations"]["authorization.k8s.io/decision"] == "forbid"


def audited(log: Path, audit_id: str) -> dict[str, Any]:
    done = threading.Event()
    for _ in range(LIMIT_S * 50):
        for line in log.read_text().splitlines():
            if f'"{audit_id}"' in line:
                return dict(json.loads(line))
        done.wait(0.02)
    raise AssertionError(f"{audit_id} is not in the audit log")


# Starting and stopping.


def test_what_was_there_is_there_again_and_so_are_the_certificates(tmp_path: Path):
    data = tmp_path / "data"
    with running(data) as first:
        before = find_certificates(data)
        uid = json.loads(first.get("/api/v1/namespaces/default")[1])["metadata"]["uid"]
        assert first.stop() == 0
    with running(data) as second:
        assert json.loads(second.get("/api/v1/namespaces/default")[1])["metadata"]["uid"] == uid
        assert find_certificates(data) == before


def test_a_server_whose_journal_is_ahead_of_its_store_says_so_and_records_a_new_history(tmp_path: Path):
    """The store has lost acknowledged writes, or is an older backup. (H3, H9)"""
    data = tmp_path / "data"
    with running(data) as server:
        parts = urlsplit(server.url)
        tls = server.context()
        client = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=tls, timeout=LIMIT_S)
        for number in range(50):
            made = b'{"metadata": {"name": "a%d"}}' % number
            headers = {"Content-Type": "application/json"}
            client.request("POST", "/api/v1/namespaces/default/configmaps", made, headers)
            assert client.getresponse().read()
        client.close()
        assert server.get("/readyz")[0] == 200
        assert server.stop() == 0
    shutil.rmtree(data / "store")
    with running(data) as server:
        assert server.get("/readyz")[0] == 200
        assert b"[!]journal warning: reason withheld" in server.get("/readyz?verbose")[1]
        assert b"warning: JournalAheadOfStore: the store was restored" in server.get("/readyz/journal")[1]
        assert server.stop() == 0
    names = [path.name for path in (data / "journal").iterdir()]
    assert {name.split(".")[1].split("-")[0] for name in names if name.startswith("former-1.")} == {
        "history",
        "decisions",
        "snapshot",
    }
    assert [name for name in names if name.startswith("history-")]


def test_the_size_of_requests_and_the_number_of_connections_can_be_limited(tmp_path: Path):
    options = ("--store", "memory", "--max-body", "1KiB", "--max-connections", "1")
    with running(tmp_path / "data", *options) as server:
        port = urlsplit(server.url).port
        client = http.client.HTTPSConnection("127.0.0.1", port, context=server.context(), timeout=LIMIT_S)
        client.request("GET", "/version")
        assert client.getresponse().read()

        assert server.get("/version")[0] == 503  # The first connection is still open.
        client.request("POST", "/api/v1/namespaces", b"x" * 1025)
        assert client.getresponse().status == 413
        client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_watches_and_then_the_process(tmp_path: Path, number: signal.Signals):
    with running(tmp_path / "data", "--store", "memory") as server:
        port = urlsplit(server.url).port
        client = http.client.HTTPSConnection("127.0.0.1", port, context=server.context(), timeout=LIMIT_S)
        client.request("GET", "/api/v1/namespaces?watch=true")
        response = client.getresponse()
        begun = time.monotonic()

        server.process.send_signal(number)
        response.read()  # To its proper end, not to an error.
        client.close()

        assert server.process.wait(LIMIT_S) == 0
        assert time.monotonic() - begun < 8  # The grace is longer: no connection had to be cut.


def test_a_second_signal_cuts_off_who_does_not_hang_up(tmp_path: Path):
    with running(tmp_path / "data", "--store", "memory", "-v") as server:
        port = urlsplit(server.url).port
        client = http.client.HTTPSConnection("127.0.0.1", port, context=server.context(), timeout=LIMIT_S)
        client.request("GET", "/api/v1/namespaces?watch=true")
        response = client.getresponse()
        begun = time.monotonic()

        server.process.send_signal(signal.SIGTERM)
        assert server.process.stderr is not None
        assert "stopping" in server.process.stderr.readline()
        assert server.stop() == 0
        assert time.monotonic() - begun < 8
        response.close()
        client.close()


def test_a_data_directory_in_use_is_refused(server: Server):
    code, said = refused("--data-dir", server.data, "--listen", "127.0.0.1:0")

    assert code == 1
    assert f"the data directory {server.data} is in use by process {server.process.pid}" in said
    assert "stop that one, or use another directory" in said


def test_a_port_in_use_is_refused(server: Server, tmp_path: Path):
    port = urlsplit(server.url).port

    code, said = refused("--data-dir", tmp_path / "other", "--listen", f"127.0.0.1:{port}")

    assert code == 1
    assert (
        said
        == f"mainstay: cannot listen on 127.0.0.1:{port}: another process does. Stop that one, or choose another port\n"
    )


def test_plain_http_knows_its_owner_by_a_token(tmp_path: Path):
    with running(tmp_path / "data", "--insecure", "--store", "memory") as server:
        config = yaml.safe_load((server.data / "kubeconfig").read_text())

        assert config["clusters"][0]["cluster"] == {"server": server.url}
        assert server.url.startswith("http://")
        assert server.get("/api/v1/namespaces", token=config["users"][0]["user"]["token"])[0] == 200
        assert server.get("/api/v1/namespaces")[0] == 403
        component = yaml.safe_load((server.data / "scheduler.kubeconfig").read_text())
        token = component["users"][0]["user"]["token"]
        assert server.get("/api/v1/nodes", token=token)[0] == 200
        assert server.get("/api/v1/secrets", token=token)[0] == 403


def test_given_certificates_are_used_besides_its_own_authority(server: Server, tmp_path: Path):
    given = server.data
    options = ("--tls-cert", given / "server.crt", "--tls-key", given / "server.key", "--client-ca", given / "ca.crt")
    with running(tmp_path / "data", "--store", "memory", *map(str, options)) as second:
        # Both the owner of the given authority and the one of the server's own are known.
        own = ssl.create_default_context(cafile=given / "ca.crt")
        load_admin(own, second.data)
        assert second.get("/api/v1/namespaces", context=server.context())[0] == 200
        assert second.get("/api/v1/namespaces", context=own)[0] == 200

        user = yaml.safe_load((second.data / "kubeconfig").read_text())["clusters"][0]["cluster"]
        trusting = ssl.create_default_context(cadata=b64decode(user["certificate-authority-data"]).decode())
        assert second.get("/healthz", context=trusting)[0] == 200


@needs("etcd")
def test_a_server_keeps_its_objects_in_an_etcd_with_tls_and_users(tmp_path: Path):
    etcd = shared_secure_etcd()
    access = etcd.access()
    assert access.tls is not None
    assert access.login is not None
    files = {
        "--etcd-ca": access.tls.authority,
        "--etcd-cert": access.tls.certificate,
        "--etcd-key": access.tls.key,
        "--etcd-user": access.login.user,
        "--etcd-password-file": access.login.password_file,
    }
    options = [f"--store=etcd=https://{etcd.endpoint}", *(f"{option}={value}" for option, value in files.items())]
    with running(tmp_path / "data", *options) as server:
        status, body, _ = server.get("/api/v1/namespaces")
        assert (status, "default" in names_in(body)) == (200, True)

    code, said = refused(
        "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0", *options[:-1], f"--etcd-password-file={__file__}"
    )
    assert (code, "invalid user ID or password" in said, "--etcd-password-file" in said) == (1, True, True)


def test_no_file_shows_a_secret_and_the_key_is_needed_to_start_again(tmp_path: Path):
    """Also not the outcome that is kept of the write, the journal, or the logs."""
    word = b"a very secret word"
    keys = tmp_path / "keys"
    keys.write_text(f"2026-11:{b64encode(bytes(range(32))).decode()}\n")
    data = tmp_path / "data"
    options = ("--encryption-key-file", str(keys))
    with running(data, *options) as server:
        secret = {"metadata": {"name": "a"}, "data": {"word": b64encode(word).decode()}}
        assert server.post("/api/v1/namespaces/default/secrets", secret, operation="once")[0] == 201
        status, body, _ = server.get("/api/v1/namespaces/default/secrets/a")
        assert (status, json.loads(body)["data"]) == (200, secret["data"])
        seen = [path for path in data.rglob("*") if path.is_file() and contains(path, word)]
        assert (server.stop(), seen) == (0, [])
    assert [path for path in data.rglob("*") if path.is_file() and contains(path, word)] == []

    code, said = refused("--data-dir", data, "--listen", "127.0.0.1:0")
    assert (code, "'2026-11'" in said, "--encryption-key-file" in said) == (1, True, True)
    with running(data, "--encryption-key-command", f"cat {keys}") as server:
        status, body, _ = server.get("/api/v1/namespaces/default/secrets/a")
        assert (status, json.loads(body)["data"]) == (200, secret["data"])


def contains(path: Path, word: bytes) -> bool:
    data = path.read_bytes()
    return word in data or b64encode(word) in data or b64encode(b64encode(word)) in data


# Saying what is wrong.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "missing option '--data-dir'"),
        (["--data-dir", "{tmp}", "--listen", "6443"], "'6443' is not HOST:PORT"),
        (["--data-dir", "{tmp}", "--listen", "::1:6443"], "brackets"),
        (["--data-dir", "{tmp}", "--listen", "h:99999"], "is not HOST:PORT"),
        (["--data-dir", "{tmp}", "--store", "mysql"], "'mysql' is not one of sqlite, memory, etcd=URL"),
        (["--data-dir", "{tmp}", "--store", "etcd="], "is not one of"),
        (["--data-dir", "{tmp}", "--store", "etcd=ftp://a:1"], "only http:// and https://"),
        (["--data-dir", "{tmp}", "--store", "etcd=https://a:1,http://b:1"], "use one for all members"),
        (["--data-dir", "{tmp}", "--store", "etcd=https://a:1"], "missing option --etcd-ca"),
        (
            ["--data-dir", "{tmp}", "--store", "etcd=https://a:1", "--etcd-ca", __file__, "--etcd-cert", __file__],
            "missing option --etcd-key",
        ),
        (["--data-dir", "{tmp}", "--store", "etcd=http://a:1", "--etcd-ca", __file__], "need https://"),
        (
            ["--data-dir", "{tmp}", "--store", "etcd=http://a:1", "--etcd-user", "u"],
            "missing option --etcd-password-file",
        ),
        (
            ["--data-dir", "{tmp}", "--store", "etcd=http://a:1", "--etcd-password-file", __file__],
            "missing option --etcd-user",
        ),
        (["--data-dir", "{tmp}", "--etcd-user", "u", "--etcd-password-file", __file__], "need an etcd"),
        (["--data-dir", "{tmp}", "--store", "etcd=http://a"], "is not an etcd address"),
        (
            ["--data-dir", "{tmp}", "--encryption-key-file", "{file}", "--encryption-key-command", "x"],
            "excludes --encryption-key-command",
        ),
        (["--data-dir", "{tmp}", "--store", "memory", "--encryption-key-file", "{file}"], "writes nothing down"),
        (["--data-dir", "{tmp}", "--tls-cert", "{file}"], "missing option --tls-key"),
        (["--data-dir", "{tmp}", "--tls-key", "{file}"], "missing option --tls-cert"),
        (["--data-dir", "{tmp}", "--client-ca", "{file}"], "missing options --tls-cert and --tls-key"),
        (["--data-dir", "{tmp}", "--insecure", "--client-ca", "{file}"], "--insecure excludes --tls-cert"),
        (["--data-dir", "{tmp}", "--token-file", "{tmp}/none"], "does not exist"),
    ],
)
def test_wrong_usage_is_told_apart_from_failure(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "file"
    file.write_text("x")

    code = run(["server", *[option.format(tmp=tmp_path / "data", file=file) for option in options]])

    assert (code, said in capsys.readouterr().err) == (64, True)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--token-file", "{tmp}/bad.csv"], "bad.csv: line 2: has 1 columns"),
        (["--token-file", "{tmp}/binary"], "binary is not UTF-8"),
        (["--tls-cert", "{tmp}/bad.csv", "--tls-key", "{tmp}/bad.csv"], "are not a certificate and key in PEM format"),
        (["--audit-log", "{tmp}/bad.csv/audit.log"], "cannot write the audit log"),
    ],
)
def test_files_that_cannot_be_used_are_named(options: list[str], said: str, tmp_path: Path):
    (tmp_path / "bad.csv").write_text("a,b,c\nd\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    result = refused(
        "--data-dir", str(tmp_path / "data"), "--store", "memory", *[option.format(tmp=tmp_path) for option in options]
    )

    assert (result[0], said in result[1]) == (1, True), result


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("x")

    code, said = refused("--data-dir", str(tmp_path / "file" / "data"))

    assert (code, f"cannot use data directory {tmp_path}/file/data" in said) == (1, True)


def test_help_and_version_are_there():
    command = [sys.executable, "-m", "mainstay.cli.main"]
    for arguments, said in ((["--version"], f"mainstay {mainstay.__version__} "), (["server", "-h"], "--data-dir DIR")):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        assert said in done.stdout


def test_logs_can_be_read_by_machines(tmp_path: Path):
    with running(tmp_path / "data", "--store", "memory", "--log-format", "json", "-v") as server:
        assert server.stop() == 0
        assert server.process.stderr is not None
        lines = [json.loads(line) for line in server.process.stderr]

    assert [(line["level"], line["logger"], line["message"]) for line in lines][-1] == (
        "info",
        "mainstay.server.process",
        "stopping",
    )


# Without a restart.


class MovableClock(SystemClock):
    def __init__(self) -> None:
        self.shift = timedelta(0)

    def wall(self) -> datetime:
        return super().wall() + self.shift


@pytest.mark.real_loop
async def test_a_running_server_takes_up_a_renewed_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "CERTIFICATES_LOOKED_AT_EVERY", timedelta(milliseconds=20))
    clock = MovableClock()
    clock.shift = timedelta(days=-330)
    options = process.ServerOptions(data_dir=tmp_path, host="127.0.0.1", port=0, store=MemoryChoice())
    server = await process.ServerProcess.start(options, Env(clock, Chance(b"seed"), SystemDisk(tmp_path)))
    address = ("127.0.0.1", urlsplit(server.url).port or 0)
    old = await asyncio.to_thread(ssl.get_server_certificate, address)
    admin = (tmp_path / "kubeconfig").read_bytes()

    clock.shift = timedelta(0)

    while await asyncio.to_thread(ssl.get_server_certificate, address) == old:
        await tasks.sleep(timedelta(milliseconds=20))
    while (tmp_path / "kubeconfig").read_bytes() == admin:
        await tasks.sleep(timedelta(milliseconds=20))
    await server.stop()


@pytest.mark.real_loop
async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = process.ServerOptions(data_dir=tmp_path, host="127.0.0.1", port=port)
        with pytest.raises(process.ServerCannotStart, match="another process does"):
            await process.ServerProcess.start(options, Env(SystemClock(), Chance(b"seed"), SystemDisk(tmp_path)))

    server = await process.ServerProcess.start(options, Env(SystemClock(), Chance(b"seed"), SystemDisk(tmp_path)))
    await server.stop()


@pytest.mark.real_loop
async def test_a_read_only_data_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "server.lock"))

    monkeypatch.setattr(SystemDisk, "lock", refuse)
    options = process.ServerOptions(data_dir=tmp_path, host="127.0.0.1", port=0)
    with pytest.raises(process.ServerCannotStart, match=r"server\.lock: Read-only file system; make .* writable"):
        await process.ServerProcess.start(options, Env(SystemClock(), Chance(b"seed"), SystemDisk(tmp_path)))


class FailingLog(MemoryLog):
    """Of a disk that fails when it is told to."""

    def __init__(self) -> None:
        self.fails = False

    async def append(self, rows: Sequence[LogRow]) -> None:
        if self.fails:
            raise OutcomeUnknown("the log could not be written: input/output error")


@pytest.mark.real_loop
async def test_a_server_whose_store_takes_no_more_writes_ends_so_that_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = FailingLog()
    store = await LocalStore.open(log)

    async def open_memory() -> LocalStore:
        return store

    monkeypatch.setattr(store_choice, "open_memory", open_memory)
    options = process.ServerOptions(data_dir=tmp_path, host="127.0.0.1", port=0, store=MemoryChoice())
    ready = asyncio.Event()
    env = Env(SystemClock(), Chance(b"seed"), SystemDisk(tmp_path))
    serving = asyncio.ensure_future(process.serve(options, env, lambda _: ready.set()))
    await ready.wait()
    log.fails = True
    with pytest.raises(OutcomeUnknown):
        await store.commit([], [Put("core/configmaps/default/one", b"{}")])

    with pytest.raises(process.CannotGoOn, match="cannot write the store; stopping, so that a restart reads it again"):
        await asyncio.wait_for(serving, LIMIT_S)
