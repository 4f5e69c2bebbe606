"""Why a Deployment or a ReplicaSet has not all its pods ready: from the generation that is wanted down to a pod.

    desired ─► controller ─► replicaset ─► pods made ─► each pod (pods.py) ─► ready ─► rollout complete

Also failures before a pod exists: a quota or an admission rule that refuses them. Of several pods that are held up, the
gravest cause is told, and the others are counted beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.holds import What
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, REPLICASETS
from mainstay.api.pod_state import condition_of, is_active, is_leaving, is_ready, time_of
from mainstay.controllers.deployment import revisions
from mainstay.controllers.deployment import status as rollout_status
from mainstay.explain.why.answer import Also, Involved, Link, Tier, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause, gravity
from mainstay.explain.why.containers import was_restarted_lately
from mainstay.explain.why.control import held, hold_found, not_done
from mainstay.explain.why.fights import fight_over
from mainstay.explain.why.found import (
    NOTHING,
    Found,
    ago,
    broken,
    clock,
    count,
    done,
    evidence_of,
    listed,
    said_by,
    sentence,
    shortened,
    subject_of,
    waiting,
    written,
)
from mainstay.explain.why.nodes import in_trouble, trouble_of
from mainstay.explain.why.pods import of_pod
from mainstay.explain.why.quotas import freed
from mainstay.explain.why.removal import leaving, set_shrunk
from mainstay.explain.writers import Version

SORTS_LOOKED_AT: Final = 6
"""Of the pods of one workload."""
_A_MOMENT: Final = timedelta(seconds=2)


async def of_deployment(case: Case, deployment: Object) -> Found:
    if is_leaving(deployment):
        return await leaving(case, DEPLOYMENTS, deployment)
    await case.moment.load([REPLICASETS, PODS, NODES])
    subject = subject_of(DEPLOYMENTS, deployment)
    versions = await case.versions(DEPLOYMENTS.text, subject.namespace, subject.name)
    wanted_since, desired = _desired(deployment, versions)
    if (fight := _fought(subject.words, versions, case.now)) is not None:
        return fight.after((desired,))
    spec, status = deployment["spec"], deployment.get("status") or NOTHING
    sets = await case.owned(REPLICASETS, subject.uid)
    new = revisions.new_set(deployment, sets)
    is_complete = _is_complete(deployment, new)
    observed = int(status.get("observedGeneration") or 0)
    current = subject.generation
    if observed < current:
        if (hold := await _rollout_held(case, deployment, subject.words)) is not None:
            return hold.after((desired,))
        seen = f"the last that its controller has seen is {observed}" if observed else "its controller has seen none"
        what = f"Generation {current} of {subject.words} is not acted on: {seen}"
        found = await not_done(case, DEPLOYMENTS, deployment, "deployment", what, wanted_since)
        return found.after((desired,))
    links = [desired, await _controller(case, DEPLOYMENTS, deployment, "deployment", observed)]
    if not is_complete:
        if (hold := await _rollout_held(case, deployment, subject.words)) is not None and not _has_all(
            deployment, sets
        ):
            return hold.after(links)
        if spec.get("paused") and (new is None or int(status.get("updatedReplicas") or 0) < _replicas(deployment)):
            return _paused(deployment, versions, subject.words).after(links)
    if new is None:
        return (await _no_set(case, deployment, wanted_since)).after(links)
    old = [pod for each in sets if each is not new for pod in await case.owned(PODS, each["metadata"].get("uid", ""))]
    below = await _of_set(case, new, subject.words, _old_words(old))
    if below is not None:
        worst = await worst_of(case, [pod for pod in old if is_active(pod) and not is_ready(pod)])
        beside = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]), *worst[2])
        return _given_up(deployment, replace(below, also=(*below.also, *beside))).after(links)
    links.append(_set_link(new))
    if is_complete:
        found = await _complete(case, DEPLOYMENTS, deployment, versions)
        return replace(found, also=await _on_late_nodes(case, new)).after(links)
    return (await _rolling(case, deployment, new, sets, wanted_since)).after(links)


def _given_up(deployment: Object, found: Found) -> Found:
    """A rollout whose deadline has passed is not waited for any more, whatever it would still need."""
    said = condition_of(deployment, rollout_status.PROGRESSING)
    if said is None or said.get("status") != "False" or found.verdict is not Verdict.WAITING:
        return found
    link = broken("deadline", f"{said.get('reason')}: the rollout is given up", said_by(deployment, said))
    return replace(found, verdict=Verdict.BLOCKED, chain=(*found.chain, link))


async def of_replica_set(case: Case, replica_set: Object) -> Found:
    if is_leaving(replica_set):
        return await leaving(case, REPLICASETS, replica_set)
    await case.moment.load([PODS, NODES])
    subject = subject_of(REPLICASETS, replica_set)
    versions = await case.versions(REPLICASETS.text, subject.namespace, subject.name)
    wanted_since, desired = _desired(replica_set, versions)
    if (fight := _fought(subject.words, versions, case.now)) is not None:
        return fight.after((desired,))
    observed = int((replica_set.get("status") or NOTHING).get("observedGeneration") or 0)
    if observed < subject.generation:
        what = f"Generation {subject.generation} of {subject.words} is not acted on"
        return (await not_done(case, REPLICASETS, replica_set, "replicaset", what, wanted_since)).after((desired,))
    below = await _of_set(case, replica_set, subject.words)
    if below is not None:
        return below.after((desired,))
    found = await _complete(case, REPLICASETS, replica_set, versions)
    return replace(found, also=await _on_late_nodes(case, replica_set)).after((desired,))


# What is wanted.


def _desired(workload: Object, versions: Sequence[Version]) -> tuple[datetime | None, Link]:
    """Since when it is wanted as it is, and by whom."""
    metadata, replicas = workload["metadata"], _replicas(workload)
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


def _replicas(workload: Object) -> int:
    value = (workload.get("spec") or NOTHING).get("replicas")
    return 1 if value is None else int(value)


def _fought(words: str, versions: Sequence[Version], now: datetime) -> Found | None:
    fight = fight_over(versions, now)
    if fight is None:
        return None
    text = (
        f"{listed(fight.writers)} set {fight.field} of {words} in turn, to {listed(fight.values)}: "
        f"{fight.flips} times, last at {clock(fight.last.at)}"
    )
    link = broken("desired", f"{fight.field} changes hands: {listed(fight.writers)}", written(fight.last))
    return Found(cause=Cause.FIGHTING_WRITERS, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))


async def _controller(case: Case, kind: KindName, workload: Object, controller: str, observed: int) -> Link:
    subject = subject_of(kind, workload)
    records = await case.records(kind.text, subject.namespace, subject.name, subject.uid)
    own = [each for each in records if each.component == controller and each.subject.generation == subject.generation]
    first = own[0] if own else None
    evidence = evidence_of(first) if first is not None else said_by(workload)
    reason = f": {first.reasons[0]}" if first is not None and first.reasons else ""
    return done("controller", f"{controller} has seen generation {observed}{reason}", evidence)


async def _rollout_held(case: Case, deployment: Object, words: str) -> Found | None:
    subject = subject_of(DEPLOYMENTS, deployment)
    for hold in await case.holds(DEPLOYMENTS, subject.name, subject.namespace):
        if hold.what is What.ROLLOUT:
            text = f"the rollout of {words} is held by {hold.owner} until {clock(hold.expires_at)}: {hold.reason}"
            return hold_found(hold, f"{text[0].upper()}{text[1:]} (Hold {hold.name})")
    return None


def _has_all(deployment: Object, sets: Sequence[Object]) -> bool:
    """Whether nothing but the number of pods differs from what is wanted: a Hold does not stop that."""
    return len([each for each in sets if _replicas(each)]) <= 1 and revisions.new_set(deployment, sets) is not None


def _paused(deployment: Object, versions: Sequence[Version], words: str) -> Found:
    paused = next(
        (each for each in reversed(versions) if any(change.path == ("spec", "paused") for change in each.changes)), None
    )
    by = f" by {paused.who.user or paused.who.name} at {clock(paused.at)}" if paused is not None else ""
    evidence = written(paused) if paused is not None else said_by(deployment)
    text = f"The rollout of {words} {'was' if by else 'is'} paused{by}: its new template is not rolled out"
    return Found(
        cause=Cause.ROLLOUT_PAUSED,
        sentence=sentence(text),
        verdict=Verdict.BLOCKED,
        since=paused.at if paused is not None else None,
        chain=(broken("controller", f"paused{by}", evidence),),
    )


async def _no_set(case: Case, deployment: Object, since: datetime | None) -> Found:
    said = condition_of(deployment, rollout_status.PROGRESSING) or NOTHING
    words = subject_of(DEPLOYMENTS, deployment).words
    if said.get("reason") == rollout_status.CREATE_FAILED:
        message = str(said.get("message") or "")
        cause, verdict = refusal_cause(message)
        text = f"{words} has no ReplicaSet for its template: {message}"
        return Found(
            cause=cause,
            sentence=sentence(shortened(text, 360)),
            verdict=verdict,
            since=time_of(said.get("lastTransitionTime")),
            chain=(broken("replicaset", shortened(message, 160), said_by(deployment, said)),),
        )
    what = f"{words} has no ReplicaSet for its template yet"
    return await not_done(case, DEPLOYMENTS, deployment, "deployment", what, since)


def _set_link(replica_set: Object) -> Link:
    status = replica_set.get("status") or NOTHING
    text = (
        f"{replica_set['metadata']['name']}: {_replicas(replica_set)} wanted, {status.get('readyReplicas') or 0} ready"
    )
    return done("replicaset", text, said_by(replica_set), of=subject_of(REPLICASETS, replica_set))


# A set and its pods.


async def _of_set(case: Case, replica_set: Object, words: str, old: str = "") -> Found | None:
    """Why a set has not all its pods ready; None if it has. `old`: what there is of former templates, in words."""
    wanted = _replicas(replica_set)
    pods = await case.owned(PODS, replica_set["metadata"].get("uid", ""))
    active = [pod for pod in pods if is_active(pod)]
    link = _set_link(replica_set)
    missing = wanted - len(active)
    troubled = await in_trouble(case, map(pod_state.node_of, pods))
    slow = [
        pod
        for pod in active
        if not is_ready(pod) or pod_state.node_of(pod) in troubled or was_restarted_lately(pod, case.now)
    ]
    failed_ones = [
        pod for pod in pods if (pod.get("status") or NOTHING).get("phase") == "Failed" and not is_leaving(pod)
    ]
    worst = await worst_of(case, slow)
    if missing > 0:
        refused = await _not_made(case, replica_set, words, len(active), wanted, failed_ones)
        if refused is not None and (worst is None or gravity(refused.cause) <= gravity(worst[0].cause)):
            beside = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]),)
            return replace(refused, also=(*refused.also, *beside)).after((link,))
    if worst is None:
        return None
    found, number, also = worst
    pod = found.about
    made = done("pods", f"{len(active)} of {wanted} pods are made", said_by(replica_set))
    text = share(number, wanted, words, old, verbs_for(found.cause, all(is_ready(pod) for pod in slow)))
    text = f"{text}: {found.sentence}"
    return replace(found, sentence=shortened(text, 420), about=pod, also=also).after((link, made))


def _old_words(pods: Sequence[Object]) -> str:
    """What there is of former templates: `2 old ones are ready`."""
    active = [pod for pod in pods if is_active(pod)]
    ready = sum(is_ready(pod) for pod in active)
    if len(active) < 2:
        return f"the old one is {'' if ready else 'not '}ready" if active else ""
    if ready == len(active):
        return f"{ready} old ones are ready"
    return f"of {len(active)} old ones {ready or 'none'} {'is' if ready <= 1 else 'are'} ready"


def verbs_for(cause: Cause, are_ready: bool) -> tuple[str, str]:
    """What is said of one pod, and of several."""
    if cause.tier is Tier.IN_PROGRESS:
        return "is on its way", "are on their way"
    lasts_not = are_ready and cause is not Cause.NODE_LOST
    return ("does not last", "do not last") if lasts_not else ("is held up", "are held up")


def share(number: int, wanted: int, words: str, old: str, verbs: tuple[str, str]) -> str:
    """How many of its pods are in trouble: `2 of 3 pods of Deployment web are held up`."""
    verb, beside = verbs[number != 1], f" ({old})" if old else ""
    if wanted == 1:
        return f"The {'new' if old else 'only'} pod of {words} {verb}{beside}"
    return f"{number} of {wanted} {'new ' if old else ''}pods of {words} {verb}{beside}"


async def worst_of(case: Case, pods: Sequence[Object]) -> tuple[Found, int, tuple[Also, ...]] | None:
    """Of pods that may be held up: the gravest cause, of how many, and what else there is. None: all are well.

    Pods that say the same of themselves are held up by the same, so one of each sort is looked at.
    """
    sorts: dict[tuple[str, ...], list[Object]] = {}
    troubled = await in_trouble(case, map(pod_state.node_of, pods))
    for pod in pods:
        node = pod_state.node_of(pod)
        # What a pod on a lost node says of itself is what it was like before.
        sorts.setdefault((*_said_of(pod), node if node in troubled else ""), []).append(pod)
    if not sorts:
        return None
    most_first = sorted(sorts.values(), key=lambda each: -len(each))
    found: dict[Cause, list[tuple[Found, int]]] = {}
    for alike in most_first[:SORTS_LOOKED_AT]:
        each = await of_pod(case, alike[0], is_asked=False)
        if each.cause is Cause.SATISFIED:
            continue
        found.setdefault(each.cause, []).append((replace(each, about=subject_of(PODS, alike[0])), len(alike)))
    if len(most_first) > SORTS_LOOKED_AT:
        left = sum(len(each) for each in most_first[SORTS_LOOKED_AT:])
        case.notes[f"{left} of {len(pods)} pods that are held up were not looked at: there are too many sorts"] = None
    if not found:
        return None
    counts = {cause: sum(number for _, number in each) for cause, each in found.items()}
    order = sorted(found, key=lambda cause: (gravity(cause), -counts[cause], cause))
    also = tuple(Also(cause, found[cause][0][0].sentence, counts[cause]) for cause in order[1:])
    return found[order[0]][0][0], counts[order[0]], also


def _said_of(pod: Object) -> tuple[str, ...]:
    """What a pod says of itself, without what differs between any two."""
    status = pod.get("status") or NOTHING
    scheduled, ready = condition_of(pod, "PodScheduled") or NOTHING, condition_of(pod, "Ready") or NOTHING
    said = [str(status.get("phase")), str(bool(pod_state.node_of(pod))), str(status.get("reason"))]
    said += [str(scheduled.get(field)) for field in ("status", "reason", "message")]
    said += [str(ready.get(field)) for field in ("status", "reason")]
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        held_up = (each.get("state") or NOTHING).get("waiting") or NOTHING
        last = (each.get("lastState") or NOTHING).get("terminated") or NOTHING
        said += [str(held_up.get("reason")), str(last.get("exitCode")), str(last.get("reason"))]
    return tuple(said)


async def _not_made(
    case: Case, replica_set: Object, words: str, there: int, wanted: int, failed_ones: Sequence[Object]
) -> Found | None:
    """Why pods are missing."""
    subject = subject_of(REPLICASETS, replica_set)
    what = f"{there} of {wanted} pods of {words} {'is' if there == 1 else 'are'} there"
    hold = await held(case, REPLICASETS, replica_set, ("replicaset",), what)
    if hold is not None:
        return hold
    said = condition_of(replica_set, rollout_status.REPLICA_FAILURE)
    records = await case.records(REPLICASETS.text, subject.namespace, subject.name, subject.uid)
    own = [each for each in records if each.component == "replicaset"]
    evidence = [evidence_of(own[-1])] if own else []
    if said is not None and said.get("status") == "True" and said.get("reason") != "BackingOff":
        message = str(said.get("message") or "")
        cause, verdict = refusal_cause(message)
        if (later := await freed(case, subject.namespace, message, what, "replicaset")) is not None:
            return later
        text = f"{what}, and the server refuses to make more: {message}"
        return Found(
            cause=cause,
            sentence=sentence(shortened(text, 400)),
            verdict=verdict,
            since=time_of(said.get("lastTransitionTime")),
            chain=(broken("admission", shortened(message, 200), said_by(replica_set, said), *evidence),),
        )
    if failed_ones:
        last = max(failed_ones, key=lambda pod: (pod_state.created_at(pod), pod["metadata"]["name"]))
        found = await of_pod(case, last, is_asked=False)
        text = f"{what}: {count(len(failed_ones), 'pod')} of it failed, and the next is made later. {found.sentence}"
        return replace(found, sentence=shortened(text, 420), about=subject_of(PODS, last))
    versions = await case.versions(REPLICASETS.text, subject.namespace, subject.name)
    since, _ = _desired(replica_set, versions)
    found = await not_done(case, REPLICASETS, replica_set, "replicaset", what, since)
    if found.cause is Cause.NOT_OBSERVED_YET:
        return replace(found, cause=Cause.SCALING)
    return found


def refusal_cause(message: str) -> tuple[Cause, Verdict]:
    """What the words of a refused write come to."""
    low = message.lower()
    if "exceeded quota" in low:
        return Cause.QUOTA_EXCEEDED, Verdict.WAITING
    if "being terminated" in low or "is terminating" in low:
        return Cause.NAMESPACE_TERMINATING, Verdict.BLOCKED
    if "serviceaccount" in low and "not found" in low:
        return Cause.SERVICE_ACCOUNT_MISSING, Verdict.BLOCKED
    if "namespaces" in low and "not found" in low:
        return Cause.NAMESPACE_MISSING, Verdict.BLOCKED
    if "is invalid" in low or "unprocessable" in low:
        return Cause.INVALID, Verdict.BLOCKED
    if "cannot create resource" in low or "cannot patch resource" in low:
        return Cause.FORBIDDEN, Verdict.BLOCKED
    return Cause.ADMISSION_REFUSED, Verdict.BLOCKED


# The rollout.


def _is_complete(deployment: Object, new: Object | None) -> bool:
    status, wanted = deployment.get("status") or NOTHING, _replicas(deployment)
    numbers = [int(status.get(name) or 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
    return new is not None and all(number == wanted for number in numbers)


async def _complete(case: Case, kind: KindName, workload: Object, versions: Sequence[Version]) -> Found:
    wanted, words, now = _replicas(workload), subject_of(kind, workload).words, case.now
    since, _ = _desired(workload, versions)
    if not wanted:
        return await _scaled_to_zero(case, kind, workload, versions)
    what = "its only pod is" if wanted == 1 else f"all {wanted} pods are"
    generation = workload["metadata"].get("generation")
    text = (
        f"{words} is as it should be: {what} ready, of generation {generation}, which is wanted for {ago(since, now)}"
    )
    link = done("ready", f"{wanted} of {wanted}", said_by(workload))
    return Found(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))


async def _scaled_to_zero(case: Case, kind: KindName, workload: Object, versions: Sequence[Version]) -> Found:
    subject = subject_of(kind, workload)
    last: Version | None = None
    for each in versions:
        if each.after is not None and not _replicas(each.after) and (each.before is None or _replicas(each.before)):
            last = None if each.is_first_known else each
    text, link = f"{subject.words} has no pods because none are wanted", done("ready", "nothing is wanted")
    found = Found(cause=Cause.SCALED_TO_ZERO, sentence="", verdict=Verdict.SATISFIED, chain=(link,))
    if last is None:
        return replace(found, sentence=sentence(f"{text}: it is scaled to 0"))
    above = await set_shrunk(case, subject.namespace, subject.name, last.revision) if kind == REPLICASETS else None
    if above is not None:
        said = sentence(f"{text}: {above.text}")
        return replace(found, sentence=said, since=last.at, chain=(*above.links, link), involved=above.involved)
    who = last.who.user or last.who.name
    how = "made it with 0 replicas" if last.before is None else f"scaled it from {_replicas(last.before)} to 0"
    return replace(
        found,
        sentence=sentence(f"{text}: {who} {how} at {clock(last.at)}"),
        since=last.at,
        chain=(done("ready", "nothing is wanted", written(last)),),
        involved=(Involved(who, how, (written(last),)),),
    )


async def _on_late_nodes(case: Case, replica_set: Object) -> tuple[Also, ...]:
    """What is wrong with the nodes of pods that are ready as far as anybody has heard."""
    on: dict[str, int] = {}
    pods = await case.owned(PODS, replica_set["metadata"].get("uid", ""))
    troubled = await in_trouble(case, map(pod_state.node_of, pods))
    for pod in pods:
        if is_active(pod) and (node := pod_state.node_of(pod)) in troubled:
            on[node] = on.get(node, 0) + 1
    found = []
    for name in sorted(on):
        trouble = await trouble_of(case, name)
        if trouble is not None:
            text = f"{on[name]} of its pods {'is' if on[name] == 1 else 'are'} there: {trouble.text}"
            found.append(Also(trouble.cause, text, on[name]))
    return tuple(found)


async def _rolling(
    case: Case, deployment: Object, new: Object, sets: Sequence[Object], since: datetime | None
) -> Found:
    """All pods that are there are ready, and the rollout is not over."""
    words = subject_of(DEPLOYMENTS, deployment).words
    old = [each for each in sets if each is not new and _replicas(each)]
    status = deployment.get("status") or NOTHING
    wanted = _replicas(deployment)
    updated, available = int(status.get("updatedReplicas") or 0), int(status.get("availableReplicas") or 0)
    said = condition_of(deployment, rollout_status.PROGRESSING) or NOTHING
    moved = time_of(said.get("lastUpdateTime")) or since
    stuck: Found | None = None
    leftover = [
        pod for each in sets for pod in await case.owned(PODS, each["metadata"].get("uid", "")) if is_leaving(pod)
    ]
    if leftover and case.now - (moved or case.now) > _A_MOMENT:
        first = await of_pod(case, leftover[0], is_asked=False)
        if first.cause not in (Cause.TERMINATING, Cause.SCALED_DOWN, Cause.ROLLED_OVER):
            stuck = replace(first, about=subject_of(PODS, leftover[0]))
    if stuck is not None:
        return replace(stuck, sentence=shortened(f"The rollout of {words} waits: {stuck.sentence}", 400))
    if old and updated >= wanted and case.now - (moved or case.now) > timedelta(seconds=30):
        names = listed(each["metadata"]["name"] for each in old)
        what = f"The rollout of {words} is not over: {names} still has pods"
        return await not_done(case, DEPLOYMENTS, deployment, "deployment", what, moved)
    text = f"{words} is being rolled out: {updated} of {wanted} pods are of the new template, {available} are available"
    link = waiting("rollout", f"{updated} of {wanted} updated", said_by(deployment, said or None))
    return Found(cause=Cause.ROLLING_OUT, sentence=sentence(text), verdict=Verdict.WAITING, since=moved, chain=(link,))
