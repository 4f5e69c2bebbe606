"""*Stale policy during a canary*, step by step. (SPEC W8, W9)"""

from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.journal.record import DecisionRecord
from mainstay.scenarios import weak_designs
from mainstay.sim.cluster.history import RevisionCommitted
from mainstay.sim.narration.facts import RunFact
from mainstay.sim.narration.matchers import match_commit, match_decision, match_delivery
from mainstay.sim.narration.steps import Found, Match, NarratedStep, Narration

_SCHEDULER: Final = "scheduler"
_ROLLOUT: Final = "policy-rollout"
_CANDIDATE: Final = "risk-v5"
_NODE: Final = "node-b7"
_NODE_KEY: Final = f"core/nodes/{_NODE}"
_CPUS: Final = 6
"""Of the node, at first."""
_PODS: Final = "core/pods/default/risk-api-"
_ACTIVATED, _SHRUNK, _CHOSEN = "activated", "shrunk", "chosen"


def _is_activated(before: Object | None, after: Object | None, found: Found) -> str | None:
    old, new = (_read_spec(each) for each in (before, after))
    if not new.get("active") or old.get("active"):
        return None
    return f"{new.get('policyVersion')}: active, for {(new.get('limit') or {}).get('percent')} % of the workloads"


def _read_spec(obj: Object | None) -> dict[str, Any]:
    return dict((obj or {}).get("spec") or {})


def _shrinks(before: Object | None, after: Object | None, found: Found) -> str | None:
    old, new = (_read_cpu(each) for each in (before, after))
    return f"allocatable.cpu {old} → {new}" if new < old else None


def _read_cpu(node: Object | None) -> int:
    status: Any = (node or {}).get("status") or {}
    return int((status.get("allocatable") or {}).get("cpu") or 0)


def _chooses_stale(record: DecisionRecord, found: Found) -> str | None:
    shrunk, seen = found.get(_SHRUNK), {part.kind: part.revision for part in record.view}
    if f"node={_NODE}" not in record.reasons or shrunk is None or seen.get("nodes", 0) >= shrunk.revision:
        return None
    return f"chooses {_NODE}; its view of nodes ends at revision {seen['nodes']}"


def _is_subject(record: DecisionRecord, found: Found) -> bool:
    """Whether it is about the pod that the story is about."""
    chosen = found.get(_CHOSEN)
    return chosen is not None and chosen.record is not None and record.subject.name == chosen.record.subject.name


def _is_refused(record: DecisionRecord, found: Found) -> str | None:
    return f"{record.outcome.reason}: {record.outcome.message}" if _is_subject(record, found) else None


def _chooses_again(record: DecisionRecord, found: Found) -> str | None:
    nodes = [reason for reason in record.reasons if reason.startswith("node=") and reason != f"node={_NODE}"]
    return f"chooses another candidate, {nodes[0]}" if nodes and _is_subject(record, found) else None


def _holds(record: DecisionRecord, found: Found) -> str | None:
    # At first the gate waits for the API servers, too. What the text is about is the scheduler's view of nodes alone.
    mark = f"SignalsStale: {_SCHEDULER} has observed nodes"
    return next((each for each in record.reasons if each.startswith(mark)), None)


def _passes(record: DecisionRecord, found: Found) -> str | None:
    return next((each for each in record.reasons if "canary has passed its gate" in each), None)


def _build_overcommit_match() -> Match:
    """More pods are on the node than it has CPUs, each of which requests one."""
    there: dict[str, None] = {}
    room = _CPUS

    def match(fact: RunFact, found: Found) -> str | None:
        nonlocal room
        if fact.key == _NODE_KEY and isinstance(fact.event, RevisionCommitted):
            room = _read_cpu(fact.after)
        if not fact.key.startswith(_PODS) or not isinstance(fact.event, RevisionCommitted):
            return None
        if fact.after is None or pod_state.is_over(fact.after) or pod_state.get_node_name(fact.after) != _NODE:
            there.pop(fact.key, None)
            return None
        is_new = fact.key not in there
        there[fact.key] = None
        return f"is bound to {_NODE}: {len(there)} of {room} CPUs are used" if is_new and len(there) > room else None

    return match


NARRATION: Final = Narration(
    title="stale policy during a canary",
    requirement="W8, W9",
    steps=(
        NarratedStep(
            "",
            "the rollout activates the candidate for a share",
            match_commit(f"mainstay.dev/placementpolicies/{_CANDIDATE}", _is_activated),
            name=_ACTIVATED,
        ),
        NarratedStep("", "the node changes, its watch is 20 s late", match_commit(_NODE_KEY, _shrinks), name=_SHRUNK),
        NarratedStep("", "the cache selects the node", match_decision(_SCHEDULER, _chooses_stale), name=_CHOSEN),
        NarratedStep("", "the commit rejects it: capacity changed", match_decision("binding", _is_refused)),
        NarratedStep("", "the scheduler retries with a fresh candidate", match_decision(_SCHEDULER, _chooses_again)),
        NarratedStep("", "the gate holds while a watch is behind", match_decision(_ROLLOUT, _holds)),
        NarratedStep("", "the watch catches up", match_delivery(_SCHEDULER, _NODE_KEY)),
        NarratedStep("", "the gate passes on fresh signals", match_decision(_ROLLOUT, _passes)),
        NarratedStep(
            "",
            "the node is overcommitted",
            build_match=_build_overcommit_match,
            is_forbidden=True,
            is_anytime=True,
        ),
    ),
    weak_design=weak_designs.binds_from_the_cached_view,
    weakness="the scheduler's cached view of the node decides: the server does not check the room at commit",
)
