"""The workload kinds, and what each of them owns: one line per kind.

Repair, holds, `timeline` and `why` go from an owner to what it owns, and back, by this table. A new workload kind is
added here.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CRON_JOBS, DEPLOYMENTS, JOBS, PODS, REPLICASETS


class WorkloadKind(NamedTuple):
    kind: KindName
    owns: KindName
    has_controller: bool = True
    """Whether a controller of Mainstay acts on it. Objects of the others are stored, and their owned ones are shown."""


WORKLOADS: Final = (
    WorkloadKind(DEPLOYMENTS, REPLICASETS),
    WorkloadKind(REPLICASETS, PODS),
    WorkloadKind(JOBS, PODS),
    WorkloadKind(CRON_JOBS, JOBS, has_controller=False),
)
CONTROLLED: Final = tuple(each.kind for each in WORKLOADS if each.has_controller)
"""The kinds that a controller of Mainstay acts on."""
OWNED: Final[Mapping[str, KindName]] = {each.kind.text: each.owns for each in WORKLOADS}
"""What a kind owns, by how the kind is named in journals: `deployments.apps`."""
_BY_REFERENCE: Final = {(kind.group, kind.kind): kind for kind in CONTROLLED}


def find_owner_kind(reference: Object) -> KindName | None:
    """The workload kind that an owner reference names. None if it is another kind."""
    group, _, _ = str(reference.get("apiVersion", "")).rpartition("/")
    return _BY_REFERENCE.get((group, str(reference.get("kind", ""))))
