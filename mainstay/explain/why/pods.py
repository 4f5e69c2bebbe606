"""Why a pod is not ready and serving: the first link that is broken on its way there.

made ─► gates ─► queue ─► view ─► filters ─► bind ─► agent ─► ready ─► serving
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from mainstay.api import labels
from mainstay.api.causes import DISRUPTION_BUDGET
from mainstay.api.kind import Object
from mainstay.api.kind_names import DISRUPTION_BUDGETS, NODES, PODS
from mainstay.api.pod_state import condition_of, created_at, is_active, is_leaving, node_of, time_of
from mainstay.api.stages import SERVING_CONDITION, Stage, stage_of
from mainstay.explain.why import containers
from mainstay.explain.why.answer import Evidence, Involved, Link, Verdict
from mainstay.explain.why.budgets import budget_advice
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import (
    NOTHING,
    Found,
    ago,
    broken,
    clock,
    count,
    done,
    evidence_of,
    listed,
    said_by,
    sentence,
    shortened,
    subject_of,
    waiting,
    written,
)
from mainstay.explain.why.nodes import not_taken_on, stays_until, trouble_of
from mainstay.explain.why.removal import leaving
from mainstay.explain.why.scheduling import placed, unplaced
from mainstay.journal.record import Ending, moment

TAKEN_ON_WITHIN: Final = timedelta(seconds=10)
EVICTION_ASKED_WITHIN: Final = timedelta(minutes=30)
"""How long ago an eviction may have been refused to be what somebody wants to know about a pod that is well."""

PODS_LOOKED_AT: Final = 20  # Of a node.
_FROZEN: Final = "EvictionsFrozen"


async def of_pod(case: Case, pod: Object, *, is_asked: bool = True) -> Found:
    """Why a pod is as it is. Not `is_asked`: it is looked at because its workload is asked about."""
    made = await _made(case, pod)
    if is_leaving(pod):
        return (await leaving(case, PODS, pod)).after((made,))
    who, phase = subject_of(PODS, pod).words, (pod.get("status") or NOTHING).get("phase")
    if phase == "Succeeded":
        text = f"{who} has done its work on {node_of(pod)}"
        link = done("end", "all its containers have ended well", said_by(pod))
        found = Found(cause=Cause.COMPLETED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
        return found.after((made,))
    if phase == "Failed":
        bound = await placed(case, pod) if node_of(pod) else ()
        return (await containers.failed(case, pod)).after((made, *bound))
    if gates := (pod.get("spec") or NOTHING).get("schedulingGates"):
        names = listed(str(each.get("name")) for each in gates)
        text = f"{who} is not placed before its scheduling gates are gone: {names}"
        link = broken(
            "gates", names, Evidence(source="spec", revision=int(pod["metadata"].get("resourceVersion") or 0))
        )
        found = Found(cause=Cause.SCHEDULING_GATED, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))
        return found.after((made,))
    if not node_of(pod):
        return (await unplaced(case, pod)).after((made,))
    links = [made, *(await placed(case, pod))]
    return (await _on_its_node(case, pod, who, is_asked)).after(links)


async def _made(case: Case, pod: Object) -> Link:
    metadata = pod["metadata"]
    versions = await case.versions(PODS.text, metadata.get("namespace") or "", metadata["name"])
    first = next((each for each in versions if each.before is None and not each.is_first_known), None)
    if first is None:
        return done("made", f"at {clock(created_at(pod))}; the record of that is gone", said_by(pod))
    first = await case.reasoned(first)
    reason = f" ({first.who.reason})" if first.who.reason else ""
    return done("made", f"by {first.who.name}{reason}", written(first))


async def _on_its_node(case: Case, pod: Object, who: str, is_asked: bool) -> Found:
    name = node_of(pod)
    trouble = await trouble_of(case, name)
    ready = condition_of(pod, "Ready") or NOTHING
    is_ready = ready.get("status") == "True"
    if trouble is not None and (trouble.is_silent or not is_ready):
        node = await case.get(NODES, name)
        stays = stays_until(node, pod, case.now) if node is not None else ""
        return Found(
            cause=trouble.cause,
            sentence=sentence(f"{who} is not known to run: its node {trouble.text}{stays}"),
            verdict=Verdict.BLOCKED if trouble.cause is Cause.NODE_DOES_NOT_EXIST else Verdict.WAITING,
            since=trouble.since,
            chain=(trouble.link,),
        )
    stage = stage_of(pod)
    if stage is not None and stage[0] is Stage.BOUND:
        late = case.now - stage[1] > TAKEN_ON_WITHIN
        return not_taken_on(pod, who, name, stage[1], case.now, late)
    if not is_ready:
        return await containers.not_started(case, pod) or await containers.not_ready(case, pod)
    restarted = await containers.restarted_lately(case, pod)
    if restarted is not None:
        return restarted
    if is_asked:
        refused = await eviction_refused(case, pod, who)
        if refused is not None:
            return refused
    return _serving(case, pod, who)


def _serving(case: Case, pod: Object, who: str) -> Found:
    name, ready = node_of(pod), condition_of(pod, "Ready") or NOTHING
    since = time_of(ready.get("lastTransitionTime"))
    link = done("ready", f"on {name} since {clock(since)}", said_by(pod, ready))
    served = condition_of(pod, SERVING_CONDITION) or NOTHING
    if served.get("status") == "False" and served.get("reason") != "NotSelected":
        at = time_of(served.get("lastTransitionTime"))
        text = f"{who} is ready on {name}, and gets no traffic ({served.get('reason')}): {served.get('message')}"
        unserved = waiting("serving", f"{served.get('reason')}", said_by(pod, served))
        return Found(
            cause=Cause.NOT_READY_YET,
            sentence=sentence(shortened(text)),
            verdict=Verdict.WAITING,
            since=at,
            chain=(link, unserved),
        )
    links = [link]
    serves = ""
    if served.get("status") == "True":
        serves = " and serves"
        links.append(done("serving", "a Service leads to it", said_by(pod, served)))
    text = f"{who} is ready{serves} on {name}, since {clock(since)} ({ago(since, case.now)})"
    return Found(
        cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, since=since, chain=tuple(links)
    )


async def eviction_refused(case: Case, pod: Object, who: str) -> Found | None:
    """Somebody wanted a pod to go that is well, and was refused."""
    metadata = pod["metadata"]
    records = await case.records(PODS.text, metadata.get("namespace") or "", metadata["name"], metadata.get("uid", ""))
    refused = [
        each
        for each in records
        if each.outcome.ending is Ending.REFUSED
        and (each.component == "eviction" or each.outcome.reason in (DISRUPTION_BUDGET, _FROZEN))
    ]
    if not refused or case.now - moment(refused[-1].at) > EVICTION_ASKED_WITHIN:
        return None
    last = refused[-1]
    by = f" by {last.user}" if last.user else ""
    frozen = last.outcome.reason == _FROZEN
    detail = next(
        (each.partition(": ")[2] for each in last.reasons if each.startswith((DISRUPTION_BUDGET, _FROZEN))), ""
    )
    message = shortened(detail or last.outcome.message, 240)
    text = f"{who} was to be evicted{by} at {clock(moment(last.at))}, and that was refused: {message}"
    involved = []
    all_budgets = await _budgets_of(case, pod)
    budgets = [each["metadata"]["name"] for each in all_budgets]
    if not frozen and budgets and not any(each in text for each in budgets):
        text = f"{text.removesuffix('.')} ({count(len(budgets), 'budget')}: {listed(budgets)})"
    if frozen:
        for hold in await case.holds(PODS, metadata["name"], metadata.get("namespace") or ""):
            involved.append(
                Involved(hold.owner, hold.words, (Evidence(source=f"Hold {hold.name}", revision=hold.revision),))
            )
            if hold.owner not in text:
                text += f" ({hold.words})"
    return Found(
        cause=Cause.EVICTIONS_FROZEN if frozen else Cause.BUDGET_EXHAUSTED,
        sentence=sentence(shortened(text, 400)),
        verdict=Verdict.WAITING,
        since=moment(last.at),
        chain=(broken("eviction", message, evidence_of(last)),),
        involved=tuple(involved),
        advice="" if frozen else next((text for each in all_budgets if (text := budget_advice(each))), ""),
    )


async def _budgets_of(case: Case, pod: Object) -> list[Object]:
    """The disruption budgets that select a pod."""
    namespace, has = pod["metadata"].get("namespace"), pod["metadata"].get("labels") or {}
    found = []
    for budget in await case.all(DISRUPTION_BUDGETS):
        selector = (budget.get("spec") or NOTHING).get("selector")
        is_here = budget["metadata"].get("namespace") == namespace
        if is_here and selector is not None and labels.from_object(selector).matches(has):
            found.append(budget)
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


async def with_refused_evictions(case: Case, node: Object, found: Found) -> Found:
    """What is known of a node that is cordoned, and why those do not go that are still there."""
    if found.cause is not Cause.NODE_CORDONED:
        return found
    name = node["metadata"]["name"]
    here = [pod for pod in await case.all(PODS) if node_of(pod) == name and is_active(pod)]
    for pod in sorted(here, key=lambda each: each["metadata"]["name"])[:PODS_LOOKED_AT]:
        refused = await eviction_refused(case, pod, subject_of(PODS, pod).words)
        if refused is not None:
            still = f"{count(len(here), 'pod')} {'is' if len(here) == 1 else 'are'} still there"
            text = f"{found.sentence.removesuffix('.')}; {still}. {refused.sentence}"
            return replace(found, sentence=shortened(text, 420), chain=(*found.chain, *refused.chain))
    return found
