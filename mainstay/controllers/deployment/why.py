"""Why a Deployment has not all its pods ready: from the generation that is wanted down to its ReplicaSet.

desired ─► controller ─► replicaset (controllers/replicaset/why.py) ─► ready ─► rollout complete
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.holds import HoldScope
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, REPLICASETS
from mainstay.api.pod_state import find_condition, is_active, is_leaving, is_ready, parse_time_or_none
from mainstay.controllers.deployment import revisions
from mainstay.controllers.deployment import status as rollout_status
from mainstay.controllers.deployment.expansion import EXPANSION_PAUSED
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Also, ChainLink, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.control import hold_found, not_done
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    broken,
    build_source,
    build_subject,
    clock,
    done,
    listed,
    said_by,
    sentence,
    shortened,
    waiting,
    written,
)
from mainstay.explain.why.pods import of_pod
from mainstay.explain.why.refusals import refusal_cause
from mainstay.explain.why.removal import Removal, leaving
from mainstay.explain.why.workload import (
    complete,
    find_desired,
    find_fight,
    find_worst,
    on_late_nodes,
    set_link,
    wanted_replicas,
)
from mainstay.explain.writers import Version

_A_MOMENT: Final = timedelta(seconds=2)


async def why_deployment(case: Case, deployment: Object) -> Finding:
    if is_leaving(deployment):
        return await leaving(case, DEPLOYMENTS, deployment)
    await case.moment.load([REPLICASETS, PODS, NODES])
    subject = build_subject(DEPLOYMENTS, deployment)
    versions = await case.versions(DEPLOYMENTS.text, subject.namespace, subject.name)
    wanted_since, desired = find_desired(deployment, versions)
    if (fight := find_fight(subject.words, versions, case.now)) is not None:
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
        seen = f"the last observed is {observed}" if observed else "none was observed"
        what = f"Generation {current} of {subject.words} is not observed yet: {seen}"
        found = await not_done(case, DEPLOYMENTS, deployment, "deployment", what, wanted_since)
        return found.after((desired,))
    links = [desired, await _controller(case, DEPLOYMENTS, deployment, "deployment", observed)]
    if not is_complete:
        if (hold := await _rollout_held(case, deployment, subject.words)) is not None and not _has_all(
            deployment, sets
        ):
            return hold.after(links)
        if spec.get("paused") and (
            new is None or int(status.get("updatedReplicas") or 0) < wanted_replicas(deployment)
        ):
            return _paused(deployment, versions, subject.words).after(links)
    if new is None:
        return (await _no_set(case, deployment, wanted_since)).after(links)
    old = [pod for each in sets if each is not new for pod in await case.owned(PODS, each["metadata"].get("uid", ""))]
    below = await case.hold_up(REPLICASETS, new, subject.words, _old_words(old))
    if below is not None:
        worst = await find_worst(case, [pod for pod in old if is_active(pod) and not is_ready(pod)])
        beside = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]), *worst[2])
        return _given_up(deployment, replace(below, also=(*below.also, *beside))).after(links)
    links.append(set_link(new))
    if is_complete:
        found = complete(case, DEPLOYMENTS, deployment, versions)
        return replace(found, also=await on_late_nodes(case, new)).after(links)
    if (evidence := find_condition(deployment, EXPANSION_PAUSED)) is not None:
        return _held_by_evidence(deployment, evidence, subject.words).after(links)
    return (await _rolling(case, deployment, new, sets, wanted_since)).after(links)


def _given_up(deployment: Object, found: Finding) -> Finding:
    """A rollout whose deadline has passed is not waited for any more, whatever it would still need."""
    said = find_condition(deployment, rollout_status.PROGRESSING)
    if said is None or said.get("status") != "False" or found.verdict is not Verdict.WAITING:
        return found
    link = broken("deadline", f"{said.get('reason')}: the rollout failed", said_by(deployment, said))
    return replace(found, verdict=Verdict.BLOCKED, chain=(*found.chain, link))


async def _controller(case: Case, kind: KindName, workload: Object, controller: str, observed: int) -> ChainLink:
    subject = build_subject(kind, workload)
    records = await case.records(kind.text, subject.namespace, subject.name, subject.uid)
    own = [each for each in records if each.component == controller and each.subject.generation == subject.generation]
    first = own[0] if own else None
    evidence = build_source(first) if first is not None else said_by(workload)
    reason = f": {first.reasons[0]}" if first is not None and first.reasons else ""
    return done("controller", f"{controller} observed generation {observed}{reason}", evidence)


async def _rollout_held(case: Case, deployment: Object, words: str) -> Finding | None:
    subject = build_subject(DEPLOYMENTS, deployment)
    for hold in await case.holds(DEPLOYMENTS, subject.name, subject.namespace):
        if hold.what is HoldScope.ROLLOUT:
            text = f"the rollout of {words} is held by {hold.owner} until {clock(hold.expires_at)}: {hold.reason}"
            return hold_found(hold, f"{text[0].upper()}{text[1:]} (Hold {hold.name})")
    return None


def _has_all(deployment: Object, sets: Sequence[Object]) -> bool:
    """Whether nothing but the number of pods differs from what is wanted: a Hold does not stop that."""
    return (
        len([each for each in sets if wanted_replicas(each)]) <= 1 and revisions.new_set(deployment, sets) is not None
    )


def _paused(deployment: Object, versions: Sequence[Version], words: str) -> Finding:
    paused = next(
        (each for each in reversed(versions) if any(change.path == ("spec", "paused") for change in each.changes)), None
    )
    by = f" by {paused.who.user or paused.who.name} at {clock(paused.at)}" if paused is not None else ""
    evidence = written(paused) if paused is not None else said_by(deployment)
    text = f"The rollout of {words} {'was' if by else 'is'} paused{by}: its new template is not rolled out"
    return Finding(
        cause=Cause.ROLLOUT_PAUSED,
        sentence=sentence(text),
        verdict=Verdict.BLOCKED,
        since=paused.at if paused is not None else None,
        chain=(broken("controller", f"paused{by}", evidence),),
    )


def _held_by_evidence(deployment: Object, said: Mapping[str, Any], words: str) -> Finding:
    message = str(said.get("message") or "")
    return Finding(
        cause=Cause.EXPANSION_PAUSED,
        sentence=sentence(f"The rollout of {words} is paused by evidence ({said.get('reason')}): {message}"),
        verdict=Verdict.WAITING,
        since=parse_time_or_none(said.get("lastTransitionTime")),
        chain=(waiting("evidence", f"{said.get('reason')}: {message}", said_by(deployment, said)),),
    )


async def _no_set(case: Case, deployment: Object, since: datetime | None) -> Finding:
    said = find_condition(deployment, rollout_status.PROGRESSING) or NOTHING
    words = build_subject(DEPLOYMENTS, deployment).words
    if said.get("reason") == rollout_status.CREATE_FAILED:
        message = str(said.get("message") or "")
        cause, verdict = refusal_cause(str(said.get("cause") or ""))
        text = f"{words} has no ReplicaSet for its template: {message}"
        return Finding(
            cause=cause,
            sentence=sentence(shortened(text, 360)),
            verdict=verdict,
            since=parse_time_or_none(said.get("lastTransitionTime")),
            chain=(broken("replicaset", shortened(message, 160), said_by(deployment, said)),),
        )
    what = f"{words} has no ReplicaSet for its template yet"
    return await not_done(case, DEPLOYMENTS, deployment, "deployment", what, since)


def _old_words(pods: Sequence[Object]) -> str:
    """What there is of former templates: `2 of 2 old pods are ready`."""
    active = [pod for pod in pods if is_active(pod)]
    ready = sum(is_ready(pod) for pod in active)
    if len(active) < 2:
        return f"the old pod is {'' if ready else 'not '}ready" if active else ""
    return f"{ready} of {len(active)} old pods {'is' if ready == 1 else 'are'} ready"


def _is_complete(deployment: Object, new: Object | None) -> bool:
    status, wanted = deployment.get("status") or NOTHING, wanted_replicas(deployment)
    numbers = [int(status.get(name) or 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
    return new is not None and all(number == wanted for number in numbers)


async def _rolling(
    case: Case, deployment: Object, new: Object, sets: Sequence[Object], since: datetime | None
) -> Finding:
    """All pods that are there are ready, and the rollout is not over."""
    words = build_subject(DEPLOYMENTS, deployment).words
    old = [each for each in sets if each is not new and wanted_replicas(each)]
    status = deployment.get("status") or NOTHING
    wanted = wanted_replicas(deployment)
    updated, available = int(status.get("updatedReplicas") or 0), int(status.get("availableReplicas") or 0)
    said = find_condition(deployment, rollout_status.PROGRESSING) or NOTHING
    moved = parse_time_or_none(said.get("lastUpdateTime")) or since
    stuck: Finding | None = None
    leftover = [
        pod for each in sets for pod in await case.owned(PODS, each["metadata"].get("uid", "")) if is_leaving(pod)
    ]
    if leftover and case.now - (moved or case.now) > _A_MOMENT:
        first = await of_pod(case, leftover[0], is_asked=False)
        if first.cause not in (Cause.TERMINATING, Cause.SCALED_DOWN, Cause.ROLLED_OVER):
            stuck = replace(first, about=build_subject(PODS, leftover[0]))
    if stuck is not None:
        return replace(stuck, sentence=shortened(f"The rollout of {words} waits: {stuck.sentence}", 400))
    if old and updated >= wanted and case.now - (moved or case.now) > timedelta(seconds=30):
        names = listed(each["metadata"]["name"] for each in old)
        what = f"The rollout of {words} is not complete: {names} still {'has' if len(old) == 1 else 'have'} pods"
        return await not_done(case, DEPLOYMENTS, deployment, "deployment", what, moved)
    text = f"{words} is rolling out: {updated} of {wanted} pods updated, {available} available"
    link = waiting("rollout", f"{updated} of {wanted} updated", said_by(deployment, said or None))
    return Finding(
        cause=Cause.ROLLING_OUT, sentence=sentence(text), verdict=Verdict.WAITING, since=moved, chain=(link,)
    )


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    text = "old ReplicaSets beyond revisionHistoryLimit are deleted"
    return Removal(Cause.ROLLED_OVER, text, (link,))


ROOM: Final = WhyRoom(analyser=why_deployment, remover=why_removed)
