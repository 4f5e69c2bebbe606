"""Lines of a story from what is recorded: a version of an object, a decision, an Event. Plain functions."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.annotations import DECISION
from mainstay.api.kind_names import PODS
from mainstay.api.workloads import WORKLOADS
from mainstay.explain.fields import shown
from mainstay.explain.placements import is_placement, policy_words
from mainstay.explain.story.lines import Stale, StoryLine, StoryLink, StoryObject
from mainstay.explain.words import RESTART, VERDICT, LineKind, LineText, made, said
from mainstay.explain.writers import Version, Who, parse_cause
from mainstay.journal.record import DecisionRecord, Ending, moment

OBSERVED_LATE: Final = timedelta(milliseconds=500)
"""A change that a component sees later than this is told of: it decided on an old picture meanwhile."""

BACK_OFF: Final = "BackOff"
_FOLLOWS: Final = ("Ready", "ContainersReady")
"""Conditions of a pod that follow from how its containers are."""
_OF_POD: Final = re.compile(r" pod=\S+")


def lines_of_version(version: Version, *, spec_only: bool = False) -> list[StoryLine]:
    """What a write says: a line for each sort of thing. With `spec_only`, only what is wanted, not what is reported."""
    if version.is_first_known:
        return []
    about = StoryObject(version.kind, version.key.name, version.key.namespace)
    causes = find_links(version)

    def line(what: LineKind, text: str, *, is_detail: bool = False, is_verdict: bool = False) -> StoryLine:
        return StoryLine(
            at=version.at,
            what=what,
            about=about,
            text=text,
            who=version.who,
            revision=version.revision,
            decision=version.who.decision,
            causes=causes,
            details=tuple(f"changed by policy: {each}" for each in version.who.mutations),
            is_detail=is_detail,
            is_verdict=is_verdict,
        )

    if version.after is None:
        return [line(LineKind.REMOVED, "is removed")]
    if version.before is None:
        words = made(version.kind, version.after)
        return [line(words.what, words.text)]
    changes = version.changes
    if spec_only:
        changes = [
            each for each in changes if each.path[0] != "status" and each.path[:2] != ("metadata", "annotations")
        ]
    found: dict[tuple[LineKind, bool], list[LineText]] = {}
    for each in said(version.kind, changes):
        found.setdefault((each.what, each.is_detail), []).append(each)
    if (started := found.pop((LineKind.STARTED, False), None)) is not None:
        # Mostly one write says both.
        key = (LineKind.READY, False) if (LineKind.READY, False) in found else (LineKind.STARTED, False)
        found[key] = [*started, *found.get(key, ())]
    if version.kind == PODS.text:
        _say_once(found)
    return [
        line(
            what,
            _without_pod("; ".join([each.text for each in texts])),
            is_detail=is_detail,
            is_verdict=texts[0].topic == VERDICT,
        )
        for (what, is_detail), texts in found.items()
    ]


def _say_once(found: dict[tuple[LineKind, bool], list[LineText]]) -> None:
    """Of a pod whose container exited, is waiting or restarted, one line of each write is enough."""
    failed = found.get((LineKind.FAILED, False))
    if failed is None:
        return
    if (LineKind.READY, False) in found and all(each.topic == RESTART for each in failed):
        # It has failed before this write, and is healthy again with it.
        found[LineKind.READY, False] = [*found.pop((LineKind.FAILED, False)), *found[LineKind.READY, False]]
        return
    conditions = found.pop((LineKind.CONDITION, False), [])
    follows = [each for each in conditions if each.topic in _FOLLOWS]
    if follows:
        found.setdefault((LineKind.CONDITION, True), []).extend(follows)
    if others := [each for each in conditions if each.topic not in _FOLLOWS]:
        found[LineKind.CONDITION, False] = others


def _without_pod(text: str) -> str:
    """The agent's words without the pod, which the line names: then they are the same for all pods."""
    return _OF_POD.sub("", text)


def find_links(version: Version) -> tuple[StoryLink, ...]:
    """What led to a write: the decision it came from, and what that had read."""
    links = []
    if version.who.decision:
        links.append(StoryLink(version.who.decision, decision=version.who.decision))
    if cause := parse_cause(version.cause):
        kind, namespace, name, revision = cause
        links.append(StoryLink(f"{StoryObject(kind, name, namespace).words}@{revision}", revision=revision))
    return tuple(links)


# Decisions.


def find_component(record: DecisionRecord) -> Who:
    return Who(
        record.component,
        component=record.component,
        decision=record.id,
        reason=record.outcome.reason or (record.reasons[0] if record.reasons else ""),
        trace=record.trace,
        audit=record.audits[0] if record.audits else "",
    )


def queued_line(record: DecisionRecord) -> StoryLine:
    """When the pod got in line, by what the scheduler measured."""
    return StoryLine(
        at=queued_at(record),
        what=LineKind.QUEUED,
        about=_about(record),
        text="enters the scheduling queue",
        who=find_component(record),
        decision=record.id,
        causes=_read(record),
    )


def queued_at(record: DecisionRecord) -> datetime:
    return moment((record.now or record.at) - record.queue_wait_us)


def lines_of_placement(
    record: DecisionRecord, refusals: Sequence[str], stale: tuple[Stale, ...], causes: Sequence[StoryLink] = ()
) -> list[StoryLine]:
    """A scheduler's decision about a pod. `refusals` are its reasons in words."""
    values = dict(reason.partition("=")[::2] for reason in record.reasons if "=" in reason)
    node = values.get("node")
    view = {seen.kind: seen.revision for seen in record.view}
    common: dict[str, Any] = {
        "at": moment(record.now or record.at),
        "about": _about(record),
        "who": find_component(record),
        "decision": record.id,
        "view": view,
        "stale": stale,
        "queue_wait_ms": record.queue_wait_us // 1000,
        "attempts": record.attempts,
        "causes": (*_read(record), *causes),
    }
    if node is None:
        text = f"finds no node{policy_words(record)}"
        return [StoryLine(what=LineKind.REFUSED, text=text, details=tuple(refusals), **common)]
    chosen = StoryLine(
        what=LineKind.DECIDED,
        text=f"chooses {node} (score {values.get('score', '?')}){policy_words(record)}",
        # A pod that gets a node at once is the usual thing.
        is_detail=not causes and not stale and record.attempts <= 1,
        **common,
    )
    if record.outcome.ending is Ending.DONE:
        return [chosen]
    reason = f"{record.outcome.reason}: {shown(record.outcome.message)}" if record.outcome.message else ""
    text = f"cannot bind to {node}: {reason or record.outcome.reason}"
    at = {**common, "at": moment(record.at)}
    return [chosen, StoryLine(what=LineKind.FAILED, text=text, **at)]


def lines_of_decision(record: DecisionRecord) -> list[StoryLine]:
    """A decision that did not come to its end. Of the others, their writes tell."""
    if is_placement(record):
        return []
    outcome = record.outcome
    match outcome.ending:
        case Ending.RETRY:
            text = "fails and will retry"
        case Ending.GIVE_UP:
            text = "stops retrying"
        case Ending.REFUSED:
            text = "rejects the request"
        case _:
            return []
    because = f": {outcome.reason}" if outcome.reason else ""
    message = f": {shown(outcome.message)}" if outcome.message else ""
    return [
        StoryLine(
            at=moment(record.at),
            what=LineKind.FAILED,
            about=_about(record),
            text=f"{text}{because}{message}",
            who=find_component(record),
            decision=record.id,
            view={seen.kind: seen.revision for seen in record.view},
            queue_wait_ms=record.queue_wait_us // 1000,
            attempts=record.attempts,
            causes=_read(record),
            details=_describe_policies(record) if outcome.ending is Ending.REFUSED else (),
            # Another writer was first. The key is processed again at once.
            is_detail=outcome.ending is Ending.RETRY and outcome.reason == "Conflict",
        )
    ]


def _describe_policies(record: DecisionRecord) -> tuple[str, ...]:
    """By which admission policies a write was refused, and what was not met."""
    if not record.policies:
        return ()
    expressions = [each for each in record.reasons if each.startswith(("expression: ", "changed by policy: "))]
    return (*expressions, *(f"policy: {each.name}, revision {each.revision}" for each in record.policies))


def _about(record: DecisionRecord) -> StoryObject:
    return StoryObject(record.subject.kind, record.subject.name, record.subject.namespace)


def _read(record: DecisionRecord) -> tuple[StoryLink, ...]:
    """The version of its subject that a decision had read."""
    subject = record.subject
    for look in record.looked_at:
        is_it = (look.kind, look.namespace, look.name) == (subject.kind, subject.namespace, subject.name)
        if is_it and look.revision:
            return (StoryLink(f"{_about(record).words}@{look.revision}", revision=look.revision),)
    return ()


# What a component has seen.


def seen_lines(version: Version, records: Iterable[DecisionRecord]) -> list[StoryLine]:
    """When the components that decided saw a change, if that was late: at the latest then."""
    first: dict[str, datetime] = {}
    for record in records:
        view = {seen.kind: seen.revision for seen in record.view}
        if view.get(version.kind, 0) < version.revision:
            continue
        # Who was woken by it got in line when it was seen.
        at = queued_at(record) if version.revision in record.woken_by else moment(record.now or record.at)
        first[record.component] = min(at, first.get(record.component, at))
    about = StoryObject(version.kind, version.key.name, version.key.namespace)
    lines = []
    for component, at in sorted(first.items()):
        late = at - version.at
        if late >= OBSERVED_LATE:
            link = StoryLink(f"{about.words}@{version.revision}", revision=version.revision)
            text = f"observes this change {late.total_seconds():.1f} s after it was written"
            lines.append(
                StoryLine(
                    at=at, what=LineKind.SEEN, about=about, text=text, who=Who(component, component), causes=(link,)
                )
            )
    return lines


# Events.


def line_of_event(version: Version) -> StoryLine | None:
    """An Event, as it is told or told again."""
    event = version.after
    if event is None:
        return None  # It is forgotten, which means nothing.
    about = event.get("involvedObject") or event.get("regarding") or {}
    kind = _PLURALS.get(about.get("kind", ""), f"{about.get('kind', '').lower()}s")
    decision = (event["metadata"].get("annotations") or {}).get(DECISION, "")
    source = event.get("reportingComponent") or (event.get("source") or {}).get("component") or version.who.name
    message = event.get("message") or event.get("note") or ""
    return StoryLine(
        at=version.at,
        what=LineKind.EVENT,
        about=StoryObject(kind, about.get("name", ""), about.get("namespace", "")),
        text=f"Event {event.get('reason', '')}: {shown(_without_pod(message))}",
        who=Who(source, component=source, decision=decision),
        revision=version.revision,
        decision=decision,
        causes=(StoryLink(decision, decision=decision),) if decision else (),
        # That a container waits to be started again, its pod's status says as well.
        is_detail=event.get("type") != "Warning" or (kind == PODS.text and event.get("reason") == BACK_OFF),
    )


_PLURALS: Final = {each.kind.kind: each.kind.text for each in WORKLOADS}
