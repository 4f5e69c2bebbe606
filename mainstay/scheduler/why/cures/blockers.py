"""What keeps a pod from each node, sorted by what kind of change would help there.

A decision's refusals are by reason, with the nodes under each. To find the smallest change one needs it the other way
round: for each node all that has to change. Reasons that one change cures together, such as too little CPU and too
little memory, are one *obstacle*.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from mainstay.api.kind import Object
from mainstay.api.node_health import OUT_OF_SERVICE, PRESSURES, SUSPECTED
from mainstay.api.taints import KEEPS_AWAY, UNSCHEDULABLE, Taint, Toleration, parse_taints, untolerated
from mainstay.api.well_known_labels import NOT_READY_TAINT, UNREACHABLE_TAINT
from mainstay.scheduler.reasons import Refusal, RefusalReason

_OF_HEALTH = (
    *(NOT_READY_TAINT, UNREACHABLE_TAINT, OUT_OF_SERVICE, SUSPECTED.key),
    *(taint.key for _, taint in PRESSURES),
)


class Obstacle(StrEnum):
    """What kind of change a node would need to take a pod."""

    NOT_NAMED = "not named"
    RESERVED_ELSEWHERE = "reserved elsewhere"
    CORDONED = "cordoned"
    UNHEALTHY = "unhealthy"
    """Taints that stand for the node's health: the cluster puts them there and takes them off."""
    TAINTED = "tainted"
    NOT_SELECTED = "not selected"
    PORT_TAKEN = "port taken"
    NO_ROOM = "no room"
    UNLABELLED = "unlabelled"
    """Without the label of a spread constraint."""
    SKEWED = "skewed"
    SKEWED_BY_POLICY = "skewed by policy"
    """The pod's own constraints are not what is in the way."""
    NO_QUOTA = "no quota"


@dataclass(slots=True)
class Blocked:
    """One node, and all that is in the way there."""

    node: str
    obstacles: dict[Obstacle, None] = field(default_factory=dict)
    short: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By resource: what is wanted, and what is free."""
    taints: tuple[Taint, ...] = ()
    """All that are not tolerated, but for those of health."""
    health: tuple[Taint, ...] = ()
    ports: list[str] = field(default_factory=list)
    skews: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By topology key: the largest that is allowed, and what it would be."""
    missing_labels: list[str] = field(default_factory=list)
    quotas: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By zone and resource: what is wanted, and what is left."""

    @property
    def missing(self) -> float:
        """How far it is from having room, from 0 to the number of resources."""
        lacks = [*self.short.values(), *self.quotas.values()]
        return sum((wanted - max(free, 0)) / wanted for wanted, free in lacks if wanted)


_OBSTACLES = {
    RefusalReason.OTHER_NODE_NAMED: Obstacle.NOT_NAMED,
    RefusalReason.RESERVED_ELSEWHERE: Obstacle.RESERVED_ELSEWHERE,
    RefusalReason.UNSCHEDULABLE_NODE: Obstacle.CORDONED,
    RefusalReason.NODE_AFFINITY: Obstacle.NOT_SELECTED,
    RefusalReason.PORT_TAKEN: Obstacle.PORT_TAKEN,
    RefusalReason.INSUFFICIENT_RESOURCE: Obstacle.NO_ROOM,
    RefusalReason.NODE_TOO_SMALL: Obstacle.NO_ROOM,
    RefusalReason.HELD_BY_GHOSTS: Obstacle.NO_ROOM,
    RefusalReason.ZONE_QUOTA_EXCEEDED: Obstacle.NO_QUOTA,
    RefusalReason.TOPOLOGY_LABEL_MISSING: Obstacle.UNLABELLED,
    RefusalReason.SKEW_TOO_LARGE: Obstacle.SKEWED,
    RefusalReason.ZONE_SKEW_TOO_LARGE: Obstacle.SKEWED_BY_POLICY,
}


def blocked_nodes(
    refusals: Iterable[Refusal], nodes: dict[str, Object], tolerations: tuple[Toleration, ...]
) -> list[Blocked]:
    """Every node that refuses the pod, with all that is in the way. Sorted by name."""
    found: dict[str, Blocked] = {}
    for refusal in refusals:
        for place, name in enumerate(refusal.nodes):
            blocked = found.setdefault(name, Blocked(name))
            free = refusal.free[place] if refusal.free else 0
            _note(blocked, refusal, free, nodes[name], tolerations)
    for blocked in found.values():
        _cordon_is_its_taint(blocked)
    return [found[name] for name in sorted(found)]


def _note(blocked: Blocked, refusal: Refusal, free: int, node: Object, tolerations: tuple[Toleration, ...]) -> None:
    wanted = refusal.wanted or 0
    if refusal.reason is RefusalReason.UNTOLERATED_TAINT:
        # The reason names the first one only.
        taints = untolerated(parse_taints(node), tolerations, KEEPS_AWAY)
        blocked.health = tuple(taint for taint in taints if taint.key in _OF_HEALTH)
        blocked.taints = tuple(taint for taint in taints if taint.key not in _OF_HEALTH)
        if blocked.health:
            blocked.obstacles[Obstacle.UNHEALTHY] = None
        if blocked.taints:
            blocked.obstacles[Obstacle.TAINTED] = None
        return
    obstacle = _OBSTACLES.get(refusal.reason)
    if obstacle is None:
        return
    blocked.obstacles[obstacle] = None
    match refusal.reason:
        case RefusalReason.INSUFFICIENT_RESOURCE | RefusalReason.NODE_TOO_SMALL | RefusalReason.HELD_BY_GHOSTS:
            blocked.short[refusal.detail] = (wanted, free)
        case RefusalReason.PORT_TAKEN:
            blocked.ports.append(refusal.detail)
        case RefusalReason.SKEW_TOO_LARGE:
            blocked.skews[refusal.detail] = (wanted, free)
        case RefusalReason.TOPOLOGY_LABEL_MISSING:
            blocked.missing_labels.append(refusal.detail)
        case RefusalReason.ZONE_QUOTA_EXCEEDED:
            zone, _, resource = refusal.detail.partition("/")
            blocked.quotas[zone, resource] = (wanted, free)


def _cordon_is_its_taint(blocked: Blocked) -> None:
    """A node that is cordoned may have a taint that says the same, and loses both at once."""
    if UNSCHEDULABLE in blocked.taints:
        blocked.taints = tuple(taint for taint in blocked.taints if taint != UNSCHEDULABLE)
        blocked.obstacles[Obstacle.CORDONED] = None
        if not blocked.taints:
            blocked.obstacles.pop(Obstacle.TAINTED, None)
