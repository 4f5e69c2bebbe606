"""*Binding during node failure*, step by step. (SPEC F7)"""

from typing import Any, Final

import msgspec

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.node_health import SUSPECTED
from mainstay.journal.record import DecisionRecord
from mainstay.scenarios import weak_designs
from mainstay.scheduler.bind import BATCHES
from mainstay.sim.cluster.history import RequestReceived, ResponseSent
from mainstay.sim.narration.facts import RunFact
from mainstay.sim.narration.matchers import match_commit, match_decision, match_lost_answer
from mainstay.sim.narration.steps import Found, NarratedStep, Narration

_SCHEDULER: Final = "scheduler-1"
_PODS: Final = "core/pods/default/risk-api-"
_WORKLOAD: Final = "apps/deployments/default/risk-api"
_REPLICAS: Final = 4
_CHOSEN, _SENT, _SUSPECT = "chosen", "sent", "suspect"
_NODES: Final = "core/nodes/"
_decode = msgspec.json.Decoder().decode


def _read_node(record: DecisionRecord) -> str:
    return next((reason.removeprefix("node=") for reason in record.reasons if reason.startswith("node=")), "")


def _chooses(record: DecisionRecord, found: Found) -> str | None:
    node = _read_node(record)
    return f"chooses {node}: {', '.join(record.reasons[1:])}" if node else None


def _is_sent(fact: RunFact, found: Found) -> str | None:
    chosen = found.get(_CHOSEN)
    if not isinstance(fact.event, RequestReceived) or fact.event.path != BATCHES or chosen is None:
        return None
    for item in _decode(fact.event.body)["items"]:
        if item["decision"] == chosen.decision:
            return f"to {item['target']['name']}, operation …{item['operation'][-12:]}, seen pods@{item['observed']}"
    return None


def _is_sent_again(fact: RunFact, found: Found) -> str | None:
    words, sent = _is_sent(fact, found), found.get(_SENT)
    if words is None or sent is None or not isinstance(sent.event, RequestReceived) or fact.event is sent.event:
        return None
    return words if _list_operations(fact.event) == _list_operations(sent.event) else None


def _list_operations(event: Any) -> list[str]:
    return [item["operation"] for item in _decode(event.body)["items"]]


def _is_confirmed(fact: RunFact, found: Found) -> str | None:
    event, asked = fact.event, fact.asked
    if not isinstance(event, ResponseSent) or not event.is_delivered or asked is None or asked.path != BATCHES:
        return None
    results = _decode(event.body)["items"]
    return ", ".join(f"{each['status']} at revision {each.get('revision')}" for each in results)


def _is_bound(before: Object | None, after: Object | None, found: Found) -> str | None:
    if (
        not _is_subject(found, after)
        or not pod_state.get_node_name(after or {})
        or pod_state.get_node_name(before or {})
    ):
        return None
    scheduled = pod_state.find_condition(after or {}, "PodScheduled") or {}
    return f"is bound to {pod_state.get_node_name(after or {})}; PodScheduled={scheduled.get('status')}"


def _is_subject(found: Found, pod: Object | None) -> bool:
    """Whether this is the pod that the story is about."""
    chosen = found.get(_CHOSEN)
    return (
        pod is not None
        and chosen is not None
        and chosen.record is not None
        and pod["metadata"]["uid"] == chosen.record.subject.uid
    )


def _is_suspected(before: Object | None, after: Object | None, found: Found) -> str | None:
    chosen, spec = found.get(_CHOSEN), (after or {}).get("spec") or {}
    if after is None or chosen is None or chosen.record is None:
        return None
    taints = [f"{each['key']}:{each['effect']}" for each in spec.get("taints") or ()]
    is_meant = after["metadata"]["name"] == _read_node(chosen.record)
    return f"heartbeat late: taint {', '.join(taints)}" if is_meant and SUSPECTED.key in " ".join(taints) else None


def _avoids(record: DecisionRecord, found: Found) -> str | None:
    chosen, suspect, node = found.get(_CHOSEN), found.get(_SUSPECT), _read_node(record)
    if chosen is None or chosen.record is None or suspect is None or not node or node == _read_node(chosen.record):
        return None
    seen = {part.kind: part.revision for part in record.view}.get("nodes", 0)
    return f"chooses {node} for another replica" if seen >= suspect.revision else None


def _is_ready(before: Object | None, after: Object | None, found: Found) -> str | None:
    is_meant = _is_subject(found, after) and pod_state.is_ready(after or {}) and not pod_state.is_leaving(after or {})
    return f"Ready=True on {pod_state.get_node_name(after or {})}" if is_meant else None


def _moves(before: Object | None, after: Object | None, found: Found) -> str | None:
    old, new = pod_state.get_node_name(before or {}), pod_state.get_node_name(after or {})
    return f"was bound to {old}, and is bound to {new}" if old and new and old != new else None


def _is_raised(before: Object | None, after: Object | None, found: Found) -> str | None:
    wanted = int(((after or {}).get("spec") or {}).get("replicas") or 0)
    return f"{wanted} replicas are asked for" if wanted > _REPLICAS else None


NARRATION: Final = Narration(
    title="binding during node failure",
    requirement="F7",
    steps=(
        NarratedStep("00:00", "the scheduler selects a node", match_decision(_SCHEDULER, _chooses), name=_CHOSEN),
        NarratedStep("00:01", "it sends the binding", _is_sent, name=_SENT),
        NarratedStep("", "the server commits it", match_commit(_PODS, _is_bound)),
        NarratedStep("00:02", "the answer does not arrive", match_lost_answer(_SCHEDULER, BATCHES)),
        NarratedStep("1, 2", "it asks again by the same identity", _is_sent_again),
        NarratedStep("3", "and finds the committed binding", _is_confirmed),
        NarratedStep("00:03", "the node's heartbeat is late", match_commit(_NODES, _is_suspected), name=_SUSPECT),
        NarratedStep("5", "no new pod is placed there", match_decision(_SCHEDULER, _avoids)),
        NarratedStep("00:04", "the pod stays, and becomes ready", match_commit(_PODS, _is_ready)),
        NarratedStep("", "a pod has a second node", match_commit(_PODS, _moves), is_forbidden=True, is_anytime=True),
        NarratedStep("", "more replicas", match_commit(_WORKLOAD, _is_raised), is_forbidden=True, is_anytime=True),
    ),
    weak_design=weak_designs.binds_again_after_a_timeout,
    weakness="the scheduler takes no answer for a no and chooses another node; the server does not look",
)
