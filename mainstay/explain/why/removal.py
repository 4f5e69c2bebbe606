"""Who removed an object, and why; or why one that was told to go is still there.

The version in which `deletionTimestamp` appears says who told it to go; what comes after is only its end. The decision
behind that write, and the object that the decision had looked at, lead to the one who wanted it.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, NAMESPACES, NODES, PODS, REPLICASETS
from mainstay.api.kinds import BUILTIN
from mainstay.api.node_health import RELEASED
from mainstay.api.pod_state import condition_of, is_leaving, node_of, time_of
from mainstay.api.taints import NO_EXECUTE, taints_of, tolerations_of, untolerated
from mainstay.explain.why.answer import Involved, Link, Subject, Tier, Verdict
from mainstay.explain.why.case import OWNER_KINDS, Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.control import not_done
from mainstay.explain.why.found import (
    NOTHING,
    Found,
    ago,
    broken,
    clock,
    done,
    listed,
    said_by,
    sentence,
    shortened,
    subject_of,
    waiting,
    written,
)
from mainstay.explain.why.nodes import trouble_of
from mainstay.explain.writers import Version, parse_cause

FOREGROUND: Final = "foregroundDeletion"
OWNER_CLEANUP: Final = "owner-cleanup"
DEPTH_MAX: Final = 4  # From a Deployment to a pod it is two.
_SKIPPED: Final = ("events", "leases", "componentstates")
GRACE_EXTRA: Final = timedelta(seconds=10)
"""How much longer than its grace period a pod may take until its node has said that it has ended."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Why somebody told an object to go."""

    cause: Cause
    text: str
    """What comes after "was removed"/"is to go": without a full stop."""
    links: tuple[Link, ...] = ()
    involved: tuple[Involved, ...] = ()


async def leaving(case: Case, kind: KindName, obj: Object, *, is_told_why: bool = False) -> Found:
    """Why something that is to go is still there. `is_told_why`: who wanted it to go has been said."""
    subject = subject_of(kind, obj)
    metadata = obj["metadata"]
    versions = await case.versions(kind.text, subject.namespace, subject.name)
    told = _told_to_go(versions, subject.uid)
    removal = await _why(case, kind, told) if told is not None else None
    due = time_of(metadata.get("deletionTimestamp"))
    because = f" ({removal.text})" if removal is not None and not is_told_why else ""
    links = removal.links if removal is not None else ()
    involved = removal.involved if removal is not None else ()
    when = told.at if told is not None else due
    finalizers = [str(each) for each in metadata.get("finalizers") or ()]
    if FOREGROUND in finalizers and (below := await _last_of_those_below(case, subject)) is not None:
        text = f"{subject.words} was told to go at {clock(when)}{because}, and stays until what it owns is gone"
        found = await _not_gone(case, *below)
        is_usual = found.cause.tier is Tier.POLICY and found.verdict is Verdict.WAITING
        return replace(
            found,
            cause=Cause.TERMINATING if is_usual else found.cause,
            sentence=shortened(f"{text}. {found.sentence}", 420),
            since=when,
            about=subject_of(*below),
            chain=(*links, waiting("owned", subject_of(*below).words, said_by(below[1])), *found.chain),
            involved=(*involved, *found.involved),
        )
    if finalizers == [FOREGROUND]:
        what = f"{subject.words} was told to go at {clock(when)}{because}, and all that it owned is gone"
        found = await not_done(case, kind, obj, OWNER_CLEANUP, what, None)
        is_soon = found.cause is Cause.NOT_OBSERVED_YET
        return replace(found, cause=Cause.TERMINATING if is_soon else found.cause, since=when).after(links)
    pod_stays = kind.text == PODS.text and await _still_runs(case, obj)
    if finalizers and not pod_stays:
        text = f"{subject.words} was told to go at {clock(when)}{because}, and waits for "
        text += f"{listed(finalizers)}: nobody has removed that finalizer for {ago(when, case.now)}"
        if len(finalizers) > 1:
            text = text.replace("that finalizer", "these finalizers")
        return Found(
            cause=Cause.FINALIZER_WAITING,
            sentence=sentence(shortened(text, 360)),
            verdict=Verdict.BLOCKED,
            since=when,
            chain=(*links, broken("finalizers", listed(finalizers), said_by(obj))),
            involved=involved,
        )
    if kind.text == PODS.text and node_of(obj):
        trouble = await trouble_of(case, node_of(obj))
        if trouble is not None:
            text = f"{subject.words} is to go{because}, and nobody can say that it has ended: its node {trouble.text}"
            return Found(
                cause=trouble.cause if trouble.cause is not Cause.NODE_NOT_READY else Cause.STOP_NOT_CONFIRMED,
                sentence=sentence(shortened(text, 360)),
                verdict=Verdict.WAITING,
                since=when,
                chain=(*links, trouble.link),
                involved=involved,
            )
    if due is not None and case.now > due + GRACE_EXTRA and kind.text == PODS.text:
        text = f"{subject.words} is to go since {clock(when)}{because}, its time to end was over at {clock(due)}, "
        text += f"and {node_of(obj) or 'nobody'} has not said that it has ended"
        return Found(
            cause=Cause.STOP_NOT_CONFIRMED,
            sentence=sentence(shortened(text, 360)),
            verdict=Verdict.WAITING,
            since=due,
            chain=(*links, broken("agent", f"no word of its end since {clock(due)}", said_by(obj))),
            involved=involved,
        )
    left = f"it has until {clock(due)} to end" if due is not None and due > case.now else "it is about to be gone"
    return Found(
        cause=removal.cause if removal is not None and removal.cause is not Cause.DELETED else Cause.TERMINATING,
        sentence=sentence(shortened(f"{subject.words} is being removed{because}: {left}", 360)),
        verdict=Verdict.WAITING,
        since=when,
        chain=(*links, waiting("end", left, said_by(obj))),
        involved=involved,
    )


async def _last_of_those_below(case: Case, owner: Subject) -> tuple[KindName, Object] | None:
    """What an object waits for that goes only after all that it owns: the last in the line, those that are stuck first.

    None: nothing that it owns is there.
    """
    found: tuple[KindName, Object] | None = None
    uid = owner.uid
    for _ in range(DEPTH_MAX):
        below = await _owned_by(case, uid, owner.namespace)
        if not below:
            return found
        # Of several, those that wait for somebody, then those that have been told to go, then the others.
        found = min(below, key=lambda each: (_patience(each[1]), each[0].text, each[1]["metadata"]["name"]))
        uid = found[1]["metadata"].get("uid", "")
    return found


def _patience(obj: Object) -> int:
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        return 2
    return 0 if set(metadata.get("finalizers") or ()) else 1


async def _owned_by(case: Case, uid: str, namespace: str) -> list[tuple[KindName, Object]]:
    """All that names this owner: of the kinds that workloads own, and if there is none of these, of all kinds."""
    usual = [REPLICASETS, JOBS, PODS]
    others = [
        kind.reference for kind in BUILTIN if kind.reference not in usual and kind.reference.plural not in _SKIPPED
    ]
    for kinds in (usual, others):
        found = [
            (kind, each)
            for kind in kinds
            for each in await case.all(kind)
            if (each["metadata"].get("namespace") or "") == namespace
            and any(one.get("uid") == uid for one in each["metadata"].get("ownerReferences") or ())
        ]
        if found:
            return found
    return []


async def _not_gone(case: Case, kind: KindName, obj: Object) -> Found:
    """Why something stays that has to go before its owner can."""
    if is_leaving(obj):
        return await leaving(case, kind, obj, is_told_why=True)
    words = subject_of(kind, obj).words
    text = f"{words} has not been told to go yet"
    link = waiting("owner-cleanup", text, said_by(obj))
    return Found(cause=Cause.TERMINATING, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))


async def _still_runs(case: Case, pod: Object) -> bool:
    """Whether a pod may have containers that run: then its finalizers are not what it waits for."""
    if not node_of(pod) or (pod.get("status") or NOTHING).get("phase") in ("Succeeded", "Failed"):
        return False
    statuses = (pod.get("status") or NOTHING).get("containerStatuses") or ()
    if any("running" in (each.get("state") or NOTHING) for each in statuses):
        due = time_of(pod["metadata"].get("deletionTimestamp"))
        return due is None or case.now <= due + GRACE_EXTRA or await trouble_of(case, node_of(pod)) is not None
    return False


async def gone(case: Case, kind: KindName, name: str, namespace: str, versions: list[Version]) -> Found:
    """What became of an object that is not there any more."""
    end = versions[-1]
    obj = end.object
    subject = subject_of(kind, obj)
    told = _told_to_go(versions, subject.uid) or end
    removal = await _why(case, kind, told)
    on = f" from {node_of(obj)}" if kind.text == PODS.text and node_of(obj) else ""
    words = f"{kind.kind} {namespace + '/' if namespace else ''}{name}"
    text = f"{words} was removed{on} at {clock(told.at)}: {removal.text}"
    ended = done("gone", f"gone since {clock(end.at)}, said by {end.who.name}", written(end))
    return Found(
        cause=removal.cause,
        sentence=sentence(shortened(text, 400)),
        verdict=Verdict.SATISFIED,
        since=end.at,
        chain=(*removal.links, ended),
        involved=removal.involved,
    )


def _told_to_go(versions: list[Version], uid: str) -> Version | None:
    """The version in which it was first told to go."""
    for each in versions:
        after = (each.after or NOTHING).get("metadata") or NOTHING
        before = (each.before or NOTHING).get("metadata") or NOTHING
        if (
            after.get("deletionTimestamp")
            and not before.get("deletionTimestamp")
            and (not uid or after.get("uid") in (uid, None))
        ):
            return each
    return None


async def _why(case: Case, kind: KindName, told: Version) -> Removal:
    """From the write that told it to go, back to who wanted that."""
    told = await case.reasoned(told)
    obj, who = told.object, told.who
    link = done("removed", f"told to go by {who.name}" + (f" ({who.reason})" if who.reason else ""), written(told))
    match who.component:
        case "":
            pass
        case "node-health":
            return await _by_node_health(case, obj, told, link)
        case "replicaset":
            return await _by_replica_set(case, obj, told, link)
        case "job":
            return await _by_job(case, obj, told, link)
        case "owner-cleanup":
            return await _by_owner(case, obj, told, link)
        case "deployment":
            text = "the Deployment controller keeps only so many old ReplicaSets (revisionHistoryLimit)"
            return Removal(Cause.ROLLED_OVER, text, (link,))
        case "namespace":
            return await _by_namespace(case, obj, link)
        case "repair":
            text = f"its node {node_of(obj)} is not there any more, and repair removed it"
            return Removal(Cause.NODE_LOST, text, (link,))
        case "pod-garbage":
            return Removal(Cause.COMPLETED, "it had ended, and the oldest that have are removed", (link,))
        case component:
            reason = f" ({who.reason})" if who.reason else ""
            return Removal(Cause.DELETED, f"by {component}{reason}", (link,))
    disrupted = condition_of(obj, "DisruptionTarget")
    if who.subresource == "eviction" or (disrupted or NOTHING).get("reason") == "EvictionByEvictionAPI":
        return Removal(
            Cause.EVICTED, f"{who.name} evicted it", (link,), (Involved(who.name, "evicted it", (written(told),)),)
        )
    return Removal(
        Cause.DELETED, f"{who.name} deleted it", (link,), (Involved(who.name, "deleted it", (written(told),)),)
    )


async def _by_node_health(case: Case, obj: Object, told: Version, link: Link) -> Removal:
    name = node_of(obj)
    condition = condition_of(obj, "DisruptionTarget") or NOTHING
    said = str(condition.get("message") or told.who.reason or "")
    then = await _node_then(case, name, told.revision)
    taints = untolerated(taints_of(then), tolerations_of(obj.get("spec") or NOTHING), (NO_EXECUTE,)) if then else ()
    every = [taint for taint in taints_of(then) if taint.effect == NO_EXECUTE] if then else []
    if any(taint.key == RELEASED.key for taint in every):
        text = f"its node {name} was not heard of for so long that its pods are replaced"
        return Removal(Cause.NODE_LOST, text, (link,))
    named = listed(str(taint) for taint in (taints or every))
    text = f"{name} got the taint {named}, which it does not tolerate" if named else said or f"a taint of {name}"
    involved: tuple[Involved, ...] = ()
    versions = await case.versions(NODES.text, "", name)
    setting = [
        each
        for each in versions
        if each.revision <= told.revision and any("taints" in one.path for one in each.changes)
    ]
    if setting:
        who = setting[-1].who.name
        text += f"; {who} set it at {clock(setting[-1].at)}"
        involved = (Involved(who, f"set the taints of {name}", (written(setting[-1]),)),)
    return Removal(Cause.EVICTED_BY_TAINT, text, (link,), involved)


async def _node_then(case: Case, name: str, revision: int) -> Object | None:
    versions = [each for each in await case.versions(NODES.text, "", name) if each.revision <= revision]
    if versions:
        return versions[-1].after
    return await case.get(NODES, name)


async def _by_replica_set(case: Case, obj: Object, told: Version, link: Link) -> Removal:
    """Its set had too many: because it was scaled down, or because a newer template takes its place."""
    parsed = parse_cause(told.cause)
    owner = parsed[2] if parsed is not None else _owner_name(obj)
    namespace = obj["metadata"].get("namespace") or ""
    found = await set_shrunk(case, namespace, owner, told.revision) if owner else None
    if found is None:
        return Removal(Cause.SCALED_DOWN, f"ReplicaSet {owner} had too many pods", (link,))
    return replace(found, links=(*found.links, link))


async def set_shrunk(case: Case, namespace: str, name: str, until: int) -> Removal | None:
    """Why a ReplicaSet was last made smaller, up to a revision: somebody scaled it, or its Deployment, or rolled on."""
    shrunk = await _shrunk(case, REPLICASETS, namespace, name, until)
    if shrunk is None:
        return None
    before, after = _replicas(shrunk.before), _replicas(shrunk.after)
    text = f"ReplicaSet {name} was scaled from {before} to {after} by {shrunk.who.name} at {clock(shrunk.at)}"
    links: tuple[Link, ...] = (done("replicaset", text, written(shrunk)),)
    parsed = parse_cause(shrunk.cause)
    if shrunk.who.component != "deployment" or parsed is None:
        involved = (Involved(shrunk.who.name, f"scaled {name} from {before} to {after}", (written(shrunk),)),)
        return Removal(Cause.SCALED_DOWN, text, links, involved)
    deployment = parsed[2]
    smaller = await _shrunk(case, DEPLOYMENTS, namespace, deployment, shrunk.revision)
    newer = await _template_changed(case, namespace, deployment, shrunk.revision)
    if smaller is not None and (newer is None or newer.revision < smaller.revision):
        before, after = _replicas(smaller.before), _replicas(smaller.after)
        who = smaller.who.name
        text = f"{who} scaled Deployment {deployment} from {before} to {after} at {clock(smaller.at)}"
        links = (done("desired", text, written(smaller)), *links)
        return Removal(Cause.SCALED_DOWN, text, links, (Involved(who, f"scaled {deployment}", (written(smaller),)),))
    if newer is not None:
        who = newer.who.name
        text = f"Deployment {deployment} has a newer template since {clock(newer.at)}, set by {who}"
        links = (done("desired", text, written(newer)), *links)
        return Removal(Cause.ROLLED_OVER, text, links, (Involved(who, f"changed {deployment}", (written(newer),)),))
    return Removal(Cause.SCALED_DOWN, text, links)


async def _shrunk(case: Case, kind: KindName, namespace: str, name: str, until: int) -> Version | None:
    """The last version in which it wanted fewer replicas than before."""
    found = None
    for each in await case.versions(kind.text, namespace, name):
        if each.revision > until or each.before is None or each.after is None:
            continue
        if _replicas(each.after) < _replicas(each.before):
            found = each
    return found


async def _template_changed(case: Case, namespace: str, name: str, until: int) -> Version | None:
    found = None
    for each in await case.versions(DEPLOYMENTS.text, namespace, name):
        if each.revision <= until and each.before is not None and each.after is not None:
            before, after = each.before.get("spec") or NOTHING, each.after.get("spec") or NOTHING
            if before.get("template") != after.get("template"):
                found = each
    return found


def _replicas(obj: Object | None) -> int:
    value = ((obj or NOTHING).get("spec") or NOTHING).get("replicas")
    return 1 if value is None else int(value)


def _owner_name(obj: Object) -> str:
    for each in obj["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return str(each.get("name") or "")
    return ""


async def _by_namespace(case: Case, obj: Object, link: Link) -> Removal:
    name = str(obj["metadata"].get("namespace") or "")
    going = _told_to_go(await case.versions(NAMESPACES.text, "", name), "")
    is_there = await case.get(NAMESPACES, name) is not None
    by = f" by {going.who.user or going.who.name} at {clock(going.at)}" if going is not None else ""
    text = f"its namespace {name} {'is being' if is_there and not by else 'was'} deleted{by}"
    involved = (Involved(going.who.user or going.who.name, f"deleted {name}", (written(going),)),) if going else ()
    return Removal(Cause.NAMESPACE_TERMINATING, text, (link,), involved)


async def _by_job(case: Case, obj: Object, told: Version, link: Link) -> Removal:
    name = _owner_name(obj)
    if not name:  # It is the Job itself.
        seconds = (obj.get("spec") or NOTHING).get("ttlSecondsAfterFinished")
        text = f"it was over, and so are the {seconds} s that it stays after that (ttlSecondsAfterFinished)"
        return Removal(Cause.COMPLETED, text, (link,))
    job = await case.get(JOBS, name, obj["metadata"].get("namespace") or "") if name else None
    for each in ("FailureTarget", "Failed", "SuccessCriteriaMet", "Complete", "Suspended"):
        said = condition_of(job, each) if job is not None else None
        if said is not None and said.get("status") == "True" and each == "Suspended":
            return await _by_suspending(case, obj, name, link)
        if said is not None and said.get("status") == "True":
            text = f"Job {name} is over ({said.get('reason')}): {said.get('message')}"
            cause = {"Complete": Cause.COMPLETED, "SuccessCriteriaMet": Cause.COMPLETED}
            return Removal(cause.get(each, Cause.BACKOFF_LIMIT_EXCEEDED), shortened(text), (link,))
    reason = f" ({told.who.reason})" if told.who.reason else ""
    return Removal(Cause.SCALED_DOWN, f"Job {name} does not need it any more{reason}", (link,))


async def _by_suspending(case: Case, obj: Object, name: str, link: Link) -> Removal:
    versions = await case.versions(JOBS.text, obj["metadata"].get("namespace") or "", name)
    setting = [each for each in versions if any(one.path == ("spec", "suspend") for one in each.changes)]
    if not setting:
        return Removal(Cause.SUSPENDED, f"Job {name} is suspended", (link,))
    last = setting[-1]
    who = last.who.user or last.who.name
    text = f"{who} suspended Job {name} at {clock(last.at)}"
    links = (done("desired", text, written(last)), link)
    return Removal(Cause.SUSPENDED, text, links, (Involved(who, f"suspended {name}", (written(last),)),))


async def _by_owner(case: Case, obj: Object, told: Version, link: Link) -> Removal:
    """Its owner is gone: who removed that?"""
    namespace = obj["metadata"].get("namespace") or ""
    for reference in obj["metadata"].get("ownerReferences") or ():
        kind = OWNER_KINDS.get((str(reference.get("apiVersion") or "").rpartition("/")[0], str(reference.get("kind"))))
        name = str(reference.get("name") or "")
        text = f"its owner {reference.get('kind')} {name} is gone"
        if kind is None:
            return Removal(Cause.OWNER_DELETED, text, (link,))
        versions = await case.versions(kind.text, namespace, name)
        went = _told_to_go(versions, str(reference.get("uid") or "")) or next(
            (each for each in reversed(versions) if each.after is None), None
        )
        if went is None:
            return Removal(Cause.OWNER_DELETED, text, (link,))
        above = await _why(case, kind, went)
        text = f"its owner {reference.get('kind')} {name} was removed at {clock(went.at)}: {above.text}"
        return Removal(Cause.OWNER_DELETED, text, (*above.links, link), above.involved)
    return Removal(Cause.OWNER_DELETED, "its owner is gone", (link,))
