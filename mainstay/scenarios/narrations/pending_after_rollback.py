"""*Pending replicas after rollback*, step by step. (SPEC O8)"""

from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.journal.record import DecisionRecord
from mainstay.scenarios import weak_designs
from mainstay.sim.narration.facts import RunFact
from mainstay.sim.narration.matchers import RecordWords, match_commit, match_decision, match_delivery
from mainstay.sim.narration.steps import Found, NarratedStep, Narration

_SCHEDULER: Final = "scheduler-1"
_AUTOSCALER: Final = "horizontal-pod-autoscaler"
_WORKLOAD: Final = "apps/deployments/risk/risk-api"
_PODS: Final = "core/pods/risk/risk-api-"
_QUOTAS: Final = "mainstay.dev/zonequotas/risk/"
_WANTED: Final = 8
_REFUSED, _BOUND = "refused", "bound"


def _wants_more(before: Object | None, after: Object | None, found: Found) -> str | None:
    old, new = (_read_replicas(each) for each in (before, after))
    return f"spec.replicas {old} → {new}" if new == _WANTED and old < new else None


def _read_replicas(workload: Object | None) -> int:
    return int(((workload or {}).get("spec") or {}).get("replicas") or 0)


def _is_created(before: Object | None, after: Object | None, found: Found) -> str | None:
    return "is created, and has no node" if before is None and after is not None else None


def _is_refused(record: DecisionRecord, found: Found) -> str | None:
    is_meant = record.subject.name.startswith("risk-api-") and record.outcome.reason == "Unschedulable"
    return f"{record.outcome.reason}: {', '.join(record.reasons)}" if is_meant else None


def _says_so(before: Object | None, after: Object | None, found: Found) -> str | None:
    said = pod_state.find_condition(after or {}, "PodScheduled") or {}
    is_meant = said.get("status") == "False" and _is_subject(found.get(_REFUSED), after)
    return f"PodScheduled=False, {said.get('reason')}: {said.get('message')}" if is_meant else None


def _is_subject(refused: RunFact | None, pod: Object | None) -> bool:
    """Whether this is the pod that the story is about."""
    record = None if refused is None else refused.record
    return record is not None and pod is not None and pod["metadata"]["uid"] == record.subject.uid


def _holds_back(reason: str) -> RecordWords:
    def words(record: DecisionRecord, found: Found) -> str | None:
        return next((each for each in record.reasons if each.startswith(reason)), None)

    return words


def _is_freed(before: Object | None, after: Object | None, found: Found) -> str | None:
    old, new = (_read_hard(each) for each in (before, after))
    return f"spec.hard.cpu {old} → {new}" if old and new and old != new else None


def _read_hard(quota: Object | None) -> str:
    spec: Any = (quota or {}).get("spec") or {}
    return str((spec.get("hard") or {}).get("cpu") or "")


def _is_bound(before: Object | None, after: Object | None, found: Found) -> str | None:
    node = pod_state.get_node_name(after or {})
    is_meant = node and not pod_state.get_node_name(before or {}) and _is_subject(found.get(_REFUSED), after)
    return f"is bound to {node}" if is_meant else None


def _is_raised_meanwhile(fact: RunFact, found: Found) -> str | None:
    if fact.key != _WORKLOAD or _read_replicas(fact.after) <= _WANTED:
        return None
    bound, new = found.get(_BOUND), _read_replicas(fact.after)
    is_meanwhile = bound is None or fact.at_ns < bound.at_ns
    return f"spec.replicas {_read_replicas(fact.before)} → {new}" if is_meanwhile else None


NARRATION: Final = Narration(
    title="pending replicas after rollback",
    requirement="O8",
    steps=(
        NarratedStep("00:00", "desired replicas increase to 8", match_commit(_WORKLOAD, _wants_more)),
        NarratedStep("00:01", "a replica enters the queue", match_commit(_PODS, _is_created)),
        NarratedStep(
            "00:04",
            "zones a and b are rejected by topology, zone-c by quota",
            match_decision(_SCHEDULER, _is_refused),
            name=_REFUSED,
        ),
        NarratedStep("00:05", "the pod says so", match_commit(_PODS, _says_so)),
        NarratedStep(
            "00:06",
            "the autoscaler sees that more would wait",
            match_decision(_AUTOSCALER, _holds_back("Limited")),
        ),
        NarratedStep("00:07", "the quota is raised", match_commit(_QUOTAS, _is_freed)),
        NarratedStep(
            "",
            "the cause is now the scheduler's cache, not the quota",
            match_decision(_AUTOSCALER, _holds_back("ControlPlaneLag")),
        ),
        NarratedStep("00:09", "the scheduler's cache observes it", match_delivery(_SCHEDULER, _QUOTAS)),
        NarratedStep("00:10", "the replica binds", match_commit(_PODS, _is_bound), name=_BOUND),
        NarratedStep(
            "", "more replicas while some are kept back", _is_raised_meanwhile, is_forbidden=True, is_anytime=True
        ),
    ),
    weak_design=weak_designs.scales_whatever_is_kept_back,
    weakness="the autoscaler goes by its metrics alone, and not by what becomes of the replicas it asked for",
)
