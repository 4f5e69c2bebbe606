"""What node health goes by, what it remembers, and what it may decide: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mainstay.api.holds import ParsedHold
from mainstay.api.kind import Object
from mainstay.api.node_health import HealthState, NodeHealthRecord
from mainstay.api.object_key import ObjectKey
from mainstay.api.taints import Taint
from mainstay.controllers.node_health.evidence import Hearing, NodeHealthFacts
from mainstay.controllers.node_health.heartbeats import Heard, Isolation, Listening
from mainstay.controllers.node_health.zones import Bucket
from mainstay.loop.evidence import Allowed, Evidence

HOLDER: Final = "mainstay-node-health"
"""Who holds the Lease of a node whose at-most-one pods are being replaced. The same in every process: a new leader goes
on where the last one stopped."""


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """All that a decision goes by."""

    now_ns: int
    """Monotonic, and ours."""
    nodes: Mapping[str, NodeHealthFacts]
    heard: Mapping[str, Heard]
    pods: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    """Those of nodes that are in doubt (`doubtful`)."""
    own: tuple[Evidence, ...] = ()
    """Why we might not hear: evidence about ourselves."""
    frozen: tuple[ParsedHold, ...] = ()
    """Why pods may not be removed now: Holds of evictions in force, the longest first."""


class NodeHealthMemory(msgspec.Struct, frozen=True, rename={"isolated": "deaf", "isolation": "deafness"}):
    """What is remembered from one pass to the next. Recorded by the names that it had in earlier builds."""

    listening: Listening | None = None
    buckets: Mapping[str, Bucket] = msgspec.field(default_factory=dict)
    taints_since: Mapping[tuple[str, str], int] = msgspec.field(default_factory=dict)
    """Since when we have seen a taint on a node: (uid, taint). Not what the taint says, which is wall time."""
    marked: Mapping[str, int] = msgspec.field(default_factory=dict)
    """When pods were last said to be not ready, by uid. Their agent may disagree: no quarrel about it."""
    isolated: str = ""
    """Why we may be cut off from the nodes ourselves; empty if nothing speaks for it."""
    isolation: Isolation | None = None
    frozen: str = ""
    """Which Holds freeze evictions, in words; empty if none does."""


@dataclass(frozen=True, slots=True)
class WriteNode:
    """A Node should say this."""

    name: str
    uid: str
    version: str
    state: HealthState
    add: tuple[Taint, ...] = ()
    remove: tuple[Taint, ...] = ()
    record: NodeHealthRecord | None = None
    """None: as it is."""
    ready: tuple[str, str, str] | None = None
    is_suspect: bool | None = None
    lease: int | None = None
    """Only if the Lease is still at this revision, by a fresh look; 0: there is none."""


@dataclass(frozen=True, slots=True)
class MarkPod:
    """A pod should not be said to be ready."""

    key: ObjectKey
    uid: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Evict:
    """A pod should end, in order."""

    key: ObjectKey
    uid: str
    message: str


@dataclass(frozen=True, slots=True)
class RemoveDeadPod:
    """A pod has ended, and no agent is there to report it."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class ReplacePods:
    """At-most-one pods have ended, if the Lease of their node can be taken at this revision."""

    node: str
    revision: int
    """0: there is no Lease."""
    is_ours: bool
    """It has been taken already."""
    pods: tuple[RemoveDeadPod, ...]


@dataclass(frozen=True, slots=True)
class Say:
    """Tell people."""

    reason: str
    message: str


Step = WriteNode | MarkPod | Evict | RemoveDeadPod | ReplacePods | Say


@dataclass(frozen=True, slots=True)
class NodeHealthPlan:
    steps: tuple[Step, ...]
    memory: NodeHealthMemory


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """What is made of one node."""

    hearing: Hearing
    allowed: Allowed
    state: HealthState
    """What it should be."""
    held: str = ""
    """Why nothing more is done, in words."""
    evidence: tuple[str, ...] = ()
    hold: str = ""
    """The Hold that is the reason, if it is one."""
