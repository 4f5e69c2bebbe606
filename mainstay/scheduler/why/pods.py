"""Why a pod has no node: the last decision about it, replayed; and whether that still holds.

no decision yet             no scheduler is running, or it is behind, held, or another one is requested
no node takes it            the dominant one of the reasons (dominant_reason.py), with cures that were verified
one would now               the scheduler has not observed the change yet (staleness.py)
a node was found            but the binding was rejected, or got no answer
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from mainstay.api.causes import BindingCause
from mainstay.api.holds import SCHEDULER, HoldScope
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.pod_state import created_at, find_condition, parse_time_or_none
from mainstay.explain.placements import is_placement, node_chosen, policy_words
from mainstay.explain.rebuild import CannotRebuild
from mainstay.explain.why.answer import AnswerSource, ChainLink, CureFound, Staleness, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.components import AT_ONCE, ObservedComponent, components, no_scheduler
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    ago,
    broken,
    build_source,
    build_subject,
    clock,
    done,
    said_by,
    sentence,
    shortened,
    unknown,
    waiting,
    written,
)
from mainstay.explain.writers import SERVER, UNKNOWN_WHO
from mainstay.journal.record import DecisionRecord, Ending, moment
from mainstay.scheduler.component import SchedulerSettings
from mainstay.scheduler.report import POD_SCHEDULED, RETRYING, PodConditionReason
from mainstay.scheduler.why.placement import explained, scheduling
from mainstay.scheduler.why.refused_pod import UnplacedPod, cause_of_reason
from mainstay.scheduler.why.staleness import SOON

_REFUSED_BINDINGS: Final[Mapping[str, Cause]] = {
    BindingCause.QUOTA_EXCEEDED: Cause.ZONE_QUOTA_EXCEEDED,
    BindingCause.HELD_BY_GHOSTS: Cause.HELD_BY_GHOSTS,
    BindingCause.PORT_TAKEN: Cause.PORT_TAKEN,
    BindingCause.RESERVATION_HELD: Cause.RESERVED_ELSEWHERE,
}


async def unplaced(case: Case, pod: Object) -> Finding:
    """Why a pod that is there to stay has no node."""
    metadata = pod["metadata"]
    namespace, name, uid = metadata.get("namespace") or "", metadata["name"], metadata.get("uid", "")
    records = [each for each in await case.records(PODS.text, namespace, name, uid) if is_placement(each)]
    who = build_subject(PODS, pod).words
    held = await _held(case, pod, who)
    if not records:
        return held or _as_it_says(case, pod, who) or await _not_looked_at(case, pod, who)
    last = records[-1]
    links = _looked_at(records, case.now)
    if held is not None:
        return held.after(links)
    match last.outcome.reason:
        case PodConditionReason.UNSCHEDULABLE:
            return (await UnplacedPod(case, pod, who, records).found()).after(links)
        case "Unknown":
            return _unanswered(case, pod, who, records).after(links)
        case "NotDone":
            return _not_done(case, who, last).after(links)
        case "InternalError":
            text = f"{who} has no node: internal error of the scheduler ({shortened(last.outcome.message, 200)})"
            link = broken("scheduler", "internal error", build_source(last))
            failing = Cause.CONTROLLER_FAILING
            return Finding(cause=failing, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,)).after(links)
    if last.outcome.ending is Ending.DONE:
        node = node_chosen(last)
        text = f"{who} is being bound to {node}, chosen at {clock(moment(last.at))}"
        link = waiting("bind", f"to {node}", build_source(last))
        return Finding(cause=Cause.BEING_BOUND, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,)).after(
            links
        )
    return _binding_refused(case, who, records).after(links)


# No decision yet.


async def _held(case: Case, pod: Object, who: str) -> Finding | None:
    metadata = pod["metadata"]
    holds = await case.holds(PODS, metadata["name"], metadata.get("namespace") or "")
    for hold in holds:
        if hold.what is HoldScope.CONTROLLER and hold.target == SCHEDULER:
            text = f"{who} has no node, and {hold.words} (Hold {hold.name})"
            evidence = AnswerSource(source=f"Hold {hold.name}", revision=hold.revision)
            return Finding(
                cause=Cause.CONTROLLER_HELD,
                sentence=sentence(text),
                verdict=Verdict.WAITING,
                chain=(broken("scheduler", hold.words, evidence),),
                cures=(CureFound("release the Hold", command=f"mainstay release {hold.name}"),),
            )
    return None


async def _not_looked_at(case: Case, pod: Object, who: str) -> Finding:
    spec, created = pod.get("spec") or NOTHING, created_at(pod)
    wanted = spec.get("schedulerName") or ""
    revision = int(pod["metadata"].get("resourceVersion") or 0)
    if wanted and wanted not in SchedulerSettings().names:
        text = f'{who} requests scheduler "{wanted}", but no scheduler of that name has processed it'
        return Finding(
            cause=Cause.OTHER_SCHEDULER,
            sentence=sentence(text),
            verdict=Verdict.BLOCKED,
            chain=(broken("scheduler", f'none is called "{wanted}"', AnswerSource(source="spec", revision=revision)),),
        )
    age = case.now - created
    absent = await no_scheduler(case)
    if absent is not None and age > SOON:
        return Finding(
            cause=absent.cause,
            sentence=sentence(f"{who} has no node, and {absent.text}"),
            verdict=Verdict.BLOCKED if absent.cause is Cause.NO_SCHEDULER else Verdict.WAITING,
            since=absent.since,
            chain=(broken("scheduler", absent.text, *absent.evidence),),
        )
    schedulers = [each for each in await components(case) if each.is_scheduler]
    behind = [each for each in schedulers if _is_behind(each, created, revision)]
    if age > AT_ONCE and behind:
        slow = behind[0]
        seen = slow.revisions[PODS.text]
        text = (
            f"the scheduler {slow.name} has not observed {who} yet: it has seen pods up to revision {seen}, "
            f"and the pod was created at {revision}, {ago(created, case.now)} ago"
        )
        return Finding(
            cause=Cause.STALE_VIEW,
            sentence=sentence(text[0].upper() + text[1:]),
            verdict=Verdict.WAITING,
            chain=(waiting("scheduler", f"{slow.name} is at revision {seen} of pods", slow.evidence),),
            staleness=(Staleness(PODS.text, seen, revision, is_decisive=True),),
        )
    if age > AT_ONCE and schedulers and not any(_heard_since(each, created) for each in schedulers):
        last = max(schedulers, key=lambda each: (str(each.heard_at), each.name))
        heard = f"{last.name} was last active at {clock(last.heard_at)}, before the pod was created"
        text = f"no scheduler has processed it: {heard}"
        return Finding(
            cause=Cause.NO_SCHEDULER,
            sentence=sentence(f"{who} has no node, and {text}"),
            verdict=Verdict.BLOCKED,
            since=last.heard_at,
            chain=(broken("scheduler", text, last.evidence),),
        )
    text = f"{who} is in the scheduling queue since {clock(created)}"
    return Finding(
        cause=Cause.QUEUED,
        sentence=sentence(text),
        verdict=Verdict.WAITING,
        since=created,
        chain=(waiting("queue", f"for {ago(created, case.now)}", said_by(pod)),),
    )


def _as_it_says(case: Case, pod: Object, who: str) -> Finding | None:
    """It was refused by its own word, and the decision is not in the journal: sampled, lost or forgotten."""
    said = find_condition(pod, POD_SCHEDULED)
    if said is None or said.get("status") != "False":
        return None
    message, code = str(said.get("message") or ""), str(said.get("cause") or "")
    gap = f"the journal has no decision about {who}: this is from its condition {POD_SCHEDULED}"
    return Finding(
        cause=_REFUSED_BINDINGS.get(code) or cause_of_reason(code),
        sentence=sentence(shortened(f"{who} has no node: {message or said.get('reason')}", 360)),
        verdict=Verdict.INCOMPLETE,
        since=parse_time_or_none(said.get("lastTransitionTime")),
        chain=(unknown("filters", shortened(message, 160), said_by(pod, said)),),
        gaps=(gap,),
    )


def _is_behind(scheduler: ObservedComponent, created: datetime, revision: int) -> bool:
    """Whether it has said, since the pod was made, that it does not know of it."""
    said = scheduler.said_at
    return said is not None and said > created + SOON and scheduler.revisions.get(PODS.text, revision) < revision


def _heard_since(scheduler: ObservedComponent, created: datetime) -> bool:
    return scheduler.heard_at is not None and scheduler.heard_at > created


# There is a decision.


def _looked_at(records: list[DecisionRecord], now: datetime) -> tuple[ChainLink, ...]:
    last = records[-1]
    waited = last.queue_wait_us / 1000
    tried = f"{len(records)} attempts, the last" if len(records) > 1 else "1 attempt,"
    queue = done("queue", f"{tried} {ago(moment(last.at), now)} ago after {waited:.0f} ms in the queue")
    seen = ", ".join(f"{each.kind.partition('.')[0]} {each.revision}" for each in last.view)
    return queue, done("view", f"{last.component} had seen: {seen}{policy_words(last)}", build_source(last))


def _unanswered(case: Case, pod: Object, who: str, records: list[DecisionRecord]) -> Finding:
    last, said = records[-1], find_condition(pod, RETRYING)
    node = node_chosen(last)
    since = parse_time_or_none((said or NOTHING).get("lastTransitionTime")) or moment(last.at)
    # How often it was asked is not recorded: all the tries are one decision.
    text = (
        f"{who} is being bound to {node} since {clock(since)}, but the API server does not answer (last request at "
        f"{clock(moment(last.at))}): the scheduler checks the outcome and retries"
    )
    evidence = [build_source(last), *([said_by(pod, said)] if said is not None else [])]
    link = broken("bind", f"to {node}: {shortened(last.outcome.message, 120)}", *evidence)
    return Finding(
        cause=Cause.API_UNAVAILABLE, sentence=sentence(text), verdict=Verdict.WAITING, since=since, chain=(link,)
    )


def _not_done(case: Case, who: str, last: DecisionRecord) -> Finding:
    message = shortened(last.outcome.message, 160)
    text = f"{who} is not bound to {node_chosen(last)}: the API server did not accept the binding: {message}"
    return Finding(
        cause=Cause.API_UNAVAILABLE,
        sentence=sentence(text),
        verdict=Verdict.WAITING,
        chain=(broken("bind", message, build_source(last)),),
    )


def _binding_refused(case: Case, who: str, records: list[DecisionRecord]) -> Finding:
    # Of a pod that was refused wherever it fits, the last refusal that a server gave says why.
    last = next((each for each in reversed(records) if node_chosen(each)), records[-1])
    reason, node = last.outcome.reason, node_chosen(last)
    same = [each for each in records if each.outcome.reason == reason]
    message = shortened(last.outcome.message, 200)
    times = f", {len(same)} times" if len(same) > 1 else ""
    text = f"{who} was scheduled to {node}, but the API server rejected the binding{times} ({reason}): {message}"
    cause = _REFUSED_BINDINGS.get(reason, Cause.BINDING_REFUSED)
    return Finding(
        cause=cause,
        sentence=sentence(text),
        verdict=Verdict.WAITING,
        chain=(broken("bind", f"{node}: {reason}", build_source(last)),),
    )


# A node was found.


async def placed(case: Case, pod: Object) -> tuple[ChainLink, ...]:
    """How a pod came to its node, as links."""
    metadata, node = pod["metadata"], str((pod.get("spec") or NOTHING).get("nodeName") or "")
    uid = metadata.get("uid", "")
    records = [
        each
        for each in await case.records(PODS.text, metadata.get("namespace") or "", metadata["name"], uid)
        if is_placement(each)
    ]
    chosen = next((each for each in reversed(records) if each.outcome.ending is Ending.DONE), None)
    if chosen is None:
        said = find_condition(pod, "PodScheduled")
        if records:
            return (
                unknown(
                    "scheduler", f"bound to {node}; the result of its binding is not in the journal", said_by(pod, said)
                ),
            )
        return (await _placed_by_others(case, pod, node),)
    text = f"{chosen.component} chose {node}{policy_words(chosen)}"
    text += f" at attempt {len(records)}" if len(records) > 1 else ""
    try:
        placement = explained(await scheduling(case.journal, chosen, case.past))
    except CannotRebuild:
        return (done("scheduler", text, build_source(chosen)),)
    fitting = len(placement.scores)
    text += f": {fitting} of {len(placement.verdicts)} nodes fit"
    if placement.chosen == node and placement.alternatives:
        second, points = placement.alternatives[0]
        text += f"; score {placement.totals[node]}, next {second} with {points}"
    return (done("scheduler", text, build_source(chosen)),)


async def _placed_by_others(case: Case, pod: Object, node: str) -> ChainLink:
    """How a pod came to its node of which no decision is known: by a user, or that is not recorded here."""
    metadata, said = pod["metadata"], find_condition(pod, "PodScheduled")
    for version in await case.versions(PODS.text, metadata.get("namespace") or "", metadata["name"]):
        is_it = version.after is not None and version.after["metadata"].get("uid") == metadata.get("uid")
        if not is_it or version.is_first_known or not _node_in(version.after) or _node_in(version.before):
            continue
        who = version.who
        if version.before is None:
            return done("scheduler", f"created with nodeName {node} by {who.name}, not scheduled", written(version))
        if who.decision or who.name in (UNKNOWN_WHO.name, SERVER):
            by = f" by {who.name}" if who.decision else ""
            return unknown("scheduler", f"bound to {node}{by}; the reason is not in the journal", written(version))
        return done("scheduler", f"bound to {node} by {who.name}, not by a scheduler", written(version))
    text = f"on {node}; the journal does not go back to its binding"
    return unknown("scheduler", text, said_by(pod, said))


def _node_in(pod: Object | None) -> str:
    return str(((pod or NOTHING).get("spec") or NOTHING).get("nodeName") or "")
