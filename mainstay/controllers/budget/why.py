"""Why a disruption budget allows no eviction, which eviction it refused, and what to do about that.

Waiting helps only if one of its pods is not ready.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from mainstay.api import labels
from mainstay.api.causes import DISRUPTION_BUDGET
from mainstay.api.holds import HoldReason
from mainstay.api.kind import Object
from mainstay.api.kind_names import DISRUPTION_BUDGETS, PODS
from mainstay.api.pod_state import is_active, is_ready
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Also, AnswerSource, Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    broken,
    build_source,
    build_subject,
    clock,
    count,
    done,
    listed,
    sentence,
    shortened,
)
from mainstay.explain.why.workload import find_worst
from mainstay.journal.record import Ending, moment


def budget_advice(budget: Object) -> str:
    """Empty: that of the cause will do."""
    spec, status = budget.get("spec") or NOTHING, budget.get("status") or NOTHING
    healthy, expected = int(status.get("currentHealthy") or 0), int(status.get("expectedPods") or 0)
    if healthy < expected or int(status.get("disruptionsAllowed") or 0):
        return ""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    so = "All its pods are healthy, so waiting does not help"
    if most is not None:
        return f"{so}: raise maxUnavailable, which is {most}."
    more = "" if least == "100%" else ", or add replicas"
    return f"{so}: lower minAvailable, which is {least}{more}."


async def why_budget(case: Case, budget: Object) -> Finding:
    subject = build_subject(DISRUPTION_BUDGETS, budget)
    status = budget.get("status") or NOTHING
    allowed = int(status.get("disruptionsAllowed") or 0)
    healthy, needed = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    expected = int(status.get("expectedPods") or 0)
    numbers = f"{healthy} of {expected} pods are healthy, {needed} must be"
    evidence = AnswerSource(source="status", revision=subject.revision)
    if allowed > 0:
        text = f"{subject.words} allows {count(allowed, 'disruption')}: {numbers}"
        link = done("budget", numbers, evidence)
        return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    selector = (budget.get("spec") or NOTHING).get("selector")
    pods = [pod for pod in await case.all(PODS) if pod["metadata"].get("namespace") == subject.namespace]
    chosen = [pod for pod in pods if selector is not None and _selects(selector, pod) and is_active(pod)]
    if not chosen:
        link = broken("selector", "matches no pod", evidence)
        text = f"{subject.words} protects no pods: its selector matches none"
        return Finding(cause=Cause.NOTHING_SELECTED, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))
    text = f"{subject.words} allows no eviction: {numbers}"
    worst = await find_worst(case, [pod for pod in chosen if not is_ready(pod)])
    also = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]), *worst[2])
    return Finding(
        cause=Cause.BUDGET_EXHAUSTED,
        sentence=sentence(text),
        verdict=Verdict.WAITING if worst is not None else Verdict.BLOCKED,
        chain=(broken("budget", numbers, evidence),),
        also=also,
        advice=budget_advice(budget),
    )


def _selects(selector: Mapping[str, Any], pod: Object) -> bool:
    return labels.from_object(selector).matches(pod["metadata"].get("labels") or {})


EVICTION_ASKED_WITHIN: Final = timedelta(minutes=30)
"""How long ago an eviction may have been refused to be what a question about a healthy pod is about."""


async def eviction_refused(case: Case, pod: Object, who: str) -> Finding | None:
    """An eviction of a healthy pod was refused."""
    metadata = pod["metadata"]
    records = await case.records(PODS.text, metadata.get("namespace") or "", metadata["name"], metadata.get("uid", ""))
    refused = [
        each
        for each in records
        if each.outcome.ending is Ending.REFUSED
        and (each.component == "eviction" or each.outcome.reason in (DISRUPTION_BUDGET, HoldReason.EVICTIONS_FROZEN))
    ]
    if not refused or case.now - moment(refused[-1].at) > EVICTION_ASKED_WITHIN:
        return None
    last = refused[-1]
    by = f" by {last.user}" if last.user else ""
    frozen = last.outcome.reason == HoldReason.EVICTIONS_FROZEN
    detail = next(
        (
            each.partition(": ")[2]
            for each in last.reasons
            if each.startswith((DISRUPTION_BUDGET, HoldReason.EVICTIONS_FROZEN))
        ),
        "",
    )
    message = shortened(detail or last.outcome.message, 240)
    text = f"The eviction of {who}{by} at {clock(moment(last.at))} was rejected: {message}"
    involved = []
    all_budgets = await _find_budgets(case, pod)
    budgets = [each["metadata"]["name"] for each in all_budgets]
    if not frozen and budgets and not any(each in text for each in budgets):
        text = f"{text.removesuffix('.')} ({count(len(budgets), 'budget')}: {listed(budgets)})"
    if frozen:
        for hold in await case.holds(PODS, metadata["name"], metadata.get("namespace") or ""):
            involved.append(
                Involved(hold.owner, hold.words, (AnswerSource(source=f"Hold {hold.name}", revision=hold.revision),))
            )
            if hold.owner not in text:
                text += f" ({hold.words})"
    return Finding(
        cause=Cause.EVICTIONS_FROZEN if frozen else Cause.BUDGET_EXHAUSTED,
        sentence=sentence(shortened(text, 400)),
        verdict=Verdict.WAITING,
        since=moment(last.at),
        chain=(broken("eviction", message, build_source(last)),),
        involved=tuple(involved),
        advice="" if frozen else next((text for each in all_budgets if (text := budget_advice(each))), ""),
    )


async def _find_budgets(case: Case, pod: Object) -> list[Object]:
    """The disruption budgets that select a pod."""
    namespace, has = pod["metadata"].get("namespace"), pod["metadata"].get("labels") or {}
    found = []
    for budget in await case.all(DISRUPTION_BUDGETS):
        selector = (budget.get("spec") or NOTHING).get("selector")
        is_here = budget["metadata"].get("namespace") == namespace
        if is_here and selector is not None and labels.from_object(selector).matches(has):
            found.append(budget)
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


ROOM: Final = WhyRoom(analyser=why_budget)
