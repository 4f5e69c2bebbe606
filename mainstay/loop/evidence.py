"""What a sign of failure may lead to, and what it may not: one table for all controllers.

No part of a distributed system sees failures. It sees signs: a heartbeat is late, a request has timed out, a watch was
cut. Each sign has innocent explanations, so each may decide only what can be undone if the explanation was innocent. A
missed heartbeat may stop new pods from being placed on a node; it may not remove those that are there. The table says
so, as data, for every signal and every response, and `allowed` is the only way to ask it. Controllers collect evidence,
ask, and do no more than what is allowed. signals.py has the collectors that several of them share.

*Strength* is how long or how often a signal has been seen, judged by the collector, which knows the periods:

    HINT          once, or for a moment
    REPEATED      several times in a row, or longer than any usual hiccup
    SUSTAINED     for so long that not acting does more harm
    CONCLUSIVE    no innocent explanation is left: fenced by arithmetic (fencing.py), or said by the thing itself

*Silence* is special. That a heartbeat is missing is known only by not hearing it, and so is as good as one's own ears.
When there is evidence that we ourselves are cut off, silence allows nothing that destroys: our requests time out, our
watches break, every node is silent, or most nodes of each of several zones, which is more likely one fault here than
many there. When most of one zone is silent, eviction is allowed only slowly.

What it does not promise: that an allowed response is wise. It says what a controller may do, not what it should.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final


class Strength(IntEnum):
    HINT = 1
    REPEATED = 2
    SUSTAINED = 3
    CONCLUSIVE = 4


class Signal(StrEnum):
    """The signs that are collected. Shown to users: only add."""

    MISSED_HEARTBEATS = "MissedHeartbeats"
    PROBE_TRANSITIONS = "ProbeTransitions"
    API_TIMEOUTS = "ApiTimeouts"
    WATCH_DISCONNECTS = "WatchDisconnects"
    LEASE_EXPIRY = "LeaseExpiry"
    QUEUE_AGE = "QueueAge"
    BIND_CONFLICTS = "BindConflicts"
    CONTROLLER_ERRORS = "ControllerErrors"
    GENERATION_NOT_OBSERVED = "GenerationNotObserved"
    SLO_BURN = "SloBurn"
    ROLLOUT_DEADLINE = "RolloutDeadline"


class EvidenceResponse(StrEnum):
    """What may be done about it. Shown to users: only add."""

    PUBLISH_CONDITION = "PublishCondition"
    """Tell users what was seen."""
    READ_AGAIN = "ReadAgain"
    """Read from the store, not from a cache, before anything else."""
    RETRY = "Retry"
    """Repeat the action with the same identity, after a fresh read."""
    SLOW_DOWN = "SlowDown"
    """Back off, or shed load."""
    CHOOSE_ANOTHER_NODE = "ChooseAnotherNode"
    """For a pod that is not bound."""
    STOP_NEW_PLACEMENT = "StopNewPlacement"
    """On a node, or in a zone."""
    STOP_TRAFFIC = "StopTraffic"
    """To a pod."""
    RESTART_CONTAINER = "RestartContainer"
    """In place, by the agent."""
    PAUSE_ROLLOUT = "PauseRollout"
    ROLL_BACK = "RollBack"
    """To the former version, replica by replica, and never below what serves now."""
    RAISE_REPLICAS = "RaiseReplicas"
    """By the autoscaler, within its bounds."""
    TAKE_LEADERSHIP = "TakeLeadership"
    REPLACE_POD = "ReplacePod"
    """Create another one beside it; the old one may still run."""
    EVICT_FROM_NODE = "EvictFromNode"
    """Remove pods from a node that may still run them."""
    REPLACE_AT_MOST_ONE = "ReplaceAtMostOne"
    """Start the successor of an at-most-one pod."""
    EVICT_ZONE = "EvictZone"
    """Remove all pods of a zone at once. Nothing allows this."""
    REMOVE_REPLICAS = "RemoveReplicas"
    """Remove replicas that exist, because of the signal. Nothing allows this."""
    REJECT_WORKLOAD = "RejectWorkload"
    """Declare that what users asked for is invalid. Nothing allows this: only validation may."""


DESTRUCTIVE: Final = frozenset(
    {
        EvidenceResponse.REPLACE_POD,
        EvidenceResponse.EVICT_FROM_NODE,
        EvidenceResponse.REPLACE_AT_MOST_ONE,
        EvidenceResponse.EVICT_ZONE,
        EvidenceResponse.REMOVE_REPLICAS,
        EvidenceResponse.REJECT_WORKLOAD,
    }
)
"""What cannot be undone when the explanation was innocent."""


class Scope(StrEnum):
    """What a piece of evidence is about."""

    POD = "Pod"
    NODE = "Node"
    WORKLOAD = "Workload"
    LEASE = "Lease"
    CONTROLLER = "Controller"
    OURSELVES = "Ourselves"
    """The very process that asks, or its way to the API server."""


@dataclass(frozen=True, slots=True)
class SignalRow:
    """What one signal may lead to."""

    may: Mapping[EvidenceResponse, Strength]
    """Each response with the least strength that it takes. What is not here it may not lead to."""
    innocently: str
    """What may be behind it when nothing has failed."""
    may_not: str
    """What it must not lead to although it looks as if it could, and why."""
    is_silence: bool = False
    """It is known by not hearing something."""
    scopes: tuple[Scope, ...] = ()


_HINT, _REPEATED, _SUSTAINED, _CONCLUSIVE = Strength


def _row(
    may: dict[EvidenceResponse, Strength],
    *,
    scopes: tuple[Scope, ...],
    innocently: str,
    may_not: str,
    is_silence: bool = False,
) -> SignalRow:
    return SignalRow(
        MappingProxyType({EvidenceResponse.PUBLISH_CONDITION: _HINT} | may), innocently, may_not, is_silence, scopes
    )


TABLE: Final[Mapping[Signal, SignalRow]] = MappingProxyType(
    {
        Signal.MISSED_HEARTBEATS: _row(
            {
                EvidenceResponse.READ_AGAIN: _HINT,
                EvidenceResponse.STOP_NEW_PLACEMENT: _HINT,
                EvidenceResponse.CHOOSE_ANOTHER_NODE: _HINT,
                EvidenceResponse.STOP_TRAFFIC: _REPEATED,
                EvidenceResponse.REPLACE_POD: _SUSTAINED,
                EvidenceResponse.EVICT_FROM_NODE: _SUSTAINED,
            },
            scopes=(Scope.NODE,),
            innocently="the network is under pressure, the node is busy, or we do not hear",
            may_not="one that is late removes nothing; and however many are missing, the pods may still run, so the "
            "successor of an at-most-one pod needs an expired and fenced lease",
            is_silence=True,
        ),
        Signal.PROBE_TRANSITIONS: _row(
            {
                EvidenceResponse.READ_AGAIN: _HINT,
                EvidenceResponse.STOP_TRAFFIC: _HINT,
                EvidenceResponse.RESTART_CONTAINER: _REPEATED,
            },
            scopes=(Scope.POD,),
            innocently="something that the pod depends on is down, or the probe is too strict",
            may_not="a pod that is not ready is not replaced or evicted: its successor would depend on the same things",
        ),
        Signal.API_TIMEOUTS: _row(
            {EvidenceResponse.READ_AGAIN: _HINT, EvidenceResponse.RETRY: _HINT, EvidenceResponse.SLOW_DOWN: _HINT},
            scopes=(Scope.OURSELVES, Scope.CONTROLLER),
            innocently="the write was committed and only the answer is lost",
            may_not="no other node is chosen before a read has shown that the binding is not there; and a server that "
            "does not answer says nothing about nodes or pods",
        ),
        Signal.WATCH_DISCONNECTS: _row(
            {EvidenceResponse.READ_AGAIN: _HINT, EvidenceResponse.RETRY: _HINT, EvidenceResponse.SLOW_DOWN: _REPEATED},
            scopes=(Scope.OURSELVES, Scope.CONTROLLER),
            innocently="we were too slow, or the server was restarted",
            may_not="what was not seen through a broken watch is not gone",
        ),
        Signal.LEASE_EXPIRY: _row(
            {
                EvidenceResponse.READ_AGAIN: _HINT,
                EvidenceResponse.STOP_NEW_PLACEMENT: _HINT,
                EvidenceResponse.CHOOSE_ANOTHER_NODE: _HINT,
                EvidenceResponse.REPLACE_POD: _SUSTAINED,
                EvidenceResponse.EVICT_FROM_NODE: _SUSTAINED,
                EvidenceResponse.TAKE_LEADERSHIP: _CONCLUSIVE,
                EvidenceResponse.REPLACE_AT_MOST_ONE: _CONCLUSIVE,
            },
            scopes=(Scope.LEASE, Scope.NODE),
            innocently="the holder is paused or cut off, and believes that it still holds the lease",
            may_not="before the holder must have stopped (fencing.py) nothing of which there may be only one is "
            "started, neither a leader nor a pod",
            is_silence=True,
        ),
        Signal.QUEUE_AGE: _row(
            {EvidenceResponse.SLOW_DOWN: _REPEATED, EvidenceResponse.PAUSE_ROLLOUT: _SUSTAINED},
            scopes=(Scope.CONTROLLER, Scope.OURSELVES),
            innocently="there is much to do",
            may_not="keys that wait for long say nothing about what they name; more replicas would only make more keys",
        ),
        Signal.BIND_CONFLICTS: _row(
            {
                EvidenceResponse.READ_AGAIN: _HINT,
                EvidenceResponse.RETRY: _HINT,
                EvidenceResponse.CHOOSE_ANOTHER_NODE: _HINT,
                EvidenceResponse.SLOW_DOWN: _REPEATED,
            },
            scopes=(Scope.POD, Scope.NODE),
            innocently="another scheduler was quicker, or our cache is behind",
            may_not="the workload is not invalid because its node was taken, and the node is not ill",
        ),
        Signal.CONTROLLER_ERRORS: _row(
            {
                EvidenceResponse.RETRY: _HINT,
                EvidenceResponse.SLOW_DOWN: _HINT,
                EvidenceResponse.PAUSE_ROLLOUT: _REPEATED,
            },
            scopes=(Scope.CONTROLLER, Scope.OURSELVES),
            innocently="the API server is away, or one object is broken",
            may_not="errors of a controller are no fault of what it looks after",
        ),
        Signal.GENERATION_NOT_OBSERVED: _row(
            {
                EvidenceResponse.READ_AGAIN: _HINT,
                EvidenceResponse.PAUSE_ROLLOUT: _REPEATED,
                EvidenceResponse.SLOW_DOWN: _REPEATED,
            },
            scopes=(Scope.WORKLOAD, Scope.CONTROLLER),
            innocently="the controller is behind, or its status has not reached us",
            may_not="what an old generation says is neither good nor bad news about the new one",
            is_silence=True,
        ),
        Signal.SLO_BURN: _row(
            {
                EvidenceResponse.PAUSE_ROLLOUT: _HINT,
                EvidenceResponse.RAISE_REPLICAS: _REPEATED,
                EvidenceResponse.ROLL_BACK: _SUSTAINED,
            },
            scopes=(Scope.WORKLOAD,),
            innocently="the load is unusual, or the fault is elsewhere",
            may_not="users who suffer do not tell which pod or node is at fault, so none is removed for it",
        ),
        # Of workloads. A PolicyRollout whose deadline passes goes back to a policy that is known to work, and moves no
        # pod (controllers/policy_rollout/).
        Signal.ROLLOUT_DEADLINE: _row(
            {EvidenceResponse.PAUSE_ROLLOUT: _HINT, EvidenceResponse.READ_AGAIN: _HINT},
            scopes=(Scope.WORKLOAD,),
            innocently="there is no room, an image is slow, or a quota is used up",
            may_not="replicas that were made are not removed, and the rollout is not undone: it may be the cure",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sign that was seen."""

    signal: Signal
    strength: Strength
    scope: Scope
    name: str = ""
    """Of what it is about."""
    since: datetime | None = None
    """From when on it has been so, as far as the collector knows."""
    detail: str = ""
    """What was measured, for people: `oldest key 75s in the queue`."""

    @property
    def words(self) -> str:
        """In one line, for conditions and reasons."""
        about = f" of {self.scope.lower()} {self.name}" if self.name else f" of {self.scope.lower()}"
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.signal} ({self.strength.name.lower()}){about}{detail}"

    def __post_init__(self) -> None:
        if self.scope not in TABLE[self.signal].scopes:
            raise ValueError(f"{self.signal} is no sign about a {self.scope}")


@dataclass(frozen=True, slots=True)
class ZoneSilence:
    """How many nodes of a zone have not been heard of lately."""

    zone: str
    nodes: int
    silent: int

    @property
    def is_mostly_silent(self) -> bool:
        """As in Kubernetes, where a zone is disrupted from 55 % on."""
        return self.nodes > 0 and self.silent * 100 >= self.nodes * SILENT_PERCENT

    @property
    def is_wholly_silent(self) -> bool:
        return self.nodes > 0 and self.silent >= self.nodes


SILENT_PERCENT: Final = 55


class Pace(StrEnum):
    """How fast what is allowed may be done."""

    USUAL = "Usual"
    SLOW = "Slow"
    """Most of the zone is silent: a few at a time, because the zone may come back."""


@dataclass(frozen=True, slots=True)
class WithheldResponse:
    """A response that the evidence would have allowed, if we could trust our ears."""

    response: EvidenceResponse
    why: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be done, in the order of `EvidenceResponse`, each with the signals that allow it."""

    because: Mapping[EvidenceResponse, tuple[Signal, ...]]
    pace: Pace
    refused: tuple[WithheldResponse, ...]

    def __contains__(self, response: object) -> bool:
        return response in self.because

    @property
    def responses(self) -> tuple[EvidenceResponse, ...]:
        return tuple(self.because)


def allowed(evidence: Iterable[Evidence], zones: Iterable[ZoneSilence] = (), zone: str = "") -> Allowed:
    """What evidence about one thing, together with what we know about ourselves, allows.

    `evidence` is about one node, pod or workload, and about ourselves; `zones` is the silence in all zones, and `zone`
    the one in which that thing is. More evidence *about the thing* never allows less. Evidence about ourselves, and
    silence of zones, may.
    """
    seen = list(evidence)
    all_zones = list(zones)
    why_deaf = _why_deaf(seen, all_zones)
    is_zone_silent = any(each.is_mostly_silent for each in all_zones if each.zone == zone)
    because: dict[EvidenceResponse, tuple[Signal, ...]] = {}
    refused = []
    for response in _RESPONSES if seen else ():
        by = [each for each in seen if TABLE[each.signal].may.get(response, _NEVER) <= each.strength]
        trusted = [each.signal for each in by if not _is_doubtful(each, response, why_deaf)]
        if trusted:
            because[response] = tuple(sorted(set(trusted)))
        elif by and why_deaf:
            refused.append(WithheldResponse(response, why_deaf))
    return Allowed(MappingProxyType(because), Pace.SLOW if is_zone_silent else Pace.USUAL, tuple(refused))


_RESPONSES: Final = tuple(EvidenceResponse)
_NEVER: Final = len(Strength) + 1  # Stronger than anything.


def _is_doubtful(evidence: Evidence, response: EvidenceResponse, why_deaf: str) -> bool:
    return bool(why_deaf) and response in DESTRUCTIVE and TABLE[evidence.signal].is_silence


def _why_deaf(evidence: list[Evidence], zones: list[ZoneSilence]) -> str:
    """Why silence may be ours. Empty if it is not."""
    own = sorted({each.signal for each in evidence if each.scope is Scope.OURSELVES and each.signal in _CUTS})
    if own:
        return f"this component may be isolated itself: {', '.join(own)}"
    inhabited = [zone for zone in zones if zone.nodes]
    if inhabited and all(zone.is_wholly_silent for zone in inhabited):
        return "no node sends heartbeats, so this component is probably isolated itself"
    # A node on our own machine is always heard, so it need not be every node. With a single zone there is nothing to
    # compare it with: that most of it is silent may well be its own outage.
    if len(inhabited) > 1 and all(zone.is_mostly_silent for zone in inhabited):
        return "most nodes of every zone send no heartbeats, so this component is probably isolated itself"
    return ""


_CUTS: Final = frozenset({Signal.API_TIMEOUTS, Signal.WATCH_DISCONNECTS})
