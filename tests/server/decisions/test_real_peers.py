"""Real API servers over one etcd with TLS and users: known to each other by certificates, answering for each other."""

import contextlib
import http.client
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mainstay.journal import wire
from mainstay.journal.record import encode, joined
from tests.journal.builders import a_decision
from tests.requirements import needs
from tests.server.test_process import LIMIT_S, Server, running
from tests.store.secure_etcd import SecureEtcd

pytestmark = [needs("etcd"), pytest.mark.slow]

KEYS = ("ca.crt", "ca.key", "service-account.key")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DECISIONS = "/apis/mainstay.dev/v1/decisions"


@contextlib.contextmanager
def two_servers(tmp_path: Path, etcd: SecureEtcd) -> Iterator[tuple[Server, Server]]:
    access = etcd.access()
    assert access.tls is not None
    assert access.login is not None
    options = (
        f"--store=etcd=https://{etcd.endpoint}",
        f"--etcd-ca={access.tls.authority}",
        f"--etcd-cert={access.tls.certificate}",
        f"--etcd-key={access.tls.key}",
        f"--etcd-user={access.login.user}",
        f"--etcd-password-file={access.login.password_file}",
    )
    with running(tmp_path / "first", *options) as first:
        (tmp_path / "second").mkdir()
        for name in KEYS:
            shutil.copy(tmp_path / "first" / name, tmp_path / "second" / name)
        with running(tmp_path / "second", *options) as second:
            yield first, second


def connect(server: Server) -> http.client.HTTPSConnection:
    parts = urlsplit(server.url)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port or 0, context=server.context(), timeout=LIMIT_S)


def tell(server: Server, name: str, number: int) -> str:
    """Let a component tell a decision to a server."""
    record = a_decision(name, number)
    with contextlib.closing(connect(server)) as connection:
        connection.request("POST", f"{wire.PATH}decisions", joined([encode(record)]), {"Content-Type": wire.RECORDS})
        assert connection.getresponse().status == 200
    return record.id


def find_decisions(server: Server) -> tuple[list[str], str]:
    """Their names, and what the server warns about."""
    status, body, headers = server.get(DECISIONS)
    assert status == 200
    return sorted(each["metadata"]["name"] for each in json.loads(body)["items"]), headers.get("Warning", "")


def read_event(response: http.client.HTTPResponse) -> Any:
    return json.loads(response.readline())


def test_each_server_knows_what_was_told_to_the_other_and_names_one_that_is_stuck(tmp_path: Path) -> None:
    with SecureEtcd() as etcd, two_servers(tmp_path, etcd) as (first, second):
        told = sorted([tell(first, "a", 1), tell(second, "b", 2)])
        assert find_decisions(first) == (told, "")
        assert find_decisions(second) == (told, "")

        second.process.send_signal(signal.SIGSTOP)
        found, warning = find_decisions(first)
        second.process.send_signal(signal.SIGCONT)
        assert (found, f"{urlsplit(second.url).netloc} did not answer" in warning) == (told[:1], True)


def test_a_watch_goes_on_at_the_other_server_without_a_gap(tmp_path: Path) -> None:
    with SecureEtcd() as etcd, two_servers(tmp_path, etcd) as (first, second):
        reached = json.loads(first.get(CONFIG_MAPS)[1])["metadata"]["resourceVersion"]
        with contextlib.closing(connect(first)) as connection:
            connection.request("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={reached}")
            watch = connection.getresponse()
            assert second.post(CONFIG_MAPS, {"metadata": {"name": "one"}})[0] == 201
            event = read_event(watch)
        assert event["object"]["metadata"]["name"] == "one"
        assert second.post(CONFIG_MAPS, {"metadata": {"name": "two"}})[0] == 201
        first.process.kill()

        reached = event["object"]["metadata"]["resourceVersion"]
        assert second.post(CONFIG_MAPS, {"metadata": {"name": "three"}})[0] == 201
        with contextlib.closing(connect(second)) as connection:
            connection.request("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={reached}")
            watch = connection.getresponse()
            assert [read_event(watch)["object"]["metadata"]["name"] for _ in range(2)] == ["two", "three"]
