"""Why a node cannot take a pod, as values; and the changes that may cure it.

A filter that refuses nodes gives `Refusal`s: one for each reason, with the nodes it holds for and the numbers that show
it. A node is in as many of them as it has failing constraints, so that who cures one learns of the others at once. The
words are made elsewhere (messages.py).

A `Cure` is a kind of change after which a refused pod is worth trying again. A filter names all that could help;
the scheduling queue wakes the pods that wait for one of what has happened. It is a hint to save work and
promises nothing: a woken pod may be refused again.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Cure(StrEnum):
    """A kind of change that can make a node acceptable."""

    NODE_ADDED = "NodeAdded"
    NODE_REMOVED = "NodeRemoved"
    """One domain less to balance."""
    NODE_ALLOCATABLE = "NodeAllocatable"
    """A node has more allocatable resources."""
    NODE_LABELS = "NodeLabels"
    NODE_TAINTS = "NodeTaints"
    """Taints changed, or the node was uncordoned."""
    POD_REMOVED = "PodRemoved"
    """A pod left its node, or needs less there."""
    POD_PLACED = "PodPlaced"
    """A pod was placed elsewhere, which may reduce a skew."""
    POD_LABELS = "PodLabels"
    """Labels of a placed pod changed, which may reduce a skew; or it is terminating and no longer counted."""
    ZONE_QUOTA = "ZoneQuota"
    """A quota was raised or removed."""
    RESERVATION_RELEASED = "ReservationReleased"
    RESERVATION_MADE = "ReservationMade"
    """A Reservation that names the pod's node."""
    GHOSTS_GONE = "GhostsGone"
    """A node confirmed that force-deleted pods no longer run."""
    PLACEMENT_POLICY = "PlacementPolicy"
    """Another policy, or none, applies to the pod."""
    VIEW_CAUGHT_UP = "ViewCaughtUp"
    """The cache shows a change of a node on which the server refused a binding because of it."""


class RefusalReason(StrEnum):
    """Why a node was refused. Shown to users: only add."""

    NO_NODES = "NoNodes"
    INSUFFICIENT_RESOURCE = "InsufficientResource"
    NODE_TOO_SMALL = "NodeTooSmall"
    """The pod does not fit even on the empty node."""
    HELD_BY_GHOSTS = "HeldByGhosts"
    """Force-deleted pods that may still run hold the resources."""
    OTHER_NODE_NAMED = "OtherNodeNamed"
    NODE_AFFINITY = "NodeAffinity"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    UNSCHEDULABLE_NODE = "UnschedulableNode"
    PORT_TAKEN = "PortTaken"
    ZONE_QUOTA_EXCEEDED = "ZoneQuotaExceeded"
    RESERVED_ELSEWHERE = "ReservedElsewhere"
    TOPOLOGY_LABEL_MISSING = "TopologyLabelMissing"
    SKEW_TOO_LARGE = "SkewTooLarge"
    ZONE_SKEW_TOO_LARGE = "ZoneSkewTooLarge"
    """By the maxZoneSkew of a PlacementPolicy."""


_GRAVEST_FIRST: Final = (
    RefusalReason.ZONE_QUOTA_EXCEEDED,
    RefusalReason.INSUFFICIENT_RESOURCE,
    RefusalReason.NODE_TOO_SMALL,
    RefusalReason.HELD_BY_GHOSTS,
    RefusalReason.NODE_AFFINITY,
    RefusalReason.UNTOLERATED_TAINT,
    RefusalReason.UNSCHEDULABLE_NODE,
    RefusalReason.PORT_TAKEN,
    RefusalReason.RESERVED_ELSEWHERE,
    RefusalReason.TOPOLOGY_LABEL_MISSING,
    RefusalReason.SKEW_TOO_LARGE,
    RefusalReason.ZONE_SKEW_TOO_LARGE,
    RefusalReason.OTHER_NODE_NAMED,
    RefusalReason.NO_NODES,
)


_CAPACITY: Final = frozenset(
    {RefusalReason.INSUFFICIENT_RESOURCE, RefusalReason.NODE_TOO_SMALL, RefusalReason.HELD_BY_GHOSTS}
)
_SPREAD: Final = frozenset({RefusalReason.SKEW_TOO_LARGE, RefusalReason.ZONE_SKEW_TOO_LARGE})


def find_gravest(reasons: Collection[str]) -> str:
    """The one of several reasons to name where there is room for one. Empty: none of them is known."""
    return next((str(each) for each in _GRAVEST_FIRST if each in reasons), "")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason, and the nodes it holds for."""

    reason: RefusalReason
    plugin: str
    """The filter, by the name that Kubernetes has for it, as its metrics and events do."""
    nodes: tuple[str, ...]
    """Sorted by name."""
    cures: tuple[Cure, ...]
    detail: str = ""
    """What it is about: a resource, a taint as text, a port as text, a zone, a topology key, a policy."""
    wanted: int | None = None
    """What the pod needs, in base units; of a skew, the largest that is allowed."""
    free: tuple[int, ...] = ()
    """What there is, for each of the nodes: free room, what a quota leaves, the skew that there would be."""


@dataclass(frozen=True, slots=True)
class Placed:
    """This node is the best of those that can take the pod."""

    node: str
    score: int


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node can take the pod."""

    nodes: int
    """How many there are."""
    refusals: tuple[Refusal, ...]
    """All failing constraints, in the order of the filters; within one, by detail."""

    @property
    def cures(self) -> tuple[Cure, ...]:
        """The changes worth another try, each once."""
        return merged(cure for refusal in self.refusals for cure in refusal.cures)

    @property
    def cause(self) -> str:
        """The reason to name where there is room for one. Where some nodes have room and only a bound on skews refuses
        them, that bound is the reason, and not that others are full."""
        found = find_gravest([refusal.reason for refusal in self.refusals])
        if found not in _CAPACITY:
            return found
        bounds = [refusal for refusal in self.refusals if refusal.reason in _SPREAD]
        if not bounds:
            return found
        others = {node for refusal in self.refusals if refusal.reason not in _SPREAD for node in refusal.nodes}
        return find_gravest([each.reason for each in bounds if not others.issuperset(each.nodes)]) or found

    @property
    def plugins(self) -> tuple[str, ...]:
        """The filters that refused, each once."""
        return tuple(dict.fromkeys(refusal.plugin for refusal in self.refusals if refusal.plugin))


Decision = Placed | Unschedulable


def merged(cures: Iterable[Cure]) -> tuple[Cure, ...]:
    found = dict.fromkeys(cures)
    if len(found) <= 1:
        return tuple(found)
    return tuple(cure for cure in Cure if cure in found)
