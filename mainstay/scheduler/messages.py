"""Why a pod has no node, in words: how many nodes refuse it for which reason, which these are, and what would help.

    0/5 nodes are available: 3 Insufficient cpu (2 requested, at most 500m free: n1, n2, n3), 2 node(s) had untolerated
    taint {gpu: NoSchedule} (n4, n5). It may fit when a node is added, or a pod ends or leaves its node.

The first words of each reason are those of Kubernetes, which people and tools look for. A node with several failing
constraints is named under each of them, so the counts can add up to more than there are. Equal refusals give equal
words, so that a writer can tell whether there is news. All of it is bounded, whatever the cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mainstay.api.pod_resources import PODS, amount
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason, Unschedulable

MESSAGE_LENGTH_MAX: Final = 1000
"""Of all of it. An Event takes 1,024."""
NODES_NAMED_MAX: Final = 5  # For each reason.
REASONS_MAX: Final = 12

_CURES_LENGTH_MAX: Final = 350

_CURES: Final[Mapping[Cure, str]] = {
    Cure.NODE_ADDED: "a node is added",
    Cure.NODE_REMOVED: "a node is removed",
    Cure.NODE_ALLOCATABLE: "a node gets more allocatable resources",
    Cure.NODE_LABELS: "a node's labels change",
    Cure.NODE_TAINTS: "a node is uncordoned or loses a taint",
    Cure.POD_REMOVED: "a pod ends or leaves its node",
    Cure.POD_PLACED: "a pod is placed elsewhere",
    Cure.POD_LABELS: "labels of placed pods change",
    Cure.ZONE_QUOTA: "a zone quota is raised",
    Cure.RESERVATION_RELEASED: "a reservation ends",
    Cure.RESERVATION_MADE: "its reservation is made",
    Cure.GHOSTS_GONE: "a node confirms that force-deleted pods have ended",
    Cure.PLACEMENT_POLICY: "another placement policy applies",
    Cure.VIEW_CAUGHT_UP: "the scheduler observes the change of the node",
}


def render_message(no: Unschedulable) -> str:
    """All reasons, with nodes and cures."""
    if any(refusal.reason is RefusalReason.NO_NODES for refusal in no.refusals):
        return f"0/0 nodes are available: no nodes available to schedule pods. {_cures(no.cures)}"
    listed = [_reason(refusal) for refusal in _most_nodes_first(no.refusals)[:REASONS_MAX]]
    if len(no.refusals) > REASONS_MAX:
        listed.append(f"and {len(no.refusals) - REASONS_MAX} more reasons")
    cures = _cures(no.cures)
    text = f"0/{no.nodes} nodes are available: {', '.join(listed)}."
    left = MESSAGE_LENGTH_MAX - len(cures) - 1
    return f"{text if len(text) <= left else f'{text[: left - 2]} …'} {cures}"


def render_summary(no: Unschedulable) -> tuple[str, ...]:
    """The same as words for programs, one for each reason: `InsufficientResource cpu ×3`."""
    return tuple(
        f"{refusal.reason}{f' {refusal.detail}' if refusal.detail else ''} ×{len(refusal.nodes)}"
        for refusal in no.refusals[:REASONS_MAX]
    )


def _most_nodes_first(refusals: Sequence[Refusal]) -> list[Refusal]:
    """Sorted also by what they are about, so that the words do not change when nothing has."""
    return sorted(refusals, key=lambda each: (-len(each.nodes), each.reason, each.detail))


def _reason(refusal: Refusal) -> str:
    shown = ", ".join(refusal.nodes[:NODES_NAMED_MAX])
    more = len(refusal.nodes) - NODES_NAMED_MAX
    names = f"{shown} and {more} more" if more > 0 else shown
    numbers = _numbers(refusal)
    return f"{len(refusal.nodes)} {_words(refusal)} ({f'{numbers}: {names}' if numbers else names})"


def _words(refusal: Refusal) -> str:
    match refusal.reason:
        case RefusalReason.INSUFFICIENT_RESOURCE | RefusalReason.NODE_TOO_SMALL:
            return "Too many pods" if refusal.detail == PODS else f"Insufficient {refusal.detail}"
        case RefusalReason.HELD_BY_GHOSTS:
            return f"node(s) had room held by force-deleted pods, {refusal.detail}"
        case RefusalReason.OTHER_NODE_NAMED:
            return f"node(s) didn't match the requested node name {refusal.detail}"
        case RefusalReason.NODE_AFFINITY:
            return "node(s) didn't match Pod's node affinity/selector"
        case RefusalReason.UNTOLERATED_TAINT:
            return f"node(s) had untolerated taint {{{refusal.detail}}}"
        case RefusalReason.UNSCHEDULABLE_NODE:
            return "node(s) were unschedulable"
        case RefusalReason.PORT_TAKEN:
            return f"node(s) didn't have free ports for the requested pod ports, {refusal.detail}"
        case RefusalReason.ZONE_QUOTA_EXCEEDED:
            return f"node(s) were in a zone without enough quota, {refusal.detail}"
        case RefusalReason.RESERVED_ELSEWHERE:
            return f"node(s) didn't match the pod's reservation, {refusal.detail}"
        case RefusalReason.TOPOLOGY_LABEL_MISSING:
            return f"node(s) didn't match pod topology spread constraints (missing required label), {refusal.detail}"
        case RefusalReason.SKEW_TOO_LARGE:
            return f"node(s) didn't match pod topology spread constraints, {refusal.detail}"
        case RefusalReason.ZONE_SKEW_TOO_LARGE:
            return f"node(s) would exceed maxZoneSkew of PlacementPolicy {refusal.detail}"
        case _:
            return str(refusal.reason)


def _numbers(refusal: Refusal) -> str:
    """What is wanted, and the most that there is anywhere."""
    if refusal.wanted is None or not refusal.free:
        return ""
    match refusal.reason:
        case RefusalReason.INSUFFICIENT_RESOURCE | RefusalReason.NODE_TOO_SMALL | RefusalReason.HELD_BY_GHOSTS:
            most = max(max(refusal.free), 0)
            is_small = " even when empty" if refusal.reason is RefusalReason.NODE_TOO_SMALL else ""
            wanted = amount(refusal.detail, refusal.wanted)
            return (
                f"{wanted} requested, too small{is_small}"
                if is_small
                else (f"{wanted} requested, at most {amount(refusal.detail, most)} free")
            )
        case RefusalReason.ZONE_QUOTA_EXCEEDED:
            resource = refusal.detail.rpartition("/")[2]
            return f"{amount(resource, refusal.wanted)} requested, {amount(resource, max(max(refusal.free), 0))} left"
        case RefusalReason.SKEW_TOO_LARGE | RefusalReason.ZONE_SKEW_TOO_LARGE:
            return f"at most {refusal.wanted} allowed, would be at least {min(refusal.free)}"
        case _:
            return ""


def _cures(cures: Iterable[Cure]) -> str:
    words = [_CURES[cure] for cure in cures]
    if not words:
        return "Only a change of the pod itself can help."
    said = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return f"It may fit when {said}."[:_CURES_LENGTH_MAX]
