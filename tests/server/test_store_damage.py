"""A server whose store was damaged while it was down: it is refused in words, checked, salvaged, and goes on."""

import http.client
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.env import tasks
from mainstay.store import open_sqlite, sqlite_log
from mainstay.store.interface import Put
from tests.processes import eventually
from tests.server.test_process import COMMAND, LIMIT_S, Server, running

OBJECTS = 60
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def create_objects(server: Server, count: int) -> None:
    parts = urlsplit(server.url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port or 0, context=server.context(), timeout=LIMIT_S
    )
    for number in range(count):
        body = json.dumps({"metadata": {"name": f"c{number:03}"}, "data": {"text": "x" * 700}})
        connection.request("POST", CONFIG_MAPS, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 201
    connection.close()


def list_names(server: Server) -> tuple[list[str], int]:
    _, body, _ = server.get(CONFIG_MAPS)
    found = json.loads(body)
    names = [item["metadata"]["name"] for item in found["items"]]
    return [name for name in names if name != "kube-root-ca.crt"], int(found["metadata"]["resourceVersion"])


def read_frontier(server: Server) -> int:
    text = server.get("/metrics")[1].decode()
    return int(float(text.split("\nmainstay_journal_frontier ")[1].split()[0]))


def damage_wal(data: Path) -> None:
    """So that about half of the commits cannot be read."""
    wal = data / "store" / sqlite_log.WAL
    content = bytearray(wal.read_bytes())
    content[len(content) // 2] ^= 1
    wal.write_bytes(content)


@pytest.mark.slow
def test_a_server_refuses_a_shorter_history_and_goes_on_after_a_salvage(tmp_path, capsys):
    data = tmp_path / "data"
    with running(data) as server:
        create_objects(server, OBJECTS)
        _, revision = list_names(server)
        eventually(lambda: read_frontier(server) >= revision)
        server.process.kill()
        server.process.wait()
    damage_wal(data)

    refused = subprocess.run(
        [*COMMAND, "--data-dir", str(data), "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert refused.returncode == Exit.BLOCKED
    assert "the store is damaged:" in refused.stderr
    assert "was acknowledged" in refused.stderr
    assert f"mainstay store verify --data-dir {data}" in refused.stderr
    assert "Traceback" not in refused.stderr

    assert run(["store", "verify", "--data-dir", str(data)]) == Exit.BLOCKED
    printed = capsys.readouterr().out
    assert "store.db-wal: damaged at byte" in printed
    assert "commits are lost" in printed
    assert run(["store", "verify", "--data-dir", str(data), "--json"]) == Exit.BLOCKED
    report = json.loads(capsys.readouterr().out)
    assert {fault["file"] for fault in report["store"]["faults"]} == {"store.db", "store.db-wal"}
    assert report["journal"]["faults"] == []

    assert run(["store", "salvage", "--data-dir", str(data)]) == Exit.BLOCKED
    planned = capsys.readouterr().out
    assert "core/configmaps/default/c" in planned
    assert "Nothing was changed" in planned
    assert run(["store", "salvage", "--data-dir", str(data), "--accept-loss"]) == Exit.SATISFIED
    done = capsys.readouterr().out
    assert done.splitlines()[0] == planned.splitlines()[0]
    assert f"The damaged one is in {data / 'store.damaged-1'}" in done
    assert (data / "store.damaged-1" / sqlite_log.WAL).exists()

    with running(data) as server:
        names, after = list_names(server)
        assert 5 < len(names) < OBJECTS
        assert names == [f"c{number:03}" for number in range(len(names))]
        assert after > 1_000_000_000 + revision
        status, body, _ = server.get(f"{CONFIG_MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=1")
        assert status == 410 or json.loads(body.splitlines()[0])["object"]["code"] == 410
        eventually(lambda: read_frontier(server) >= after)
        assert b"journal" not in b"".join(
            line for line in server.get("/readyz?verbose")[1].splitlines() if line.startswith(b"[-]")
        )
        assert server.stop() == 0
    assert run(["store", "verify", "--data-dir", str(data)]) == Exit.SATISFIED


async def a_data_dir(path: Path) -> Path:
    store = await open_sqlite(path / "store")
    await store.commit([], [Put("core/configmaps/default/one", b"{}")])
    await store.close()
    return path


async def test_a_directory_without_damage_is_verified_and_in_use_it_is_refused(tmp_path, capsys):
    data = await a_data_dir(tmp_path / "data")
    assert run(["store", "verify", "--data-dir", str(data)]) == Exit.SATISFIED
    assert "store: revision 2, 1 row, format 2, no damage" in capsys.readouterr().out

    store = await open_sqlite(data / "store")
    assert run(["store", "verify", "--data-dir", str(data)]) == Exit.ERROR
    assert "is in use by process" in capsys.readouterr().err
    await store.close()


async def test_what_is_no_data_directory_is_said(tmp_path, capsys):
    assert run(["store", "verify", "--data-dir", str(tmp_path / "absent")]) == Exit.ERROR
    assert "absent not found" in capsys.readouterr().err
    assert run(["store", "verify", "--data-dir", str(tmp_path)]) == Exit.ERROR
    assert "no store and no journal in" in capsys.readouterr().err
    assert run(["store", "salvage", "--data-dir", str(tmp_path)]) == Exit.ERROR
    assert "no store in" in capsys.readouterr().err


def test_an_interrupted_salvage_is_not_taken_for_an_empty_directory(tmp_path, capsys):
    data = tasks.run(a_data_dir(tmp_path / "data"))
    (data / "store").rename(data / "store.salvaging")

    assert run(["server", "--data-dir", str(data), "--listen", "127.0.0.1:0"]) == Exit.BLOCKED
    assert "a salvage was interrupted: rename" in capsys.readouterr().err
