"""What a PolicyRollout says: its stages, its gate, and how far it is. Plain values, without clock or client.

    spec:
      policy: risk-v6
      stages:
        - {name: shadow, shadowPercent: 10, holdSeconds: 300}
        - {name: canary, percent: 10, holdSeconds: 300}
        - {name: all, percent: 100, holdSeconds: 300}

Stages come in this order: *shadow* (the scheduler also decides by the policy, and acts on none of it), *limited* (a
part of the scope, by percent or by a second scope), *full* (100 percent). The last one is full, and a limited one comes
before it: there the figures are taken that the full one is compared with.

The controller is controllers/policy_rollout/; what the API server refuses is declared in kinds/mainstay.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from mainstay.api.errors import StatusCause, forbidden_value, invalid_value
from mainstay.api.kind import Object

FRESHNESS_S_MIN: Final = 90
"""A component that has nothing new to say publishes its state once a minute: what is younger proves nothing."""
FULL: Final = 100
HOLD_S: Final = 300
STAGES_MAX: Final = 20

DEFAULTS: Final[Mapping[str, Any]] = {
    "paused": False,
    "aborted": False,
    "freshnessSeconds": 120,
    "deadlineSeconds": 3600,
}
GATE_DEFAULTS: Final[Mapping[str, int]] = {
    "minSamples": 20,
    "significancePercent": 5,
    "maxIncreasePercent": 5,
    "boundWithinSeconds": 30,
    "maxShadowDifferentPercent": 100,
    "maxShadowUnplacedPercent": 5,
}
DEFAULT_STAGES: Final[Sequence[Mapping[str, Any]]] = (
    {"name": "shadow", "shadowPercent": 10, "holdSeconds": HOLD_S},
    {"name": "canary", "percent": 10, "holdSeconds": HOLD_S},
    {"name": "wider", "percent": 50, "holdSeconds": HOLD_S},
    {"name": "all", "percent": FULL, "holdSeconds": HOLD_S},
)


class RolloutPhase(StrEnum):
    """How far a rollout is. Shown to users: only add."""

    PENDING = "Pending"
    """It has changed nothing yet."""
    STARTING = "Starting"
    """It has claimed its two policies, and changed neither."""
    PROGRESSING = "Progressing"
    """A stage is in effect, or about to be."""
    FINISHING = "Finishing"
    """All gates have passed: the previous policy is deactivated, and the limit removed."""
    COMPLETE = "Complete"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"


ENDED: Final = frozenset({RolloutPhase.COMPLETE, RolloutPhase.ROLLED_BACK})
CLAIMING: Final = frozenset({RolloutPhase.PROGRESSING, RolloutPhase.FINISHING, RolloutPhase.ROLLING_BACK})
"""Phases in which no other rollout may touch its policies."""


class RolloutReason(StrEnum):
    """Why a rollout is where it is: the reason of its conditions. Shown to users: only add."""

    WAITING_FOR_ROLLOUT = "WaitingForRollout"
    """Another PolicyRollout is using one of the two policies."""
    STARTING = "Starting"
    ACTIVATING = "ActivatingStage"
    HOLDING = "HoldingStage"
    """The time that the stage is held for is not over."""
    SIGNALS_STALE = "SignalsStale"
    """A component has not seen the stage, or has not published its state lately."""
    EVIDENCE = "EvidenceHolds"
    """A controller that creates or measures pods falls behind or fails, so that what pods show is not the policy's
    doing."""
    OBJECTIVE_BURNS = "ObjectiveBurns"
    """The budget of a ServiceLevelObjective of a workload under the candidate burns."""
    TOO_FEW_SAMPLES = "TooFewSamples"
    """Too few pods were created since the stage took effect to compare the two policies."""
    GATE_PASSED = "GatePassed"
    REGRESSION = "RegressionFound"
    """The pods under the candidate do worse than the others."""
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    """The stage did not pass its gate in time."""
    PAUSED = "Paused"
    ABORTED = "Aborted"
    FINISHING = "Finishing"
    COMPLETE = "Complete"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    CANDIDATE_NOT_FOUND = "CandidateNotFound"
    """The PlacementPolicy in `policy` does not exist, or was deleted and created again."""
    CANDIDATE_ACTIVE = "CandidateActive"
    """The candidate is active before the rollout has begun."""
    CANDIDATE_UNSCOPED = "CandidateUnscoped"
    """The candidate has no scope, and a policy without one cannot be limited."""
    CANDIDATE_CHANGED = "CandidateChanged"
    """Another client has changed `active`, `limit` or `shadow` of the candidate."""
    PREVIOUS_NOT_FOUND = "PreviousNotFound"
    """The previous PlacementPolicy does not exist, or was deleted and created again."""
    PREVIOUS_UNSUITABLE = "PreviousUnsuitable"
    """The policy in `previous` is not active for exactly the scope of the candidate."""
    PREVIOUS_CHANGED = "PreviousChanged"
    """Another client has changed `active`, `limit` or `shadow` of the previous policy."""


@dataclass(frozen=True, slots=True)
class RolloutStage:
    """One of `shadow_percent`, `percent` and `scope` is given."""

    name: str
    shadow_percent: int = 0
    percent: int = 0
    scope: Mapping[str, Any] | None = None
    hold: timedelta = timedelta(seconds=HOLD_S)

    @property
    def is_shadow(self) -> bool:
        return self.shadow_percent > 0

    @property
    def is_full(self) -> bool:
        return self.percent == FULL

    @property
    def fields(self) -> dict[str, Any]:
        """What of the spec of the PlacementPolicy this stage is: the fields that are not named are absent."""
        if self.is_shadow:
            return {"active": False, "shadow": {"percent": self.shadow_percent}}
        return {"active": True, "limit": {"percent": self.percent} if self.scope is None else {"scope": self.scope}}


@dataclass(frozen=True, slots=True)
class GateRules:
    min_samples: int
    significance_percent: int
    max_increase_percent: int
    bound_within: timedelta
    max_shadow_different_percent: int
    max_shadow_unplaced_percent: int


@dataclass(frozen=True, slots=True)
class ParsedRollout:
    name: str
    policy: str
    previous: str
    """As the user names it; empty: the controller finds it."""
    is_paused: bool
    is_aborted: bool
    stages: tuple[RolloutStage, ...]
    freshness: timedelta
    deadline: timedelta
    gate: GateRules

    def find_stage(self, name: str) -> int | None:
        """The number of a stage."""
        return next((number for number, each in enumerate(self.stages) if each.name == name), None)


def parse_rollout(rollout: Object) -> ParsedRollout:
    """What a valid PolicyRollout asks for."""
    spec: Mapping[str, Any] = {**DEFAULTS, **(rollout.get("spec") or {})}
    gate = {**GATE_DEFAULTS, **(spec.get("gate") or {})}
    return ParsedRollout(
        name=rollout["metadata"]["name"],
        policy=spec["policy"],
        previous=spec.get("previous") or "",
        is_paused=bool(spec["paused"]),
        is_aborted=bool(spec["aborted"]),
        stages=tuple(_parse_stage(each) for each in spec.get("stages") or DEFAULT_STAGES),
        freshness=timedelta(seconds=spec["freshnessSeconds"]),
        deadline=timedelta(seconds=spec["deadlineSeconds"]),
        gate=GateRules(
            min_samples=gate["minSamples"],
            significance_percent=gate["significancePercent"],
            max_increase_percent=gate["maxIncreasePercent"],
            bound_within=timedelta(seconds=gate["boundWithinSeconds"]),
            max_shadow_different_percent=gate["maxShadowDifferentPercent"],
            max_shadow_unplaced_percent=gate["maxShadowUnplacedPercent"],
        ),
    )


def _parse_stage(stage: Mapping[str, Any]) -> RolloutStage:
    return RolloutStage(
        name=stage["name"],
        shadow_percent=stage.get("shadowPercent") or 0,
        percent=stage.get("percent") or 0,
        scope=stage.get("scope"),
        hold=timedelta(seconds=stage.get("holdSeconds", HOLD_S)),
    )


def read_phase(rollout: Object) -> RolloutPhase:
    return RolloutPhase((rollout.get("status") or {}).get("phase") or RolloutPhase.PENDING)


def check_rollout(spec: Mapping[str, Any], causes: list[StatusCause]) -> None:
    """Add what no single field shows: the order of the stages, and that each can end in time."""
    if spec.get("previous") == spec["policy"]:
        causes.append(invalid_value("spec.previous", spec["previous"], "must differ from spec.policy"))
    stages: Sequence[Mapping[str, Any]] = spec.get("stages") or DEFAULT_STAGES
    deadline = spec.get("deadlineSeconds", DEFAULTS["deadlineSeconds"])
    if len(stages) > STAGES_MAX:
        causes.append(invalid_value("spec.stages", len(stages), f"must have at most {STAGES_MAX} stages"))
    names: dict[str, None] = {}
    percent, is_shadow_over, has_limited = 0, False, False
    for number, stage in enumerate(stages):
        path = f"spec.stages[{number}]"
        kinds = [each for each in ("shadowPercent", "percent", "scope") if stage.get(each) is not None]
        if len(kinds) != 1:
            causes.append(invalid_value(path, ", ".join(kinds), "must have one of shadowPercent, percent and scope"))
            continue
        if stage["name"] in names:
            causes.append(invalid_value(f"{path}.name", stage["name"], "must be unique"))
        names[stage["name"]] = None
        if stage.get("holdSeconds", HOLD_S) >= deadline:
            detail = f"must be less than spec.deadlineSeconds, which is {deadline}"
            causes.append(invalid_value(f"{path}.holdSeconds", stage.get("holdSeconds", HOLD_S), detail))
        if "shadowPercent" in kinds:
            if is_shadow_over:
                causes.append(forbidden_value(f"{path}.shadowPercent", "shadow stages come first"))
            continue
        is_shadow_over = True
        if "scope" in kinds:
            has_limited = True
            if percent:
                causes.append(forbidden_value(f"{path}.scope", "stages by scope come before stages by percent"))
            continue
        if stage["percent"] <= percent:
            causes.append(invalid_value(f"{path}.percent", stage["percent"], f"must be greater than {percent}"))
        percent = stage["percent"]
        has_limited = has_limited or percent < FULL
    if not causes and percent != FULL:
        causes.append(invalid_value("spec.stages", len(stages), "the last stage must have percent 100"))
    if not causes and not has_limited:
        detail = "a stage of less than 100 percent must come first: later stages are compared with what it shows"
        causes.append(invalid_value("spec.stages", len(stages), detail))
