"""What is known of a node, what that is evidence of, and how the verdict is written down on the Node.

The verdict stands in the annotation `mainstay.dev/health`, with what led to it, since when, and what keeps us from
going further; and with what the node last said about itself, because the verdict takes the place of that in the
condition `Ready`: when the node is heard again, its own words are put back.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.node_health import NO_RECORD, OUT_OF_SERVICE, PRESSURES, SUSPECT, UNHEARD, NodeHealthRecord, record_in
from mainstay.api.pod_state import find_condition, get_zone
from mainstay.api.taints import Taint, parse_taints
from mainstay.controllers.node_health.heartbeats import Heard, fence, is_heard, silent_for
from mainstay.loop.evidence import Evidence, Scope, Signal, Strength


@dataclass(frozen=True, slots=True)
class NodeHealthFacts:
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
    record: NodeHealthRecord = NO_RECORD
    status_marker: str = ""
    pressures: tuple[Taint, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.ready[0] == "True"

    @property
    def is_out_of_service(self) -> bool:
        return any(taint.key == OUT_OF_SERVICE for taint in self.taints)


def read_facts(node: Object) -> NodeHealthFacts:
    metadata = node["metadata"]
    ready: Any = find_condition(node, "Ready") or {}
    suspect: Any = find_condition(node, SUSPECT) or {}
    pressures = tuple(taint for name, taint in PRESSURES if (find_condition(node, name) or {}).get("status") == "True")
    return NodeHealthFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        zone=get_zone(node),
        ready=(ready.get("status") or "", ready.get("reason") or "", ready.get("message") or ""),
        is_suspect=suspect.get("status") == "True",
        has_suspect=bool(suspect),
        taints=parse_taints(node),
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


def judge_hearing(heard: Heard, since_ns: int, now_ns: int) -> Hearing:
    """A heartbeat is late when half of what the lease lasts has gone by: that is two of them. When all of it has, the
    node is silent."""
    silent = silent_for(heard, since_ns, now_ns)
    if silent >= heard.duration:
        return Hearing.SILENT
    if silent >= heard.duration / 2:
        return Hearing.LATE
    return Hearing.HEARD if is_heard(heard, since_ns) else Hearing.NOT_YET


def collect_evidence(name: str, heard: Heard, since_ns: int, now_ns: int) -> list[Evidence]:
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
