"""The ConfigMap `cluster-info` in kube-public: the certificates of the cluster's authority, for machines that join.

Everyone may read it, also who is not known (role `system:mainstay:cluster-info`), as in clusters of kubeadm: a machine
checks what it finds there against the hash that it was given, and only then shows its token. The first server writes
the address at which it is found; machines that join use the address that they were given.
"""

from base64 import b64encode
from typing import Final

from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Kind, Object
from mainstay.server.request.options import WriteParameters
from mainstay.server.storage.strategies import PATCH
from mainstay.server.storage.writes import ObjectWriter

NAMESPACE: Final = "kube-public"
NAME: Final = "cluster-info"
KEY: Final = "kubeconfig"
_OPTIONS: Final = WriteParameters(False, "Ignore", "mainstay")


async def publish_cluster_info(writes: ObjectWriter, kind: Kind, url: str, authorities: str) -> None:
    """Put it there, unless it has these authorities. `kind` is ConfigMap. Raises `StatusError`, `StoreError`."""
    encoded = b64encode(authorities.encode()).decode("ascii")
    wanted = _render(url, encoded)

    def mutate(found: Object) -> Object:
        is_there = encoded in str((found.get("data") or {}).get(KEY, ""))
        return found if is_there else {**found, "data": {**(found.get("data") or {}), KEY: wanted}}

    metadata = {"name": NAME, "namespace": NAMESPACE}
    new = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": metadata, "data": {KEY: wanted}}
    try:
        await writes.create(kind, NAMESPACE, new, _OPTIONS)
    except StatusError as error:
        if error.reason is not StatusReason.ALREADY_EXISTS:
            raise
        await writes.update(kind, NAMESPACE, NAME, mutate, PATCH, _OPTIONS)


def _render(url: str, authorities: str) -> str:
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: ""
  cluster:
    server: {url}
    certificate-authority-data: {authorities}
contexts: []
users: []
current-context: ""
"""
