"""The credentials of what runs in a cluster on one machine: made once, and again when they are no longer good."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from mainstay.cli.cluster import ClusterSettings, LocalCluster
from mainstay.cli.credentials import FILE, ensure_all
from mainstay.client.config import from_kubeconfig_file
from mainstay.env import SystemDisk
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import issue_client
from mainstay.server.auth.kubeconfig import ByCertificate, kubeconfig_text

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALL = ["scheduler", "controllers", "node-a1", "node-b1"]


class At:
    """A clock that stands still."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def wall(self) -> datetime:
        return self.now

    def monotonic_ns(self) -> int:
        return 0


def a_cluster(directory: Path, port: int = 6443) -> LocalCluster:
    return LocalCluster(directory, ClusterSettings(nodes=2, port=port, network=70))


def test_they_are_made_once(tmp_path: Path):
    disk = SystemDisk(tmp_path)

    assert ensure_all(a_cluster(tmp_path), disk, At(NOW)) == ALL
    assert ensure_all(a_cluster(tmp_path), disk, At(NOW + timedelta(days=200))) == []


def test_they_are_made_again_well_before_they_expire(tmp_path: Path):
    disk = SystemDisk(tmp_path)
    ensure_all(a_cluster(tmp_path), disk, At(NOW))

    assert ensure_all(a_cluster(tmp_path), disk, At(NOW + timedelta(days=330))) == ALL


def test_they_are_made_again_when_the_server_is_elsewhere(tmp_path: Path):
    disk = SystemDisk(tmp_path)
    ensure_all(a_cluster(tmp_path), disk, At(NOW))

    assert ensure_all(a_cluster(tmp_path, port=7000), disk, At(NOW)) == ALL


def test_one_that_cannot_be_read_is_made_again(tmp_path: Path):
    disk = SystemDisk(tmp_path)
    ensure_all(a_cluster(tmp_path), disk, At(NOW))
    (tmp_path / "nodes" / "node-b1" / FILE).write_text("apiVersion")

    assert ensure_all(a_cluster(tmp_path), disk, At(NOW)) == ["node-b1"]


def read_subject(path: Path) -> tuple[list[str], list[str]]:
    subject = x509.load_pem_x509_certificate(from_kubeconfig_file(path).tls.certificate.encode()).subject
    found = (subject.get_attributes_for_oid(oid) for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME))
    names, groups = ([str(each.value) for each in attributes] for attributes in found)
    return names, groups


def test_each_component_has_its_own_identity_and_none_has_full_access(tmp_path: Path):
    ensure_all(a_cluster(tmp_path), SystemDisk(tmp_path), At(NOW))

    assert read_subject(tmp_path / "nodes" / "node-a1" / FILE) == (["system:node:node-a1"], ["system:nodes"])
    assert read_subject(tmp_path / "scheduler" / FILE) == (["system:kube-scheduler"], [])
    assert read_subject(tmp_path / "controllers" / FILE) == (["system:kube-controller-manager"], [])


def test_credentials_with_full_access_of_an_older_release_are_replaced(tmp_path: Path):
    disk, cluster = SystemDisk(tmp_path), a_cluster(tmp_path)
    ensure_all(cluster, disk, At(NOW))
    issued = issue_client(disk, At(NOW), User("system:kube-scheduler", ("system:masters",)))
    shown = ByCertificate(issued.authority, issued.certificate, issued.key)
    (tmp_path / "scheduler" / FILE).write_text(kubeconfig_text(cluster.url, shown))

    assert ensure_all(cluster, disk, At(NOW)) == ["scheduler"]
    assert read_subject(tmp_path / "scheduler" / FILE) == (["system:kube-scheduler"], [])


def test_only_the_administrators_file_is_called_kubeconfig_and_only_its_owner_reads_it(tmp_path: Path):
    ensure_all(a_cluster(tmp_path), SystemDisk(tmp_path), At(NOW))

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if "kubeconfig" in path.name]
    assert not [path for path in files if path.stat().st_mode & 0o077]
