"""What is the same for all workloads: since when they are wanted as they are, who fights over them, which pod is worst.

Pods that say the same of themselves wait for the same, so one of each sort is examined. Of several causes the
gravest is told, and the others are counted beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import PODS, REPLICASETS
from mainstay.api.pod_state import find_condition, is_active
from mainstay.explain.why.answer import Also, ChainLink, Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause, Tier, gravity
from mainstay.explain.why.fights import fight_over
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    ago,
    broken,
    build_subject,
    clock,
    count,
    done,
    listed,
    said_by,
    sentence,
    written,
)
from mainstay.explain.why.pods import of_pod
from mainstay.explain.why.removal import Removal
from mainstay.explain.writers import Version

SORTS_LOOKED_AT: Final = 6
"""Of the pods of one workload."""


def find_desired(workload: Object, versions: Sequence[Version]) -> tuple[datetime | None, ChainLink]:
    """Since when it is wanted as it is, and by whom."""
    metadata, replicas = workload["metadata"], wanted_replicas(workload)
    generation = int(metadata.get("generation") or 0)
    made: Version | None = None
    for each in versions:
        after, before = (
            (each.after or NOTHING).get("metadata") or NOTHING,
            (each.before or NOTHING).get("metadata") or NOTHING,
        )
        if after.get("generation") != before.get("generation") and each.after is not None and not each.is_first_known:
            made = each
    text = f"generation {generation}, {count(replicas, 'replica')}"
    if made is None:
        return pod_state.created_at(workload), done("desired", text, said_by(workload))
    return made.at, done("desired", f"{text}, by {made.who.user or made.who.name}", written(made))


def wanted_replicas(workload: Object) -> int:
    value = (workload.get("spec") or NOTHING).get("replicas")
    return 1 if value is None else int(value)


def find_fight(words: str, versions: Sequence[Version], now: datetime) -> Finding | None:
    fight = fight_over(versions, now)
    if fight is None:
        return None
    text = (
        f"{listed(fight.writers)} keep overwriting {fight.field} of {words} with {listed(fight.values)}: "
        f"{count(fight.flips, 'change')}, the last at {clock(fight.last.at)}"
    )
    link = broken("desired", f"{fight.field} oscillates: {listed(fight.writers)}", written(fight.last))
    return Finding(cause=Cause.FIGHTING_WRITERS, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))


_FAILING: Final = frozenset(
    {
        Cause.CONTAINER_CANNOT_START,
        Cause.CONTAINER_FAILED,
        Cause.CRASH_LOOP,
        Cause.LIVENESS_PROBE_FAILING,
        Cause.READINESS_PROBE_FAILING,
        Cause.STARTUP_PROBE_FAILING,
    }
)
"""Pods with these causes may be ready at this moment, between two restarts."""


def verbs_for(cause: Cause) -> tuple[str, str]:
    """The predicate for one pod, and for several."""
    if cause.tier is Tier.IN_PROGRESS:
        return "is not available yet", "are not available yet"
    if cause is Cause.NODE_LOST:  # Such a pod still reports that it is ready.
        return "is on a lost node", "are on lost nodes"
    return ("is failing", "are failing") if cause in _FAILING else ("is not ready", "are not ready")


def share(number: int, wanted: int, words: str, old: str, verbs: tuple[str, str]) -> str:
    """How many of its pods are in trouble: `2 of 3 pods of Deployment web are not ready`."""
    verb, beside = verbs[number != 1], f" ({old})" if old else ""
    if wanted == 1:
        return f"The {'new' if old else 'only'} pod of {words} {verb}{beside}"
    return f"{number} of {wanted} {'new ' if old else ''}pods of {words} {verb}{beside}"


async def find_worst(case: Case, pods: Sequence[Object]) -> tuple[Finding, int, tuple[Also, ...]] | None:
    """Of pods that may not be ready: the gravest cause, of how many, and what else there is. None: all are healthy.

    Pods that say the same of themselves wait for the same, so one of each sort is examined.
    """
    sorts: dict[tuple[str, ...], list[Object]] = {}
    troubled = await case.in_trouble(map(pod_state.get_node_name, pods))
    for pod in pods:
        node = pod_state.get_node_name(pod)
        # What a pod on a lost node says of itself is what it was like before.
        sorts.setdefault((*_summarize_pod(pod), node if node in troubled else ""), []).append(pod)
    if not sorts:
        return None
    most_first = sorted(sorts.values(), key=lambda each: -len(each))
    found: dict[Cause, list[tuple[Finding, int]]] = {}
    for alike in most_first[:SORTS_LOOKED_AT]:
        each = await of_pod(case, alike[0], is_asked=False)
        if each.cause is Cause.SATISFIED:
            continue
        found.setdefault(each.cause, []).append((replace(each, about=build_subject(PODS, alike[0])), len(alike)))
    if len(most_first) > SORTS_LOOKED_AT:
        left = sum(len(each) for each in most_first[SORTS_LOOKED_AT:])
        case.notes[f"{left} of {len(pods)} pods that are not ready were not examined: too many different states"] = None
    if not found:
        return None
    counts = {cause: sum(number for _, number in each) for cause, each in found.items()}
    order = sorted(found, key=lambda cause: (gravity(cause), -counts[cause], cause))
    also = tuple(Also(cause, found[cause][0][0].sentence, counts[cause]) for cause in order[1:])
    return found[order[0]][0][0], counts[order[0]], also


def _summarize_pod(pod: Object) -> tuple[str, ...]:
    """What a pod says of itself, without what differs between any two."""
    status = pod.get("status") or NOTHING
    scheduled, ready = find_condition(pod, "PodScheduled") or NOTHING, find_condition(pod, "Ready") or NOTHING
    said = [str(status.get("phase")), str(bool(pod_state.get_node_name(pod))), str(status.get("reason"))]
    said += [str(scheduled.get(field)) for field in ("status", "reason", "message")]
    said += [str(ready.get(field)) for field in ("status", "reason")]
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        held_up = (each.get("state") or NOTHING).get("waiting") or NOTHING
        last = (each.get("lastState") or NOTHING).get("terminated") or NOTHING
        said += [str(held_up.get("reason")), str(last.get("exitCode")), str(last.get("reason"))]
    return tuple(said)


def complete(case: Case, kind: KindName, workload: Object, versions: Sequence[Version]) -> Finding:
    wanted, words, now = wanted_replicas(workload), build_subject(kind, workload).words, case.now
    since, _ = find_desired(workload, versions)
    if not wanted:
        return scaled_to_zero(kind, workload, versions)
    generation = workload["metadata"].get("generation")
    text = f"{words} is healthy: {wanted}/{wanted} pods ready (generation {generation}, applied {ago(since, now)} ago)"
    link = done("ready", f"{wanted} of {wanted}", said_by(workload))
    return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))


def scaled_to_zero(
    kind: KindName, workload: Object, versions: Sequence[Version], above: Removal | None = None
) -> Finding:
    """No pods are wanted. `above`: why, if it is not the workload itself that was scaled."""
    subject, last = build_subject(kind, workload), version_of_zero(versions)
    text, link = f"{subject.words} is scaled to 0", done("ready", "0 replicas desired")
    found = Finding(cause=Cause.SCALED_TO_ZERO, sentence="", verdict=Verdict.SATISFIED, chain=(link,))
    if last is None:
        return replace(found, sentence=sentence(text))
    if above is not None:
        said = sentence(f"{text}: {above.text}")
        return replace(found, sentence=said, since=last.at, chain=(*above.links, link), involved=above.involved)
    who = last.who.user or last.who.name
    how = "created it with 0 replicas" if last.before is None else f"scaled it from {wanted_replicas(last.before)} to 0"
    return replace(
        found,
        sentence=sentence(f"{text}: {who} {how} at {clock(last.at)}"),
        since=last.at,
        chain=(done("ready", "0 replicas desired", written(last)),),
        involved=(Involved(who, how, (written(last),)),),
    )


def version_of_zero(versions: Sequence[Version]) -> Version | None:
    """The version in which no replicas were wanted any more; None: it is not in the journal."""
    last: Version | None = None
    for each in versions:
        if (
            each.after is not None
            and not wanted_replicas(each.after)
            and (each.before is None or wanted_replicas(each.before))
        ):
            last = None if each.is_first_known else each
    return last


def set_link(replica_set: Object) -> ChainLink:
    status = replica_set.get("status") or NOTHING
    ready = status.get("readyReplicas") or 0
    text = f"{replica_set['metadata']['name']}: {wanted_replicas(replica_set)} desired, {ready} ready"
    return done("replicaset", text, said_by(replica_set), of=build_subject(REPLICASETS, replica_set))


async def on_late_nodes(case: Case, replica_set: Object) -> tuple[Also, ...]:
    """What is wrong with the nodes of pods that are ready as far as is known."""
    on: dict[str, int] = {}
    pods = await case.owned(PODS, replica_set["metadata"].get("uid", ""))
    troubled = await case.in_trouble(map(pod_state.get_node_name, pods))
    for pod in pods:
        if is_active(pod) and (node := pod_state.get_node_name(pod)) in troubled:
            on[node] = on.get(node, 0) + 1
    found = []
    for name in sorted(on):
        trouble = await case.find_trouble(name)
        if trouble is not None:
            text = f"{on[name]} of its pods {'is' if on[name] == 1 else 'are'} on an unhealthy node: {trouble.text}"
            found.append(Also(trouble.cause, text, on[name]))
    return tuple(found)
