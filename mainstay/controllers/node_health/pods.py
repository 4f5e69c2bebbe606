"""What becomes of the pods of nodes that are in doubt: no traffic, then an end in order, and removal only with proof.

Each of these says what should be done now, also if an earlier leader has begun it. While evictions are frozen no pod is
removed; a Lease that was taken for that is given back. See decide.py for the whole of it.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from mainstay.api.annotations import is_at_most_one
from mainstay.api.holds import freezing
from mainstay.api.kind import Object
from mainstay.api.node_health import NOT_READY_RELEASED, RELEASED, UNHEARD, HealthState
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_state import is_leaving, is_over, is_ready
from mainstay.api.taints import NO_EXECUTE, Taint, stays_for
from mainstay.controllers.node_health.evidence import Hearing, NodeHealthFacts
from mainstay.controllers.node_health.heartbeats import fence
from mainstay.controllers.node_health.plan import (
    HOLDER,
    Evict,
    HealthVerdict,
    MarkPod,
    NodeHealthMemory,
    NodeSnapshot,
    RemoveDeadPod,
    ReplacePods,
)
from mainstay.loop.evidence import EvidenceResponse

MARKS_MAX: Final = 100
"""Of each of these in one look: an outage of a thousand nodes must not become a storm of writes."""
EVICTIONS_MAX: Final = 20
RELEASES_MAX: Final = 5

_RELEASING: Final = (RELEASED, NOT_READY_RELEASED)


def taints_since(snapshot: NodeSnapshot, memory: NodeHealthMemory) -> dict[tuple[str, str], int]:
    """Since when each `NoExecute` taint has been seen."""
    found = {}
    for facts in snapshot.nodes.values():
        for taint in facts.taints:
            if taint.effect == NO_EXECUTE:
                key = (facts.uid, str(taint))
                found[key] = memory.taints_since.get(key, snapshot.now_ns)
    return found


def marks(
    snapshot: NodeSnapshot, verdicts: Mapping[str, HealthVerdict], memory: NodeHealthMemory, is_isolated: bool
) -> list[MarkPod]:
    """Pods that are said to be ready, on nodes that are not. While every node is silent none of them is better than the
    others, and to take all traffic away would help no user."""
    if is_isolated:
        return []
    found = []
    for name, pods in snapshot.pods.items():
        facts, verdict = snapshot.nodes[name], verdicts[name]
        if verdict.hearing is Hearing.HEARD and facts.ready[0] == "False":
            status, message = "False", "the node says that it is not ready"
        elif (
            verdict.hearing is Hearing.SILENT
            and facts.ready[:2] == ("Unknown", UNHEARD)
            and EvidenceResponse.STOP_TRAFFIC in verdict.allowed
        ):
            status, message = "Unknown", "no heartbeat from the node"
        else:
            continue
        again_ns = snapshot.heard[name].duration // timedelta(microseconds=1) * 1000
        for pod in pods:
            uid = pod["metadata"]["uid"]
            is_due = uid not in memory.marked or snapshot.now_ns - memory.marked[uid] >= again_ns
            if is_ready(pod) and not is_over(pod) and is_due:
                found.append(MarkPod(_key(pod), uid, status, message))
    return found[:MARKS_MAX]


def evictions(
    snapshot: NodeSnapshot, verdicts: Mapping[str, HealthVerdict], since: Mapping[tuple[str, str], int]
) -> list[Evict]:
    found = []
    for name, pods in snapshot.pods.items():
        facts, verdict = snapshot.nodes[name], verdicts[name]
        counting = [
            taint
            for taint in facts.taints
            if taint.effect == NO_EXECUTE
            # What was tainted because it was silent loses pods only while it is silent, as far as we can hear.
            and (
                taint not in _RELEASING or (verdict.state is HealthState.RELEASED and verdict.hearing is Hearing.SILENT)
            )
        ]
        for pod in pods:
            if is_leaving(pod) or is_over(pod) or _is_frozen(pod, snapshot):
                continue
            if _is_due(pod, facts, counting, since, snapshot.now_ns):
                shown = ", ".join(str(taint) for taint in counting)
                found.append(
                    Evict(_key(pod), pod["metadata"]["uid"], f"does not tolerate {shown} of {name} any longer")
                )
    return found


def _is_due(
    pod: Object, facts: NodeHealthFacts, taints: Sequence[Taint], since: Mapping[tuple[str, str], int], now_ns: int
) -> bool:
    for taint in taints:
        stays = stays_for(pod, [taint])
        if stays is not None and now_ns - since[(facts.uid, str(taint))] >= stays // timedelta(microseconds=1) * 1000:
            return True
    return False


def removals(snapshot: NodeSnapshot) -> list[RemoveDeadPod]:
    """What an operator says has ended with its machine."""
    return [
        RemoveDeadPod(_key(pod), pod["metadata"]["uid"])
        for name, pods in snapshot.pods.items()
        if snapshot.nodes[name].is_out_of_service and not snapshot.nodes[name].is_ready
        for pod in pods
        if is_leaving(pod) and not _is_frozen(pod, snapshot)
    ]


def replacements(snapshot: NodeSnapshot, verdicts: Mapping[str, HealthVerdict]) -> list[ReplacePods]:
    """At-most-one pods that should end, on nodes that must have ended them by now."""
    found = []
    for name, pods in snapshot.pods.items():
        heard, verdict = snapshot.heard[name], verdicts[name]
        leaving = tuple(
            RemoveDeadPod(_key(pod), pod["metadata"]["uid"])
            for pod in pods
            if is_leaving(pod) and is_at_most_one(pod) and not _is_frozen(pod, snapshot)
        )
        is_ours = heard.has_lease and heard.holder == HOLDER
        may_take = fence(heard, snapshot.now_ns) if EvidenceResponse.REPLACE_AT_MOST_ONE in verdict.allowed else None
        if is_ours and heard.lease is not None:
            found.append(ReplacePods(name, heard.lease.revision, is_ours, leaving))
        elif leaving and may_take is not None and verdict.hearing is Hearing.SILENT:
            found.append(ReplacePods(name, may_take.revision, is_ours, leaving))
    return found


def _is_frozen(pod: Object, snapshot: NodeSnapshot) -> bool:
    return bool(snapshot.frozen) and freezing(snapshot.frozen, pod["metadata"]["namespace"]) is not None


def _key(pod: Object) -> ObjectKey:
    return ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"])
