"""What the control plane writes on a Node about its health: conditions, taints, and the verdict with its evidence.

The verdict stands in the annotation `mainstay.dev/health`, with what led to it, since when, and what keeps the
controller from going further; and with what the node last said about itself, because the verdict takes the place of
that in the condition `Ready`. controllers/node_health/ decides; this page has the words that others read.
"""

from enum import StrEnum
from typing import Final

import msgspec

from mainstay.api.json_values import UNREADABLE
from mainstay.api.kind import Object
from mainstay.api.taints import NO_EXECUTE, NO_SCHEDULE, Taint
from mainstay.api.well_known_labels import NOT_READY_TAINT, UNREACHABLE_TAINT

HEALTH: Final = "mainstay.dev/health"
SUSPECT: Final = "Suspect"
"""A condition: this node's heartbeat is late."""
UNHEARD: Final = "NodeStatusUnknown"
"""The reason of `Ready=Unknown` when that is our verdict. The same word as in Kubernetes."""

SUSPECTED: Final = Taint("mainstay.dev/suspect", "", NO_SCHEDULE)
UNREACHABLE: Final = Taint(UNREACHABLE_TAINT, "", NO_SCHEDULE)
RELEASED: Final = Taint(UNREACHABLE_TAINT, "", NO_EXECUTE)
NOT_READY: Final = Taint(NOT_READY_TAINT, "", NO_SCHEDULE)
NOT_READY_RELEASED: Final = Taint(NOT_READY_TAINT, "", NO_EXECUTE)
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""A taint by which an operator says that the machine is off."""

PRESSURES: Final = (
    ("MemoryPressure", Taint("node.kubernetes.io/memory-pressure", "", NO_SCHEDULE)),
    ("DiskPressure", Taint("node.kubernetes.io/disk-pressure", "", NO_SCHEDULE)),
    ("PIDPressure", Taint("node.kubernetes.io/pid-pressure", "", NO_SCHEDULE)),
    ("NetworkUnavailable", Taint("node.kubernetes.io/network-unavailable", "", NO_SCHEDULE)),
)

TAINTS: Final = (
    SUSPECTED,
    UNREACHABLE,
    RELEASED,
    NOT_READY,
    NOT_READY_RELEASED,
    *(taint for _, taint in PRESSURES),
)
"""The taints that the node-health controller sets and removes."""

LEASE_NAMESPACE: Final = "kube-node-lease"
"""Where agents renew the leases of their nodes."""


class HealthState(StrEnum):
    """What we make of a node. Shown to users: only add."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"
    """Its heartbeat is late: nothing new is placed there."""
    UNKNOWN = "Unknown"
    """It sends no heartbeats: its pods receive no traffic, and their resources stay reserved."""
    RELEASED = "Released"
    """Its pods may be evicted and replaced."""


class NodeHealthRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation."""

    state: str = HealthState.HEALTHY
    since: str = ""
    evidence: tuple[str, ...] = ()
    held: str = ""
    """Why nothing more is done, though it would be time."""
    ready: tuple[str, str, str] = ("", "", "")
    """What the node itself said last about being ready: status, reason and message."""
    hold: str = ""
    """The Hold that keeps its pods from being evicted, if that is why nothing more is done."""


NO_RECORD: Final = NodeHealthRecord()
_decode = msgspec.json.Decoder(NodeHealthRecord).decode
_encode = msgspec.json.Encoder().encode


def record_in(node: Object) -> NodeHealthRecord:
    """What stands there. What cannot be read was not written by us, and counts as nothing."""
    text = (node["metadata"].get("annotations") or {}).get(HEALTH)
    try:
        return _decode(text) if text else NO_RECORD
    except UNREADABLE:
        return NO_RECORD


def render_record(record: NodeHealthRecord) -> str:
    return _encode(record).decode()
