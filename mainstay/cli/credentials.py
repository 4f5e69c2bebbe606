"""The credentials of the processes of a cluster on one machine: a kubeconfig each, with a certificate of its CA.

The files exist before the first start of the server, so that all processes can start at once. They are renewed well
before they expire, and when the address of the server changes. A process with renewed credentials has to restart.
"""

from typing import Final

from mainstay.cli.cluster import SCHEDULER, LocalCluster
from mainstay.env import Clock, SystemDisk
from mainstay.env.disk import Disk
from mainstay.server.auth import identities
from mainstay.server.auth.authorization import User
from mainstay.server.auth.kubeconfig import ensure_kubeconfig

FILE: Final = "credentials.yaml"


def ensure_all(cluster: LocalCluster, disk: Disk, clock: Clock) -> list[str]:
    """Make missing and renew old credentials. Returns the components with new ones. Blocks. Raises `BadCertificate`,
    `DiskFull`.

    `disk` is the data directory of the cluster. Do not call it during the first start of a server there.
    """
    users = {name: identities.SCHEDULER if name == SCHEDULER else identities.CONTROLLERS for name in cluster.deciders()}
    users |= {node.name: identities.build_node_user(node.name) for node in cluster.nodes()}
    return [name for name, user in users.items() if _ensure(cluster, name, disk, clock, user)]


def _ensure(cluster: LocalCluster, name: str, disk: Disk, clock: Clock, user: User) -> bool:
    own = SystemDisk(cluster.component_directory(name))
    try:
        return ensure_kubeconfig(own, FILE, user, cluster.url, None, disk, clock)
    finally:
        own.close()
