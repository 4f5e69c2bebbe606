"""Why a namespace that was deleted is still there, and what went with it."""

from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    NAMESPACES,
)
from mainstay.api.kinds import BUILTIN
from mainstay.api.pod_state import find_condition, is_leaving, parse_time_or_none
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import ChainLink, Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
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
from mainstay.explain.why.removal import Removal, told_to_go
from mainstay.explain.writers import Version

_KINDS: Final = {kind.reference.text: kind.reference for kind in BUILTIN if kind.reference.namespaced}
"""What can be in a namespace, of the kinds that are always there."""


async def why_namespace(case: Case, namespace: Object) -> Finding:
    subject = build_subject(NAMESPACES, namespace)
    words, name = subject.words, subject.name
    if not is_leaving(namespace):
        link = done("namespace", "active", said_by(namespace))
        text = f"{words} is active"
        return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    versions = await case.versions(NAMESPACES.text, "", name)
    told = _told(versions)
    since = told.at if told is not None else parse_time_or_none(namespace["metadata"].get("deletionTimestamp"))
    by = f" by {told.who.user or told.who.name}" if told is not None else ""
    links = (done("deleted", f"at {clock(since)}{by}", *((written(told),) if told is not None else ())),)
    remaining = find_condition(namespace, "NamespaceContentRemaining") or NOTHING
    left = await _find_content(case, name)
    stuck = [(kind, obj) for kind in left for obj in left[kind] if obj["metadata"].get("finalizers")]
    if stuck:
        kind, obj = stuck[0]
        finalizers = [str(each) for each in obj["metadata"]["finalizers"]]
        which = f"{kind.kind} {obj['metadata']['name']}"
        more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
        word = "finalizer" if len(finalizers) == 1 else "finalizers"
        text = f"{words} was deleted{by} at {clock(since)} and waits for {which}{more}, which is blocked by {word} "
        text += f"{listed(finalizers)} (for {ago(since, case.now)})"
        link = broken("content", f"{which}: {listed(finalizers)}", said_by(obj), of=build_subject(kind, obj))
        return Finding(
            cause=Cause.FINALIZER_WAITING,
            sentence=sentence(text),
            verdict=Verdict.BLOCKED,
            since=since,
            about=build_subject(kind, obj),
            chain=(*links, link),
        )
    failed = find_condition(namespace, "NamespaceDeletionContentFailure") or NOTHING
    if failed.get("status") == "True":
        message = shortened(str(failed.get("message") or ""), 200)
        text = f"{words} was deleted{by}, but some of its content cannot be listed or deleted: {message}"
        link = broken("content", message, said_by(namespace, failed))
        return Finding(
            cause=Cause.NAMESPACE_TERMINATING, sentence=sentence(text), verdict=Verdict.WAITING, chain=(*links, link)
        )
    if not remaining and since is not None and case.now - since > timedelta(seconds=10):
        what = f"{words} was deleted{by} at {clock(since)} and is not empty yet"
        return (await not_done(case, NAMESPACES, namespace, "namespace", what, since)).after(links)
    counts = [f"{len(left[kind])} {kind.text}" for kind in left]
    rest = f"remaining: {listed(counts)}" if counts else str(remaining.get("message") or "nearly empty")
    text = f"{words} is terminating, deleted{by} at {clock(since)}: {rest}"
    link = waiting("content", rest, said_by(namespace, remaining or None))
    return Finding(
        cause=Cause.NAMESPACE_TERMINATING,
        sentence=sentence(text),
        verdict=Verdict.WAITING,
        since=since,
        chain=(*links, link),
    )


def _told(versions: list[Version]) -> Version | None:
    for each in versions:
        after = (each.after or NOTHING).get("metadata") or NOTHING
        before = (each.before or NOTHING).get("metadata") or NOTHING
        if after.get("deletionTimestamp") and not before.get("deletionTimestamp"):
            return each
    return None


async def _find_content(case: Case, namespace: str) -> dict[KindName, list[Object]]:
    """What is left in a namespace, by kind. What custom kinds have there, only the condition says."""
    await case.moment.load(_KINDS.values())
    found = {}
    for text in sorted(_KINDS):
        kind = _KINDS[text]
        there = [obj for obj in await case.all(kind) if obj["metadata"].get("namespace") == namespace]
        if there:
            found[kind] = there
    return found


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    """Why the namespace controller removed an object: its namespace is being deleted."""
    name = str(told.object["metadata"].get("namespace") or "")
    going = told_to_go(await case.versions(NAMESPACES.text, "", name), "")
    is_there = await case.get(NAMESPACES, name) is not None
    by = f" by {going.who.user or going.who.name} at {clock(going.at)}" if going is not None else ""
    text = f"its namespace {name} {'is being' if is_there and not by else 'was'} deleted{by}"
    involved = (Involved(going.who.user or going.who.name, f"deleted {name}", (written(going),)),) if going else ()
    return Removal(Cause.NAMESPACE_TERMINATING, text, (link,), involved)


ROOM: Final = WhyRoom(analyser=why_namespace, remover=why_removed)
