"""The credentials of the processes of a cluster on one machine: a kubeconfig each, with a certificate of its CA.

The files exist before the first start of the server, so that all processes can start at once. They are renewed well
before they expire, and when the address of the server changes. A process with renewed credentials has to restart.
"""

from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from mainstay.cli.cluster import SCHEDULER, LocalCluster
from mainstay.client.config import BadConfig, from_kubeconfig
from mainstay.env import Clock, SystemDisk
from mainstay.env.disk import Disk
from mainstay.server.auth.authorization import MASTERS, NODES
from mainstay.server.auth.certificates import RENEWED_BEFORE, issue_client, write_whole
from mainstay.server.auth.kubeconfig import ByCertificate, kubeconfig_text

FILE: Final = "credentials.yaml"
_SCHEDULER: Final = "system:kube-scheduler"
_CONTROLLERS: Final = "system:kube-controller-manager"


def ensure_all(cluster: LocalCluster, disk: Disk, clock: Clock) -> list[str]:
    """Make missing and renew old credentials. Returns the components with new ones. Blocks. Raises `BadCertificate`,
    `DiskFull`.

    `disk` is the data directory of the cluster. Do not call it during the first start of a server there.
    """
    # Scheduler and controllers have full access until roles are evaluated (server/auth/authorization.py).
    users = {name: (_SCHEDULER if name == SCHEDULER else _CONTROLLERS, [MASTERS]) for name in cluster.deciders()}
    users |= {node.name: (f"system:node:{node.name}", [NODES]) for node in cluster.nodes()}
    return [name for name, (user, groups) in users.items() if _ensure(cluster, name, disk, clock, user, groups)]


def _ensure(cluster: LocalCluster, name: str, disk: Disk, clock: Clock, user: str, groups: list[str]) -> bool:
    own = SystemDisk(cluster.component_directory(name))
    try:
        if _is_good(own, disk, clock.wall(), cluster.url):
            return False
        issued = issue_client(disk, clock, user, groups)
        shown = ByCertificate(issued.authority, issued.certificate, issued.key)
        write_whole(own, FILE, kubeconfig_text(cluster.url, shown, user=user).encode())
        return True
    finally:
        own.close()


def _is_good(own: Disk, disk: Disk, now: datetime, url: str) -> bool:
    try:
        config = from_kubeconfig(own.read(FILE).decode(), Path())
        certificate = x509.load_pem_x509_certificate(config.tls.certificate.encode())
        authority = disk.read("ca.crt")
    except (FileNotFoundError, UnicodeDecodeError, BadConfig, ValueError):
        return False
    if config.servers != (url,) or config.tls.authorities.encode() != authority:
        return False
    return certificate.not_valid_before_utc <= now and certificate.not_valid_after_utc - now > RENEWED_BEFORE
