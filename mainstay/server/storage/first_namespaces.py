"""The namespaces that clients expect in every cluster: made when a server starts, with all that a namespace has."""

from typing import Final

from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Kind
from mainstay.api.pod_security import ENFORCE
from mainstay.api.pod_security_checks import SecurityLevel
from mainstay.server.request.options import WriteParameters
from mainstay.server.storage.namespace_contents import FIRST_NAMESPACES
from mainstay.server.storage.writes import ObjectWriter

_LABELS: Final = {"kube-system": {ENFORCE: SecurityLevel.PRIVILEGED.value}}
"""What runs the cluster may need the machine itself."""


async def make_first_namespaces(writes: ObjectWriter, kind: Kind) -> None:
    for name in FIRST_NAMESPACES:
        metadata = {"name": name, "labels": dict(_LABELS.get(name) or {})}
        new = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": metadata}
        try:
            await writes.create(kind, "", new, WriteParameters(False, "Ignore", "mainstay"))
        except StatusError as error:
            if error.reason is not StatusReason.ALREADY_EXISTS:
                raise
