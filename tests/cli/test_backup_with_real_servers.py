"""A backup under load, the server killed, the backup restored elsewhere: over real processes, SQLite and etcd."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import urllib3
from kubernetes import client, config

from mainstay.cli.exits import Exit
from mainstay.server.backup.contents import read_contents
from mainstay.store.interface import Entry
from tests.clients.server_process import ServerProcess
from tests.requirements import needs
from tests.store.etcd_process import EtcdProcess

pytestmark = pytest.mark.slow

LIMIT_S = 60.0
WRITERS = 3
OBJECTS_BEFORE = 40

# What servers write themselves, when they start and while they run.
WRITTEN_BY_SERVERS = (
    "~",
    "coordination.k8s.io/",
    "mainstay.dev/componentstates/",
    "core/configmaps/kube-public/cluster-info",
    "core/endpoints/default/kubernetes",
    "core/services/default/kubernetes",
    "discovery.k8s.io/endpointslices/default/kubernetes",
)


def mainstay(*arguments: str, kubeconfig: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mainstay.cli.main", *arguments]
    if kubeconfig is not None:
        command += ["--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)


def succeeded(done: "subprocess.CompletedProcess[str]") -> str:
    assert done.returncode == Exit.SATISFIED, done
    return done.stdout


class Load:
    """Writers that create ConfigMaps one after the other, and know which were acknowledged."""

    def __init__(self, server: ServerProcess) -> None:
        self.acknowledged: list[str] = []
        self._server = server
        self._is_over = threading.Event()
        self.has_begun = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        assert self.has_begun.wait(LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _write(self, writer: int) -> None:
        api = client.CoreV1Api(config.new_client_from_config(str(self._server.kubeconfig)))  # type: ignore[no-untyped-call]
        number = 0
        while not self._is_over.is_set():
            number += 1
            name = f"load-{writer}-{number}"
            try:
                metadata = client.V1ObjectMeta(name=f"load-{writer}-{number}")
                api.create_namespaced_config_map("default", client.V1ConfigMap(metadata=metadata))
            except (urllib3.exceptions.HTTPError, client.ApiException):  # Killed: this one was not acknowledged.
                return
            self.acknowledged.append(name)
            if len(self.acknowledged) >= OBJECTS_BEFORE:
                self.has_begun.set()


def objects(entries: "list[Entry]") -> dict[str, Entry]:
    return {entry.key: entry for entry in entries if not entry.key.startswith(WRITTEN_BY_SERVERS)}


def back_up_under_load(server: ServerProcess, file: Path) -> None:
    """Ends with the server killed. The backup has all that was acknowledged before it began."""
    with Load(server) as load:
        before = list(load.acknowledged)
        succeeded(mainstay("backup", str(file), kubeconfig=server.kubeconfig))
        server.kill()
    saved = objects(list(read_contents(file).entries))
    assert [name for name in before if f"core/configmaps/default/{name}" not in saved] == []


def test_sqlite_backed_up_under_load_is_restored_elsewhere_object_by_object(tmp_path: Path):
    file, again = tmp_path / "cluster.backup", tmp_path / "again.backup"
    with ServerProcess() as server:
        back_up_under_load(server, file)
    other = ServerProcess()
    said = succeeded(mainstay("restore", str(file), "--data-dir", str(other.data_dir)))
    assert "Start the server: mainstay server --data-dir" in said
    with other:
        succeeded(mainstay("backup", str(again), kubeconfig=other.kubeconfig))
        other.kill()
        refused = mainstay("restore", str(file), "--data-dir", str(other.data_dir))
        assert refused.returncode == Exit.ERROR
        assert "--replace" in refused.stderr
        # A second restore of the same backup, in the place of the first.
        succeeded(mainstay("restore", str(file), "--data-dir", str(other.data_dir), "--replace"))
        other.start()
        succeeded(mainstay("backup", str(again), "--force", kubeconfig=other.kubeconfig))
        assert "no damage" in succeeded(mainstay("store", "verify", kubeconfig=other.kubeconfig))

    assert objects(list(read_contents(again).entries)) == objects(list(read_contents(file).entries))


@needs("etcd")
def test_etcd_backed_up_under_load_is_restored_into_another_etcd(tmp_path: Path):
    file, again = tmp_path / "cluster.backup", tmp_path / "again.backup"
    with EtcdProcess() as etcd, ServerProcess(f"--store=etcd=http://{etcd.endpoint}") as server:
        back_up_under_load(server, file)
    with EtcdProcess() as etcd:
        url = f"http://{etcd.endpoint}"
        succeeded(mainstay("restore", str(file), "--etcd", url))
        refused = mainstay("restore", str(file), "--etcd", url)
        assert refused.returncode == Exit.ERROR
        assert "has objects already" in refused.stderr
        succeeded(mainstay("restore", str(file), "--etcd", url, "--replace"))
        assert len(list(tmp_path.glob("cluster.backup.replaced-*"))) == 1
        # Another machine, without the keys of the cluster.
        with ServerProcess(f"--store=etcd={url}", "--replace-keys") as server:
            succeeded(mainstay("backup", str(again), kubeconfig=server.kubeconfig))
            assert "no damage" in succeeded(mainstay("store", "verify", kubeconfig=server.kubeconfig))

    expected = {key: entry.value for key, entry in objects(list(read_contents(file).entries)).items()}
    assert {key: entry.value for key, entry in objects(list(read_contents(again).entries)).items()} == expected
