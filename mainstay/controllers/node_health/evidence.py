"""What is known of a node, what that is evidence of, and how the verdict is written down on the Node.

The verdict stands in the annotation `mainstay.dev/health`, with what led to it, since when, and what keeps us from
going further; and with what the node last said about itself, because the verdict takes the place of that in the
condition `Ready`: when the node is heard again, its own words are put back.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.pod_state import condition_of, zone_of
from mainstay.api.taints import NO_EXECUTE, NO_SCHEDULE, Taint, taints_of
from mainstay.controllers.node_health.heartbeats import Heard, fence, is_heard, silent_for
from mainstay.loop.evidence import Evidence, Scope, Signal, Strength

HEALTH: Final = "mainstay.dev/health"
SUSPECT: Final = "Suspect"
"""A condition: this node's heartbeat is late."""
UNHEARD: Final = "NodeStatusUnknown"
"""The reason of `Ready=Unknown` when that is our verdict. The same word as in Kubernetes."""

SUSPECTED: Final = Taint("mainstay.dev/suspect", "", NO_SCHEDULE)
UNREACHABLE: Final = Taint("node.kubernetes.io/unreachable", "", NO_SCHEDULE)
RELEASED: Final = Taint("node.kubernetes.io/unreachable", "", NO_EXECUTE)
NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", NO_SCHEDULE)
NOT_READY_RELEASED: Final = Taint("node.kubernetes.io/not-ready", "", NO_EXECUTE)
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""A taint by which an operator says that the machine is off."""

PRESSURES: Final = (
    ("MemoryPressure", Taint("node.kubernetes.io/memory-pressure", "", NO_SCHEDULE)),
    ("DiskPressure", Taint("node.kubernetes.io/disk-pressure", "", NO_SCHEDULE)),
    ("PIDPressure", Taint("node.kubernetes.io/pid-pressure", "", NO_SCHEDULE)),
    ("NetworkUnavailable", Taint("node.kubernetes.io/network-unavailable", "", NO_SCHEDULE)),
)


class State(StrEnum):
    """What we make of a node. Shown to users: only add."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"
    """Its heartbeat is late: nothing new is placed there."""
    UNKNOWN = "Unknown"
    """Nothing is heard of it: its pods get no traffic, and all that they have stays theirs."""
    RELEASED = "Released"
    """Its pods may be replaced."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation."""

    state: str = State.HEALTHY
    since: str = ""
    evidence: tuple[str, ...] = ()
    held: str = ""
    """Why nothing more is done, though it would be time."""
    ready: tuple[str, str, str] = ("", "", "")
    """What the node itself said last about being ready: status, reason and message."""


NO_RECORD: Final = Record()
_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


def record_in(node: Object) -> Record:
    """What stands there. What cannot be read was not written by us, and counts as nothing."""
    text = (node["metadata"].get("annotations") or {}).get(HEALTH)
    try:
        return _decode(text) if text else NO_RECORD
    except msgspec.MsgspecError:
        return NO_RECORD


def text_of(record: Record) -> str:
    return _encode(record).decode()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A Node as far as its health is concerned."""

    name: str
    uid: str
    version: str
    zone: str
    ready: tuple[str, str, str] = ("", "", "")
    """Status, reason and message of its condition; empty if it has none."""
    is_suspect: bool = False
    """By its condition."""
    has_suspect: bool = False
    taints: tuple[Taint, ...] = ()
    record: Record = NO_RECORD
    status_marker: str = ""
    pressures: tuple[Taint, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.ready[0] == "True"

    @property
    def is_out_of_service(self) -> bool:
        return any(taint.key == OUT_OF_SERVICE for taint in self.taints)


def facts_of(node: Object) -> NodeFacts:
    metadata = node["metadata"]
    ready: Any = condition_of(node, "Ready") or {}
    suspect: Any = condition_of(node, SUSPECT) or {}
    pressures = tuple(taint for name, taint in PRESSURES if (condition_of(node, name) or {}).get("status") == "True")
    return NodeFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        zone=zone_of(node),
        ready=(ready.get("status") or "", ready.get("reason") or "", ready.get("message") or ""),
        is_suspect=suspect.get("status") == "True",
        has_suspect=bool(suspect),
        taints=taints_of(node),
        record=record_in(node),
        # Our own verdict is no word of the node's.
        status_marker="" if ready.get("reason") == UNHEARD else str(ready.get("lastHeartbeatTime") or ""),
        pressures=pressures,
    )


class Hearing(StrEnum):
    """What listening to one node has come to."""

    HEARD = "heard"
    NOT_YET = "not yet"
    """We have not listened for long enough to say anything."""
    LATE = "late"
    SILENT = "silent"


def hearing_of(heard: Heard, since_ns: int, now_ns: int) -> Hearing:
    """A heartbeat is late when half of what the lease lasts has gone by: that is two of them. When all of it has, the
    node is silent."""
    silent = silent_for(heard, since_ns, now_ns)
    if silent >= heard.duration:
        return Hearing.SILENT
    if silent >= heard.duration / 2:
        return Hearing.LATE
    return Hearing.HEARD if is_heard(heard, since_ns) else Hearing.NOT_YET


def evidence_of(name: str, heard: Heard, since_ns: int, now_ns: int) -> list[Evidence]:
    """What the silence of a node is evidence of."""
    silent = silent_for(heard, since_ns, now_ns)
    if silent < heard.duration / 2:
        return []
    missed = Signal.MISSED_HEARTBEATS
    if silent < heard.duration:
        is_much = silent >= heard.duration * 3 / 4
        return [Evidence(missed, Strength.REPEATED if is_much else Strength.HINT, Scope.NODE, name)]
    found = [Evidence(missed, Strength.SUSTAINED, Scope.NODE, name)]
    is_fenced = fence(heard, now_ns) is not None
    strength = Strength.CONCLUSIVE if is_fenced else Strength.REPEATED
    found.append(Evidence(Signal.LEASE_EXPIRY, strength, Scope.NODE, name))
    return found


def said(evidence: list[Evidence], silent: timedelta) -> tuple[str, ...]:
    """Evidence in few words, the same as long as it is the same."""
    words = [f"{each.signal} {each.strength.name.lower()}" for each in evidence]
    seconds = int(silent.total_seconds())
    return (*words, f"silent for more than {seconds // 10 * 10 or seconds}s") if words else ()
