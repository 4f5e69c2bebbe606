"""Why a namespace that was deleted is still there, and what went with it."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    NAMESPACES,
)
from mainstay.api.kinds import BUILTIN
from mainstay.api.pod_state import condition_of, is_leaving, time_of
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Involved, Link, Verdict
from mainstay.explain.why.case import Case
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
from mainstay.explain.why.removal import Removal, told_to_go
from mainstay.explain.writers import Version

_LEFT: Final = re.compile(r"([a-z0-9.-]+) \((\d+)\)")
_KINDS: Final = {kind.reference.text: kind.reference for kind in BUILTIN}


# Namespaces.


async def why_namespace(case: Case, namespace: Object) -> Found:
    subject = subject_of(NAMESPACES, namespace)
    words, name = subject.words, subject.name
    if not is_leaving(namespace):
        link = done("namespace", "active", said_by(namespace))
        text = f"{words} is active"
        return Found(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    versions = await case.versions(NAMESPACES.text, "", name)
    told = _told(versions)
    since = told.at if told is not None else time_of(namespace["metadata"].get("deletionTimestamp"))
    by = f" by {told.who.user or told.who.name}" if told is not None else ""
    links = (done("removed", f"told to go{by} at {clock(since)}", *((written(told),) if told is not None else ())),)
    remaining = condition_of(namespace, "NamespaceContentRemaining") or NOTHING
    left = {kind: int(number) for kind, number in _LEFT.findall(str(remaining.get("message") or ""))}
    stuck = await _with_finalizers(case, name, left)
    if stuck:
        kind, obj, finalizers = stuck[0]
        which = f"{kind.kind} {obj['metadata']['name']}"
        more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
        text = f"{words} is being deleted{by} since {clock(since)}, and {which}{more} waits for "
        text += f"{listed(finalizers)}: nobody has removed that finalizer for {ago(since, case.now)}"
        link = broken("content", f"{which}: {listed(finalizers)}", said_by(obj), of=subject_of(kind, obj))
        return Found(
            cause=Cause.FINALIZER_WAITING,
            sentence=sentence(text),
            verdict=Verdict.BLOCKED,
            since=since,
            about=subject_of(kind, obj),
            chain=(*links, link),
        )
    failed = condition_of(namespace, "NamespaceDeletionContentFailure") or NOTHING
    if failed.get("status") == "True":
        message = shortened(str(failed.get("message") or ""), 200)
        text = f"{words} is being deleted{by}, and not all that is in it can be listed or removed: {message}"
        link = broken("content", message, said_by(namespace, failed))
        return Found(
            cause=Cause.NAMESPACE_TERMINATING, sentence=sentence(text), verdict=Verdict.WAITING, chain=(*links, link)
        )
    if not remaining and since is not None and case.now - since > timedelta(seconds=10):
        what = f"{words} is being deleted{by} since {clock(since)}"
        return (await not_done(case, NAMESPACES, namespace, "namespace", what, since)).after(links)
    rest = f"still there: {listed(f'{number} {kind}' for kind, number in left.items())}" if left else "nearly empty"
    text = f"{words} is being deleted{by} since {clock(since)}: {rest}"
    link = waiting("content", rest, said_by(namespace, remaining or None))
    return Found(
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


async def _with_finalizers(
    case: Case, namespace: str, left: Mapping[str, int]
) -> list[tuple[KindName, Object, list[str]]]:
    """What is left in a namespace and waits for somebody."""
    found = []
    for text in sorted(left):
        kind = _KINDS.get(text)
        if kind is None:
            continue
        for obj in await case.all(kind):
            metadata = obj["metadata"]
            if metadata.get("namespace") == namespace and metadata.get("finalizers"):
                found.append((kind, obj, [str(each) for each in metadata["finalizers"]]))
    return found


# Quotas.


# Services and budgets.


async def why_removed(case: Case, told: Version, link: Link) -> Removal:
    """Why the namespace controller removed an object: its namespace is being deleted."""
    name = str(told.object["metadata"].get("namespace") or "")
    going = told_to_go(await case.versions(NAMESPACES.text, "", name), "")
    is_there = await case.get(NAMESPACES, name) is not None
    by = f" by {going.who.user or going.who.name} at {clock(going.at)}" if going is not None else ""
    text = f"its namespace {name} {'is being' if is_there and not by else 'was'} deleted{by}"
    involved = (Involved(going.who.user or going.who.name, f"deleted {name}", (written(going),)),) if going else ()
    return Removal(Cause.NAMESPACE_TERMINATING, text, (link,), involved)


ROOM: Final = WhyRoom(analyser=why_namespace, remover=why_removed)
