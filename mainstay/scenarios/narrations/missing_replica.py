"""*Repairing a missing replica*, step by step. (SPEC R5)"""

from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.annotations import REPLACES
from mainstay.api.kind import Object
from mainstay.journal.record import DecisionRecord
from mainstay.scenarios import weak_designs
from mainstay.sim.narration.facts import RunFact
from mainstay.sim.narration.matchers import match_commit, match_decision, match_fault
from mainstay.sim.narration.steps import Found, NarratedStep, Narration

_PODS: Final = "core/pods/default/fraud-batch-"
_OWNER: Final = "apps/replicasets/default/fraud-batch"
_WANTED: Final = 3
_UNKNOWN: Final = "unknown"
_RELEASED: Final = "released"
_REPLACED: Final = "replaced"


def _becomes_unknown(before: Object | None, after: Object | None, found: Found) -> str | None:
    ready = pod_state.find_condition(after, "Ready") if after is not None else None
    if ready is None or ready["status"] != "Unknown":
        return None
    return f"Ready=Unknown: {ready.get('reason')}, {pod_state.get_node_name(after or {})}"


def _waits(record: DecisionRecord, found: Found) -> str | None:
    if record.subject.name != "fraud-batch" or any(each.kind == "pods" for each in record.actions):
        return None
    seen, unknown = {part.kind: part.revision for part in record.view}, found.get(_UNKNOWN)
    if unknown is None or seen.get("pods", 0) < unknown.revision:
        return None
    return f"reads the pods up to revision {seen['pods']}, and neither creates nor deletes one: {record.outcome.ending}"


def _tells(ready: int) -> Any:
    def words(before: Object | None, after: Object | None, found: Found) -> str | None:
        status: Any = (after or {}).get("status") or {}
        if (status.get("readyReplicas") or 0) != ready:
            return None
        return f"status: {ready} of {after['spec']['replicas'] if after else 0} replicas are ready"

    return words


def _is_released(before: Object | None, after: Object | None, found: Found) -> str | None:
    unknown = found.get(_UNKNOWN)
    if after is None or before is None or unknown is None or unknown.after is None:
        return None
    is_meant = after["metadata"]["uid"] == unknown.after["metadata"]["uid"]
    if not is_meant or not pod_state.is_leaving(after) or pod_state.is_leaving(before):
        return None
    return f"is deleted: deletionTimestamp {after['metadata']['deletionTimestamp']}"


def _replaces(before: Object | None, after: Object | None, found: Found) -> str | None:
    unknown = found.get(_UNKNOWN)
    if before is not None or after is None or unknown is None or unknown.after is None or _RELEASED not in found:
        return None
    if _read_replaced(after) != unknown.after["metadata"]["uid"]:
        return None
    return f"is created, in the place of {unknown.after['metadata']['name']}"


def _replaces_again(fact: RunFact, found: Found) -> str | None:
    """The same replica a second time, or before its release."""
    if not fact.key.startswith(_PODS) or fact.before is not None or fact.after is None:
        return None
    unknown, released, replaced = found.get(_UNKNOWN), found.get(_RELEASED), found.get(_REPLACED)
    if unknown is None or unknown.after is None or _read_replaced(fact.after) != unknown.after["metadata"]["uid"]:
        return None
    if released is None or fact.at_ns < released.at_ns:
        return "is created while the replica that it replaces is not released"
    return "is created in the same place" if replaced is not None and fact.key != replaced.key else None


def _read_replaced(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(REPLACES) or "")


NARRATION: Final = Narration(
    title="repairing a missing replica",
    requirement="R5",
    steps=(
        NarratedStep("", "the node of one replica is cut off", match_fault("cut of node-gpu-")),
        NarratedStep("1", "its replica becomes unknown", match_commit(_PODS, _becomes_unknown), name=_UNKNOWN),
        NarratedStep("2", "the owner reads replicas and pods again", match_decision("replicaset", _waits)),
        NarratedStep("3", "in the grace period it only says so", match_commit(_OWNER, _tells(_WANTED - 1))),
        NarratedStep("4", "grace is over: the replica is released", match_commit(_PODS, _is_released), name=_RELEASED),
        NarratedStep("5", "then there is one replacement", match_commit(_PODS, _replaces), name=_REPLACED),
        NarratedStep("6", "three replicas run again", match_commit(_OWNER, _tells(_WANTED))),
        NarratedStep("", "a second replacement, or one too early", _replaces_again, is_forbidden=True, is_anytime=True),
    ),
    weak_design=weak_designs.replaces_what_is_unknown_at_once,
    weakness="the owner takes a replica on a silent node for one that is gone, and creates another at once",
)
