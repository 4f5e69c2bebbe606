"""Who deleted an object, and why; or why one that was deleted is still there.

The version in which `deletionTimestamp` appears says who told it to go; what comes after is only its end. The decision
behind that write, and the object that the decision had looked at, lead to the one who wanted it.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import PODS
from mainstay.api.kinds import BUILTIN
from mainstay.api.pod_state import find_condition, get_node_name, is_leaving, parse_time_or_none
from mainstay.api.workloads import OWNED
from mainstay.explain.why.answer import AnswerObject, ChainLink, Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause, Tier
from mainstay.explain.why.control import not_done
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    ago,
    broken,
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
from mainstay.explain.writers import Version

FOREGROUND: Final = "foregroundDeletion"
OWNER_CLEANUP: Final = "owner-cleanup"
DEPTH_MAX: Final = 4  # From a Deployment to a pod it is two.
_SKIPPED: Final = ("events", "leases", "componentstates")
GRACE_EXTRA: Final = timedelta(seconds=10)
"""How much longer than its grace period a pod may take until its node confirms that it terminated."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Why an object was deleted."""

    cause: Cause
    text: str
    """What comes after "was deleted at 12:00:00": without a full stop. Of a plain deletion, `by` whom."""
    links: tuple[ChainLink, ...] = ()
    involved: tuple[Involved, ...] = ()

    @property
    def after_time(self) -> str:
        return f" {self.text}" if self.cause is Cause.DELETED else f" ({self.text})"


async def leaving(case: Case, kind: KindName, obj: Object, *, is_told_why: bool = False) -> Finding:
    """Why something that was deleted is still there. `is_told_why`: who deleted it has been said."""
    subject = build_subject(kind, obj)
    metadata = obj["metadata"]
    versions = await case.versions(kind.text, subject.namespace, subject.name)
    told = told_to_go(versions, subject.uid)
    removal = await why_told_to_go(case, told) if told is not None else None
    due = parse_time_or_none(metadata.get("deletionTimestamp"))
    because = removal.after_time if removal is not None and not is_told_why else ""
    links = removal.links if removal is not None else ()
    involved = removal.involved if removal is not None else ()
    when = told.at if told is not None else due
    finalizers = [str(each) for each in metadata.get("finalizers") or ()]
    if FOREGROUND in finalizers and (below := await _last_of_those_below(case, subject)) is not None:
        text = f"{subject.words} was deleted at {clock(when)}{because} and waits for its dependents"
        found = await _not_gone(case, *below)
        is_usual = found.cause.tier is Tier.POLICY and found.verdict is Verdict.WAITING
        return replace(
            found,
            cause=Cause.TERMINATING if is_usual else found.cause,
            sentence=shortened(f"{text}. {found.sentence}", 420),
            since=when,
            about=build_subject(*below),
            chain=(*links, waiting("owned", build_subject(*below).words, said_by(below[1])), *found.chain),
            involved=(*involved, *found.involved),
        )
    if finalizers == [FOREGROUND]:
        what = f"{subject.words} was deleted at {clock(when)}{because} and has no dependents left"
        found = await not_done(case, kind, obj, OWNER_CLEANUP, what, None)
        is_soon = found.cause is Cause.NOT_OBSERVED_YET
        return replace(found, cause=Cause.TERMINATING if is_soon else found.cause, since=when).after(links)
    pod_stays = kind.text == PODS.text and await _still_runs(case, obj)
    if finalizers and not pod_stays:
        word = "finalizer" if len(finalizers) == 1 else "finalizers"
        text = f"{subject.words} was deleted at {clock(when)}{because} and is blocked by {word} "
        text += f"{listed(finalizers)} (for {ago(when, case.now)})"
        return Finding(
            cause=Cause.FINALIZER_WAITING,
            sentence=sentence(shortened(text, 360)),
            verdict=Verdict.BLOCKED,
            since=when,
            chain=(*links, broken("finalizers", listed(finalizers), said_by(obj))),
            involved=involved,
        )
    if kind.text == PODS.text and get_node_name(obj):
        trouble = await case.find_trouble(get_node_name(obj))
        if trouble is not None:
            text = f"{subject.words} was deleted at {clock(when)}{because}, but no agent confirms that it terminated: "
            text += f"its node {trouble.text}"
            return Finding(
                cause=trouble.cause if trouble.cause is not Cause.NODE_NOT_READY else Cause.STOP_NOT_CONFIRMED,
                sentence=sentence(shortened(text, 360)),
                verdict=Verdict.WAITING,
                since=when,
                chain=(*links, trouble.link),
                involved=involved,
            )
    if due is not None and case.now > due + GRACE_EXTRA and kind.text == PODS.text:
        node = get_node_name(obj)
        missing = f"{node} has not confirmed" if node else "no node confirms"
        text = f"{subject.words} was deleted at {clock(when)}{because}, its grace period ended at {clock(due)}, "
        text += f"but {missing} that it terminated"
        return Finding(
            cause=Cause.STOP_NOT_CONFIRMED,
            sentence=sentence(shortened(text, 360)),
            verdict=Verdict.WAITING,
            since=due,
            chain=(*links, broken("agent", f"termination not confirmed since {clock(due)}", said_by(obj))),
            involved=involved,
        )
    left = f"its grace period ends at {clock(due)}" if due is not None and due > case.now else "its removal is due"
    return Finding(
        cause=removal.cause if removal is not None and removal.cause is not Cause.DELETED else Cause.TERMINATING,
        sentence=sentence(shortened(f"{subject.words} is terminating, deleted at {clock(when)}{because}: {left}", 360)),
        verdict=Verdict.WAITING,
        since=when,
        chain=(*links, waiting("end", left, said_by(obj))),
        involved=involved,
    )


async def _last_of_those_below(case: Case, owner: AnswerObject) -> tuple[KindName, Object] | None:
    """What an object waits for that goes only after all that it owns: the last in the line, those that are stuck first.

    None: nothing that it owns is there.
    """
    found: tuple[KindName, Object] | None = None
    uid = owner.uid
    for _ in range(DEPTH_MAX):
        below = await _owned_by(case, uid, owner.namespace)
        if not below:
            return found
        # Of several, those that wait for something, then those that are being deleted, then the others.
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
    usual = list(dict.fromkeys(OWNED.values()))
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


async def _not_gone(case: Case, kind: KindName, obj: Object) -> Finding:
    """Why something stays that has to go before its owner can."""
    if is_leaving(obj):
        return await leaving(case, kind, obj, is_told_why=True)
    words = build_subject(kind, obj).words
    text = f"{words} has not been deleted yet"
    link = waiting("owner-cleanup", text, said_by(obj))
    return Finding(cause=Cause.TERMINATING, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))


async def _still_runs(case: Case, pod: Object) -> bool:
    """Whether a pod may have containers that run: then its finalizers are not what it waits for."""
    if not get_node_name(pod) or (pod.get("status") or NOTHING).get("phase") in ("Succeeded", "Failed"):
        return False
    statuses = (pod.get("status") or NOTHING).get("containerStatuses") or ()
    if any("running" in (each.get("state") or NOTHING) for each in statuses):
        due = parse_time_or_none(pod["metadata"].get("deletionTimestamp"))
        return due is None or case.now <= due + GRACE_EXTRA or await case.find_trouble(get_node_name(pod)) is not None
    return False


async def gone(case: Case, kind: KindName, name: str, namespace: str, versions: list[Version]) -> Finding:
    """What became of an object that is not there any more."""
    end = versions[-1]
    obj = end.object
    subject = build_subject(kind, obj)
    told = told_to_go(versions, subject.uid) or end
    removal = await why_told_to_go(case, told)
    on = f" on {get_node_name(obj)}" if kind.text == PODS.text and get_node_name(obj) else ""
    words = f"{kind.kind} {namespace + '/' if namespace else ''}{name}"
    because = f" {removal.text}" if removal.cause is Cause.DELETED else f": {removal.text}"
    text = f"{words}{on} was deleted at {clock(told.at)}{because}"
    ended = done("removed", f"at {clock(end.at)} by {end.who.name}", written(end))
    return Finding(
        cause=removal.cause,
        sentence=sentence(shortened(text, 400)),
        verdict=Verdict.SATISFIED,
        since=end.at,
        chain=(*removal.links, ended),
        involved=removal.involved,
    )


def told_to_go(versions: list[Version], uid: str) -> Version | None:
    """The version in which it was first marked for deletion."""
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


async def why_told_to_go(case: Case, told: Version) -> Removal:
    """From the write that marked it for deletion, back to who wanted that."""
    told = await case.reasoned(told)
    obj, who = told.object, told.who
    link = done("deleted", f"by {who.name}" + (f" ({who.reason})" if who.reason else ""), written(told))
    remover = case.rooms.remover(who.component)
    if remover is not None:
        return await remover(case, told, link)
    if who.component:
        reason = f" ({who.reason})" if who.reason else ""
        return Removal(Cause.DELETED, f"by {who.component}{reason}", (link,))
    disrupted = find_condition(obj, "DisruptionTarget")
    if who.subresource == "eviction" or (disrupted or NOTHING).get("reason") == "EvictionByEvictionAPI":
        return Removal(
            Cause.EVICTED, f"evicted by {who.name}", (link,), (Involved(who.name, "evicted it", (written(told),)),)
        )
    return Removal(Cause.DELETED, f"by {who.name}", (link,), (Involved(who.name, "deleted it", (written(told),)),))


def owner_name(obj: Object) -> str:
    for each in obj["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            return str(each.get("name") or "")
    return ""
