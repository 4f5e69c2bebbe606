"""Changes of an object that the server has refused of late, or that admission policies have changed on their way in:
what a user wonders about whose object is healthy, and other than what was sent."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from mainstay.api.causes import QUOTA_EXCEEDED
from mainstay.api.errors import StatusReason
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.explain.why.answer import Also, Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import Finding, broken, build_source, build_subject, clock, count, sentence, shortened
from mainstay.explain.why.refusals import refusal_cause
from mainstay.journal.record import DecisionRecord, Ending, moment

ASKED_RIGHT_AFTER: Final = timedelta(minutes=5)
"""So long it is the cause, if nothing else is."""
STILL_TOLD: Final = timedelta(hours=1)
_COMPONENTS: Final = ("admission", "quota", "authorization")


async def with_refused_change(case: Case, kind: KindName, obj: Object, found: Finding) -> Finding:
    """The same answer; and that the last change was refused, if that is so, and its writer has not changed it since."""
    last = await _refused(case, kind, obj)
    if last is None:
        return found
    cause, verdict = cause_of_refusal(last)
    by = f" by {last.user}" if last.user else ""
    times = f" ({count(last.attempts, 'time')})" if last.attempts > 1 else ""
    message = shortened(last.outcome.message, 240)
    text = f"the last change{by} was rejected at {clock(moment(last.at))}{times}: {message}"
    age = case.now - moment(last.at)
    if found.verdict is not Verdict.SATISFIED or age > ASKED_RIGHT_AFTER:
        return replace(found, also=(*found.also, Also(cause, text)))
    so_far = found.sentence.removesuffix(".").partition(": ")[0]
    return replace(
        found,
        cause=cause,
        sentence=sentence(shortened(f"{so_far}, but {text}", 420)),
        verdict=verdict,
        since=moment(last.at),
        chain=(*found.chain, broken("admission", f"{last.outcome.reason}: {message}", build_source(last))),
        involved=(
            *found.involved,
            Involved(last.user or last.component, "requested the change", (build_source(last),)),
        ),
    )


async def list_mutations(case: Case, kind: KindName, obj: Object) -> tuple[str, ...]:
    """That the object is not as it was sent, if its last write that admission policies have changed is known."""
    subject = build_subject(kind, obj)
    for version in reversed(await case.versions(kind.text, subject.namespace, subject.name)):
        if version.who.mutations:
            by = f" by {version.who.user}" if version.who.user else ""
            policies = ", ".join(version.who.mutations)
            return (f"what was sent{by} at {clock(version.at)} was changed by MutatingAdmissionPolicy {policies}",)
    return ()


def cause_of_refusal(record: DecisionRecord) -> tuple[Cause, Verdict]:
    """What a refused request comes to."""
    if record.writes and record.writes[0].cause:
        code = record.writes[0].cause
    else:
        # Version 0.1 had one code for all that quotas refuse, and none for some of what admission does.
        code = "" if record.outcome.reason in (QUOTA_EXCEEDED, StatusReason.FORBIDDEN) else record.outcome.reason
    return refusal_cause(code)


async def _refused(case: Case, kind: KindName, obj: Object) -> DecisionRecord | None:
    """The last refused change by a user that is no controller, and of whom none was accepted since."""
    subject = build_subject(kind, obj)
    records = await case.records(kind.text, subject.namespace, subject.name, subject.uid)
    refused = [
        each
        for each in records
        if each.outcome.ending is Ending.REFUSED
        and each.component in _COMPONENTS
        and not each.parent
        and any(action.verb in ("patch", "update", "apply") for action in each.actions)
        and case.now - moment(each.at) <= STILL_TOLD
    ]
    if not refused:
        return None
    last = refused[-1]
    for version in await case.versions(kind.text, subject.namespace, subject.name):
        if version.at > moment(last.at) and last.user in (version.who.user, version.who.name):
            return None
    return last
