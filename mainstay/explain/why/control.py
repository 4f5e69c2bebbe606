"""Why a controller has not done what it should about an object: it is held, is not there, is behind, or fails."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from mainstay.api.holds import HoldScope
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.explain.holds import HoldFound
from mainstay.explain.why.answer import AnswerSource, CureFound, Staleness, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.components import AT_ONCE, components, no_controllers
from mainstay.explain.why.found import (
    Finding,
    ago,
    broken,
    build_source,
    build_subject,
    clock,
    count,
    said_by,
    sentence,
    shortened,
    waiting,
)
from mainstay.journal.record import DecisionRecord, Ending, moment

FAILURES_MIN: Final = 3
"""So many in a row, of the same kind, are no accident."""
FAILING_WITHIN: Final = timedelta(minutes=10)
_UNAVAILABLE: Final = ("Unavailable", "Throttled")


def hold_found(hold: HoldFound, text: str) -> Finding:
    """That it is held."""
    evidence = AnswerSource(source=f"Hold {hold.name}", revision=hold.revision)
    cause = {
        HoldScope.ROLLOUT: Cause.ROLLOUT_HELD,
        HoldScope.CONTROLLER: Cause.CONTROLLER_HELD,
        HoldScope.EVICTIONS: Cause.EVICTIONS_FROZEN,
    }[hold.what]
    return Finding(
        cause=cause,
        sentence=sentence(text),
        verdict=Verdict.WAITING,
        chain=(broken("hold", hold.words, evidence),),
        cures=(CureFound(f"release the Hold {hold.name}", command=f"mainstay release {hold.name}"),),
    )


async def held(case: Case, kind: KindName, obj: Object, controllers: Sequence[str], what: str) -> Finding | None:
    """Whether one of these controllers is held. `what` is what does not happen: `2 of 5 pods exist`."""
    subject = build_subject(kind, obj)
    for hold in await case.holds(kind, subject.name, subject.namespace):
        if hold.what is HoldScope.CONTROLLER and hold.target in controllers:
            until = f"until {clock(hold.expires_at)}"
            text = f"{what}, and the controller {hold.target} is held by {hold.owner} {until}: {hold.reason}"
            return hold_found(hold, text)
    return None


async def not_done(
    case: Case, kind: KindName, obj: Object, controller: str, what: str, since: datetime | None
) -> Finding:
    """Why a controller has not done something, said as `what`, that is wanted since then."""
    found = await held(case, kind, obj, (controller,), what)
    if found is not None:
        return found
    subject = build_subject(kind, obj)
    absent = await no_controllers(case)
    if absent is not None:
        return Finding(
            cause=absent.cause,
            sentence=sentence(f"{what}, and {absent.text}"),
            verdict=Verdict.BLOCKED if absent.cause is Cause.NO_CONTROLLER else Verdict.WAITING,
            since=absent.since,
            chain=(broken("controller", absent.text, *absent.evidence),),
        )
    records = await case.records(kind.text, subject.namespace, subject.name, subject.uid)
    own = [each for each in records if each.component == controller]
    failing = _failing(own, what, case.now)
    if failing is not None:
        return failing
    behind = await _behind(case, kind, obj, controller, what, since)
    if behind is not None:
        return behind
    age = case.now - since if since is not None else timedelta()
    if age > AT_ONCE and not any(since is not None and moment(each.at) >= since for each in own):
        last = f"; its last decision about it was at {clock(moment(own[-1].at))}" if own else ""
        text = f"{what}, and the controller {controller} has not processed it for {ago(since, case.now)}{last}"
        evidence = (build_source(own[-1]),) if own else (said_by(obj),)
        return Finding(
            cause=Cause.NO_CONTROLLER if not own else Cause.NOT_OBSERVED_YET,
            sentence=sentence(text),
            verdict=Verdict.WAITING,
            since=since,
            chain=(waiting("controller", f"{controller} has not processed it", *evidence),),
        )
    evidence = (build_source(own[-1]),) if own else (said_by(obj),)
    return Finding(
        cause=Cause.NOT_OBSERVED_YET,
        sentence=sentence(f"{what}; the controller {controller} has not processed it yet"),
        verdict=Verdict.WAITING,
        since=since,
        chain=(waiting("controller", controller, *evidence),),
    )


def _failing(records: Sequence[DecisionRecord], what: str, now: datetime) -> Finding | None:
    """Whether the last decisions in a row have all failed."""
    failed: list[DecisionRecord] = []
    for each in reversed(records):
        if each.outcome.ending not in (Ending.RETRY, Ending.GIVE_UP):
            break
        failed.append(each)
    if not failed or now - moment(failed[0].at) > FAILING_WITHIN:
        return None
    last = failed[0]
    message = shortened(last.outcome.message or last.outcome.reason, 200)
    times = count(len(failed), "time")
    link = broken("controller", f"{last.component}: {last.outcome.reason}", build_source(last))
    if last.outcome.reason in _UNAVAILABLE:
        text = f"{what}: the API server does not answer the controller {last.component} ({times}): {message}"
        return Finding(cause=Cause.API_UNAVAILABLE, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))
    if last.outcome.ending is Ending.GIVE_UP:
        text = f"{what}: the controller {last.component} stopped retrying ({last.outcome.reason}): {message}"
        return Finding(cause=Cause.CONTROLLER_FAILING, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))
    if len(failed) < FAILURES_MIN:
        return None
    if last.outcome.reason == "Conflict":
        conflicts = f"had conflicts {times} in a row, because another writer changes the object first"
        text = f"{what}: the controller {last.component} {conflicts}: {message}"
        return Finding(cause=Cause.CONFLICTS, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))
    text = f"{what}: the controller {last.component} failed {times} in a row ({last.outcome.reason}): {message}"
    return Finding(cause=Cause.CONTROLLER_FAILING, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))


async def _behind(
    case: Case, kind: KindName, obj: Object, controller: str, what: str, since: datetime | None
) -> Finding | None:
    """Whether the controllers have said that they do not know of this version yet."""
    subject = build_subject(kind, obj)
    if since is None or case.now - since <= timedelta(seconds=1):
        return None
    changed = await _spec_revision(case, kind, subject.namespace, subject.name) or subject.revision
    for each in await components(case):
        seen = each.revisions.get(kind.text)
        if not each.is_controllers or seen is None or seen >= changed:
            continue
        if each.said_at is None or each.said_at < since:
            continue
        lag = f"{each.name} has seen {kind.plural} up to revision {seen}, and the change is {changed}"
        text = f"{what}: the controller {controller} has not observed it yet. {lag}, {ago(since, case.now)} ago"
        return Finding(
            cause=Cause.STALE_VIEW,
            sentence=sentence(text),
            verdict=Verdict.WAITING,
            since=since,
            chain=(broken("view", lag, each.evidence),),
            staleness=(Staleness(kind.text, seen, changed, is_decisive=True),),
        )
    return None


async def _spec_revision(case: Case, kind: KindName, namespace: str, name: str) -> int:
    """The revision that made the present generation."""
    found = 0
    for each in await case.versions(kind.text, namespace, name):
        before = ((each.before or {}).get("metadata") or {}).get("generation")
        after = ((each.after or {}).get("metadata") or {}).get("generation")
        if after != before:
            found = each.revision
    return found
