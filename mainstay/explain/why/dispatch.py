"""`why`: from a kind to who knows about it; and what is the same for all answers."""

from typing import Final

from msgspec.structs import replace

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    NODES,
    PODS,
    RESOURCE_QUOTAS,
)
from mainstay.api.pod_state import find_condition, get_node_name, is_leaving
from mainstay.api.unenforced_search import find_kind_text, find_runner, find_unenforced
from mainstay.explain.moment import Moment, NoSuchMoment
from mainstay.explain.registry import Rooms
from mainstay.explain.why.answer import AnswerObject, Verdict, WhyAnswer
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import MEANINGS, Cause
from mainstay.explain.why.changes import cause_of_refusal, list_mutations, with_refused_change
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
    unknown,
)
from mainstay.explain.why.pods import of_pod
from mainstay.explain.why.removal import gone, leaving
from mainstay.explain.why.resource_quotas import why_resource_quota
from mainstay.journal.answers import Extent
from mainstay.journal.record import Ending
from mainstay.journal.record import moment as read_time

_BAD: Final = frozenset({("Stalled", "True"), ("Ready", "False"), ("Available", "False")})


async def why(
    moment: Moment, rooms: Rooms, kind: KindName, name: str, namespace: str = "", generation: int | None = None
) -> WhyAnswer:
    """Why an object is as it is at a moment. Raises `JournalUnreachable`.

    With a `generation` that is over: how it stood when the next one came. Raises `NoSuchMoment` if there never was one
    of that number.
    """
    case = await Case.at(moment, rooms)
    obj = await case.get(kind, name, namespace)
    known = obj if obj is not None or generation is None else await _last_known(case, kind, name, namespace)
    if known is not None and generation is not None:
        current = int(known["metadata"].get("generation") or 0)
        if 0 < generation < current:
            return await _of_generation(case, kind, name, namespace, generation, current)
        if generation != current:
            words = build_subject(kind, known).words
            last = f"the {'last' if obj is None else 'current'} one is {current}"
            hint = last if current else f"{kind.plural} have no generations"
            raise NoSuchMoment(f"generation {generation} of {words} not found: {hint}")
    if obj is None:
        found, subject = await _not_there(case, kind, name, namespace)
    else:
        subject = build_subject(kind, obj)
        found = await with_refused_change(case, kind, obj, await _found(case, kind, obj))
        found = found.with_notes(await _list_unenforced(case, kind, obj))
        found = found.with_notes(await list_mutations(case, kind, obj))
    return _answer(case, subject, found)


async def _last_known(case: Case, kind: KindName, name: str, namespace: str) -> Object | None:
    """An object that is gone, as it was."""
    versions = await case.versions(kind.text, namespace, name)
    return versions[-1].object if versions else None


async def _of_generation(
    case: Case, kind: KindName, name: str, namespace: str, generation: int, current: int
) -> WhyAnswer:
    """How a generation stood just before the next one."""
    for version in await case.versions(kind.text, namespace, name):
        after = ((version.after or NOTHING).get("metadata") or NOTHING).get("generation")
        before = ((version.before or NOTHING).get("metadata") or NOTHING).get("generation")
        if before == generation and after is not None and after > generation:
            then = await Moment.at_revision(case.journal, version.revision - 1)
            answer = await why(then, case.rooms, kind, name, namespace)
            by = f"at {clock(version.at)} by {version.who.user or version.who.name}"
            note = f"generation {generation} was replaced by {after} {by}: this is its last state"
            return replace(answer, notes=(note, *answer.notes))
    gap = f"the state of generation {generation} is not in the journal: this is generation {current}"
    answer = await why(case.moment, case.rooms, kind, name, namespace)
    return replace(answer, verdict=Verdict.INCOMPLETE, gaps=(gap, *answer.gaps))


async def _found(case: Case, kind: KindName, obj: Object) -> Finding:
    if kind.text == PODS.text:
        return await of_pod(case, obj)
    if kind.text == RESOURCE_QUOTAS.text:
        return await why_resource_quota(case, obj)
    analyser = case.rooms.analyser(kind.text)
    return await (_of_any(case, kind, obj) if analyser is None else analyser(case, obj))


async def _of_any(case: Case, kind: KindName, obj: Object) -> Finding:
    """What can be said of an object of any kind: whether it was deleted, and what its conditions say."""
    if is_leaving(obj):
        return await leaving(case, kind, obj)
    subject = build_subject(kind, obj)
    words = subject.words
    if (said := find_kind_text(kind)) and not _has_controller(obj):
        missing, _, advice = said.partition(": ")
        link = broken("controller", f"none for {kind.plural}", said_by(obj))
        return Finding(
            cause=Cause.NO_CONTROLLER,
            sentence=sentence(f"{words} is stored but not acted on: {missing}"),
            verdict=Verdict.BLOCKED,
            chain=(link,),
            advice=f"{advice[:1].upper()}{advice[1:]}.",
        )
    for each in (obj.get("status") or NOTHING).get("conditions") or ():
        if (each.get("type"), each.get("status")) in _BAD:
            reason = f"{each.get('type')}={each.get('status')} ({each.get('reason')}): {each.get('message')}"
            link = broken("condition", shortened(reason, 160), said_by(obj, each))
            cause = Cause.CONTROLLER_FAILING if each.get("type") == "Stalled" else Cause.NOT_READY_YET
            text = sentence(shortened(f"{words} reports {reason}"))
            return Finding(cause=cause, sentence=text, verdict=Verdict.WAITING, chain=(link,))
    observed = (obj.get("status") or NOTHING).get("observedGeneration")
    if observed is not None and subject.generation and int(observed) < subject.generation:
        text = f"generation {subject.generation} of {words} is not observed yet: the last observed is {observed}"
        link = broken("controller", f"observed generation {observed}", said_by(obj))
        return Finding(
            cause=Cause.NOT_OBSERVED_YET,
            sentence=sentence(text[0].upper() + text[1:]),
            verdict=Verdict.WAITING,
            chain=(link,),
        )
    ready = find_condition(obj, "Ready")
    text = f"{words} exists, and no condition reports a problem"
    link = done("object", "exists", said_by(obj, ready))
    return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))


def _has_controller(obj: Object) -> bool:
    """Whether some controller, of the user's own, has begun to report on an object."""
    status = obj.get("status") or NOTHING
    is_reported = any(status.get(name) for name in ("observedGeneration", "conditions"))
    return is_reported or status.get("phase") not in (None, "", "Pending")


async def _list_unenforced(case: Case, kind: KindName, obj: Object) -> tuple[str, ...]:
    """Which fields of an object nothing acts on. Of a pod, only where its node has that runner."""
    runners: list[str] = []
    if kind.text == PODS.text and (node_name := get_node_name(obj)):
        node = await case.get(NODES, node_name)
        runners = [find_runner(node)] if node is not None else []
    return tuple(str(each) for each in find_unenforced(kind.group, kind.plural, obj, runners) if each.path)


async def _not_there(case: Case, kind: KindName, name: str, namespace: str) -> tuple[Finding, AnswerObject]:
    """It was deleted; or it was rejected; or it never existed, as far as is known."""
    versions = await case.versions(kind.text, namespace, name)
    subject = AnswerObject(kind=kind.kind, name=name, namespace=namespace, type=kind.text)
    records = await case.records(kind.text, namespace, name)
    # What a controller is refused while something goes is not what became of it.
    refused = [each for each in records if each.outcome.ending is Ending.REFUSED and not (versions and each.parent)]
    if versions and (not refused or read_time(refused[-1].at) < versions[-1].at):
        was = build_subject(kind, versions[-1].object)
        return await gone(case, kind, name, namespace, versions), was
    if refused:
        last = refused[-1]
        cause, verdict = cause_of_refusal(last)
        times = f" ({count(last.attempts, 'time')})" if last.attempts > 1 else ""
        asked = f"{last.user or 'an unknown user'} requested it at {clock(read_time(last.at))}{times}"
        text = f"{subject.words} does not exist: {asked}, and the API server rejected it: "
        link = broken("admission", f"{last.outcome.reason}: {shortened(last.outcome.message, 200)}", build_source(last))
        found = Finding(
            cause=cause,
            sentence=sentence(shortened(text + last.outcome.message, 420)),
            verdict=verdict,
            since=read_time(last.at),
            chain=(link,),
        )
        return found, subject
    extent = await case.journal.extent()
    begins = extent.recorded[0][0] if extent.recorded else 0
    text = f"{subject.words} not found, nor in the journal{_span(extent, case)}"
    if begins > 1:
        case.gaps[f"the journal begins at revision {begins}"] = None
    link = unknown("object", "no such object")
    found = Finding(cause=Cause.NO_SUCH_OBJECT, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))
    return found, subject


def _span(extent: Extent, case: Case) -> str:
    """From when to when a journal was searched: since it begins, and of a past moment only up to that."""
    if not extent.first_at:
        return ""
    first = read_time(extent.first_at)
    begins = clock(first) if first.date() == case.now.date() else f"{first:%Y-%m-%d %H:%M:%S}"
    is_past = case.moment.revision < extent.reached
    return f" ({begins} to {clock(case.now)})" if is_past else f" (since {begins})"


def _answer(case: Case, subject: AnswerObject, found: Finding) -> WhyAnswer:
    gaps = tuple(dict.fromkeys((*found.gaps, *case.miss())))
    verdict = found.verdict
    if found.cause is Cause.NOT_RECORDED:
        verdict = Verdict.INCOMPLETE
    return WhyAnswer(
        subject=subject,
        revision=case.moment.revision,
        at=case.now,
        verdict=verdict,
        cause=found.cause,
        tier=found.cause.tier,
        sentence=found.sentence,
        about=found.about,
        since=found.since,
        chain=found.chain,
        nodes=found.nodes,
        each_node=found.each_node,
        cures=found.cures,
        involved=found.involved,
        staleness=found.staleness,
        also=found.also,
        gaps=gaps,
        notes=tuple(dict.fromkeys((*found.notes, *case.notes, *case.known.notes))),
        advice="" if verdict is Verdict.SATISFIED else found.advice or MEANINGS[found.cause].advice,
    )
