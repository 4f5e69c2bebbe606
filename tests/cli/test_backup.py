"""`mainstay backup`: the file, what is refused, and what is said."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import click
import pytest

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.cli.backup import KEYS_WARNING, back_up_cluster, save
from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.env import SystemDisk, tasks
from mainstay.server.backup.facts import BackupCounter, read_backup
from mainstay.sim.simulation import Simulation
from mainstay.store.backup_format import BackupFile, BackupHead, BackupWriter
from mainstay.store.interface import Entry, Put
from mainstay.store.local import LocalStore
from mainstay.store.sqlite_log import SqliteLog
from tests.cli.paper import Paper
from tests.server.decisions.journal_world import a_configmap, a_journaled_server


def read_all(path: Path) -> list[Entry | BackupFile]:
    counter = BackupCounter(decodes=False)
    found = [part for parts in read_backup(path, counter) for part in parts]
    counter.finish()
    return found


async def a_data_dir(path: Path) -> Path:
    """The data directory of a server that has stopped."""
    store = await LocalStore.open(SqliteLog(SystemDisk(path / "store")))
    await store.commit([], [Put("core/configmaps/default/one", b'{"metadata":{"name":"one"}}')])
    await store.close()
    for name in ("ca.crt", "ca.key", "service-account.key"):
        (path / name).write_bytes(f"the {name}".encode())
    return path


async def test_a_backup_of_a_running_server_is_whole_private_and_summed_up(sim: Simulation, tmp_path: Path):
    file, paper = tmp_path / "cluster.backup", Paper()
    async with a_journaled_server(sim) as served:
        await served.admin.create(CONFIG_MAPS, a_configmap("one"), "default")

        assert await back_up_cluster(served.admin, file, paper) == Exit.SATISFIED

    entries = {part.key: part for part in read_all(file) if isinstance(part, Entry)}
    objects = sum(not key.startswith("~") for key in entries)
    assert "core/configmaps/default/one" in entries
    assert f"{objects} objects" in paper.text
    assert "sha256 " in paper.text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == [file.name]


async def test_what_comes_short_leaves_no_file(tmp_path: Path):
    async def cut_short() -> AsyncIterator[bytes]:
        yield BackupWriter().begin(BackupHead(revision=1, made_at="", build=""))

    with pytest.raises(click.ClickException, match="truncated"):
        await save(cut_short(), tmp_path / "cluster.backup", Paper())
    assert os.listdir(tmp_path) == []


def test_an_existing_file_is_overwritten_only_with_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "cluster.backup"
    file.write_text("precious")

    assert run(["backup", str(file), "--kubeconfig", str(tmp_path / "none")]) == Exit.ERROR

    assert "overwrite it with --force" in capsys.readouterr().err
    assert file.read_text() == "precious"


def test_keys_are_saved_only_on_the_machine_of_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["backup", str(tmp_path / "b"), "--with-keys"]) == Exit.USAGE
    assert "--with-keys requires --data-dir" in capsys.readouterr().err


@pytest.mark.parametrize("with_keys", [False, True])
def test_the_data_directory_of_a_stopped_server_is_backed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_keys: bool
):
    data_dir, file = tmp_path / "data", tmp_path / "cluster.backup"
    data_dir.mkdir()
    tasks.run(a_data_dir(data_dir))
    file.write_text("an older one")

    options = ["--with-keys"] if with_keys else []
    assert run(["backup", str(file), "--data-dir", str(data_dir), "--force", *options]) == Exit.SATISFIED

    found = read_all(file)
    files = {part.name: part.content for part in found if isinstance(part, BackupFile)}
    expected = {name: f"the {name}".encode() for name in ("ca.crt", "ca.key", "service-account.key")}
    assert files == (expected if with_keys else {})
    assert [part.key for part in found if isinstance(part, Entry)] == ["core/configmaps/default/one"]
    assert (KEYS_WARNING in capsys.readouterr().err) == with_keys


def test_a_directory_without_a_store_is_refused_and_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data_dir = tmp_path / "data"
    data_dir.mkdir()

    assert run(["backup", str(tmp_path / "b"), "--data-dir", str(data_dir)]) == Exit.ERROR

    assert f"no store in {data_dir}" in capsys.readouterr().err
    assert list(data_dir.iterdir()) == []
    assert not (tmp_path / "b").exists()


def test_a_backup_is_verified_object_by_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data_dir, file = tmp_path / "data", tmp_path / "cluster.backup"
    data_dir.mkdir()
    tasks.run(a_data_dir(data_dir))
    assert run(["backup", str(file), "--data-dir", str(data_dir)]) == Exit.SATISFIED
    capsys.readouterr()

    assert run(["store", "verify", "--backup", str(file)]) == Exit.SATISFIED
    assert "1 object, " in (said := capsys.readouterr().out)
    assert "no damage" in said

    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(data)
    assert run(["store", "verify", "--backup", str(file)]) == Exit.ERROR
    assert "use another copy" in capsys.readouterr().err


def test_only_one_thing_is_verified_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "b").write_bytes(b"")
    assert run(["store", "verify", "--backup", str(tmp_path / "b"), "--data-dir", str(tmp_path)]) == Exit.USAGE
    assert "give only one of" in capsys.readouterr().err
