"""Why a ReplicaSet has not all its pods ready: from the generation that is wanted down to a pod.

    desired ─► controller ─► pods made ─► each pod (explain/why/pods.py) ─► ready

Also failures before a pod exists: a quota or an admission rule that refuses them. Of several pods that are not ready,
the answer names the gravest cause and counts the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, REPLICASETS
from mainstay.api.pod_state import find_condition, is_active, is_leaving, is_ready, parse_time_or_none
from mainstay.controllers.replicaset.controller import REPLICA_FAILURE
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Also, ChainLink, Involved
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause, gravity
from mainstay.explain.why.control import held, not_done
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    broken,
    build_source,
    build_subject,
    clock,
    count,
    done,
    said_by,
    sentence,
    shortened,
    written,
)
from mainstay.explain.why.pods import of_pod
from mainstay.explain.why.refusals import describe_policy, last_refused, refusal_cause
from mainstay.explain.why.removal import Removal, leaving, owner_name
from mainstay.explain.why.resource_quotas import freed
from mainstay.explain.why.workload import (
    complete,
    find_desired,
    find_fight,
    find_worst,
    on_late_nodes,
    scaled_to_zero,
    set_link,
    share,
    verbs_for,
    version_of_zero,
    wanted_replicas,
)
from mainstay.explain.writers import Version, parse_cause


async def why_replica_set(case: Case, replica_set: Object) -> Finding:
    if is_leaving(replica_set):
        return await leaving(case, REPLICASETS, replica_set)
    await case.moment.load([PODS, NODES])
    subject = build_subject(REPLICASETS, replica_set)
    versions = await case.versions(REPLICASETS.text, subject.namespace, subject.name)
    wanted_since, desired = find_desired(replica_set, versions)
    if (fight := find_fight(subject.words, versions, case.now)) is not None:
        return fight.after((desired,))
    observed = int((replica_set.get("status") or NOTHING).get("observedGeneration") or 0)
    if observed < subject.generation:
        what = f"Generation {subject.generation} of {subject.words} is not observed yet"
        return (await not_done(case, REPLICASETS, replica_set, "replicaset", what, wanted_since)).after((desired,))
    below = await hold_up(case, replica_set, subject.words)
    if below is not None:
        return below.after((desired,))
    found = await _complete(case, replica_set, versions)
    return replace(found, also=await on_late_nodes(case, replica_set)).after((desired,))


async def _complete(case: Case, replica_set: Object, versions: Sequence[Version]) -> Finding:
    last = None if wanted_replicas(replica_set) else version_of_zero(versions)
    if last is None:
        return complete(case, REPLICASETS, replica_set, versions)
    metadata = replica_set["metadata"]
    above = await _find_shrinking(case, metadata.get("namespace") or "", metadata["name"], last.revision)
    return scaled_to_zero(REPLICASETS, replica_set, versions, above)


# A set and its pods.


async def hold_up(case: Case, replica_set: Object, words: str, old: str = "") -> Finding | None:
    """Why a set has not all its pods ready; None if it has. `old`: what there is of former templates, in words."""
    wanted = wanted_replicas(replica_set)
    pods = await case.owned(PODS, replica_set["metadata"].get("uid", ""))
    active = [pod for pod in pods if is_active(pod)]
    link = set_link(replica_set)
    missing = wanted - len(active)
    troubled = await case.in_trouble(map(pod_state.get_node_name, pods))
    slow = [
        pod
        for pod in active
        if not is_ready(pod)
        or pod_state.get_node_name(pod) in troubled
        or case.rooms.containers().was_restarted_lately(pod, case.now)
    ]
    failed_ones = [
        pod for pod in pods if (pod.get("status") or NOTHING).get("phase") == "Failed" and not is_leaving(pod)
    ]
    worst = await find_worst(case, slow)
    if missing > 0:
        refused = await _not_made(case, replica_set, words, len(active), wanted, failed_ones)
        if refused is not None and (worst is None or gravity(refused.cause) <= gravity(worst[0].cause)):
            beside = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]),)
            return replace(refused, also=(*refused.also, *beside)).after((link,))
    if worst is None:
        return None
    found, number, also = worst
    pod = found.about
    made = done("pods", f"{len(active)} of {wanted} pods exist", said_by(replica_set))
    text = share(number, wanted, words, old, verbs_for(found.cause))
    text = f"{text}: {found.sentence}"
    return replace(found, sentence=shortened(text, 420), about=pod, also=also).after((link, made))


async def _not_made(
    case: Case, replica_set: Object, words: str, there: int, wanted: int, failed_ones: Sequence[Object]
) -> Finding | None:
    """Why pods are missing."""
    subject = build_subject(REPLICASETS, replica_set)
    what = f"{there} of {wanted} pods of {words} {'exists' if there == 1 else 'exist'}"
    hold = await held(case, REPLICASETS, replica_set, ("replicaset",), what)
    if hold is not None:
        return hold
    said = find_condition(replica_set, REPLICA_FAILURE)
    records = await case.records(REPLICASETS.text, subject.namespace, subject.name, subject.uid)
    own = [each for each in records if each.component == "replicaset"]
    evidence = [build_source(own[-1])] if own else []
    if said is not None and said.get("status") == "True" and said.get("reason") != "BackingOff":
        message = str(said.get("message") or "")
        cause, verdict = refusal_cause(str(said.get("cause") or ""))
        if (later := await freed(case, subject.namespace, last_refused(own), what, "replicaset")) is not None:
            return later
        rule = await describe_policy(case, last_refused(own))
        text = f"{what}, and the API server rejects more: {message}{rule}"
        return Finding(
            cause=cause,
            sentence=sentence(shortened(text, 400)),
            verdict=verdict,
            since=parse_time_or_none(said.get("lastTransitionTime")),
            chain=(broken("admission", shortened(message, 200), said_by(replica_set, said), *evidence),),
        )
    if failed_ones:
        last = max(failed_ones, key=lambda pod: (pod_state.created_at(pod), pod["metadata"]["name"]))
        found = await of_pod(case, last, is_asked=False)
        text = f"{what}: {count(len(failed_ones), 'pod')} failed, backing off. {found.sentence}"
        return replace(found, sentence=shortened(text, 420), about=build_subject(PODS, last))
    versions = await case.versions(REPLICASETS.text, subject.namespace, subject.name)
    since, _ = find_desired(replica_set, versions)
    found = await not_done(case, REPLICASETS, replica_set, "replicaset", what, since)
    if found.cause is Cause.NOT_OBSERVED_YET:
        return replace(found, cause=Cause.SCALING)
    return found


# The rollout.


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    """Its set had too many: because it was scaled down, or because a newer template takes its place."""
    obj, parsed = told.object, parse_cause(told.cause)
    owner = parsed[2] if parsed is not None else owner_name(obj)
    namespace = obj["metadata"].get("namespace") or ""
    found = await _find_shrinking(case, namespace, owner, told.revision) if owner else None
    if found is None:
        return Removal(Cause.SCALED_DOWN, f"ReplicaSet {owner} had too many pods", (link,))
    return replace(found, links=(*found.links, link))


async def _find_shrinking(case: Case, namespace: str, name: str, until: int) -> Removal | None:
    """Why a ReplicaSet was last made smaller, up to a revision: a user scaled it or its Deployment, or a rollout went
    on.
    """
    shrunk = await _find_smaller(case, REPLICASETS, namespace, name, until)
    if shrunk is None:
        return None
    before, after = wanted_replicas(shrunk.before or {}), wanted_replicas(shrunk.after or {})
    text = f"ReplicaSet {name} was scaled from {before} to {after} by {shrunk.who.name} at {clock(shrunk.at)}"
    links: tuple[ChainLink, ...] = (done("replicaset", text, written(shrunk)),)
    parsed = parse_cause(shrunk.cause)
    if shrunk.who.component != "deployment" or parsed is None:
        involved = (Involved(shrunk.who.name, f"scaled {name} from {before} to {after}", (written(shrunk),)),)
        return Removal(Cause.SCALED_DOWN, text, links, involved)
    deployment = parsed[2]
    smaller = await _find_smaller(case, DEPLOYMENTS, namespace, deployment, shrunk.revision)
    newer = await _find_template_change(case, namespace, deployment, shrunk.revision)
    if smaller is not None and (newer is None or newer.revision < smaller.revision):
        before, after = wanted_replicas(smaller.before or {}), wanted_replicas(smaller.after or {})
        who = smaller.who.name
        text = f"{who} scaled Deployment {deployment} from {before} to {after} at {clock(smaller.at)}"
        links = (done("desired", text, written(smaller)), *links)
        return Removal(Cause.SCALED_DOWN, text, links, (Involved(who, f"scaled {deployment}", (written(smaller),)),))
    if newer is not None:
        who = newer.who.name
        text = f"{who} changed the template of Deployment {deployment} at {clock(newer.at)}"
        links = (done("desired", text, written(newer)), *links)
        return Removal(Cause.ROLLED_OVER, text, links, (Involved(who, f"changed {deployment}", (written(newer),)),))
    return Removal(Cause.SCALED_DOWN, text, links)


async def _find_smaller(case: Case, kind: KindName, namespace: str, name: str, until: int) -> Version | None:
    """The last version in which it wanted fewer replicas than before."""
    found = None
    for each in await case.versions(kind.text, namespace, name):
        if each.revision > until or each.before is None or each.after is None:
            continue
        if wanted_replicas(each.after) < wanted_replicas(each.before):
            found = each
    return found


async def _find_template_change(case: Case, namespace: str, name: str, until: int) -> Version | None:
    found = None
    for each in await case.versions(DEPLOYMENTS.text, namespace, name):
        if each.revision <= until and each.before is not None and each.after is not None:
            before, after = each.before.get("spec") or NOTHING, each.after.get("spec") or NOTHING
            if before.get("template") != after.get("template"):
                found = each
    return found


ROOM: Final = WhyRoom(analyser=why_replica_set, hold_up=hold_up, remover=why_removed)
