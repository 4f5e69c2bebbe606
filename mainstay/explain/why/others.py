"""Why a namespace does not go, a quota lets nothing more in, a Service leads nowhere, a budget lets nobody go."""

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from mainstay.api import labels
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    ZONE_QUOTAS,
)
from mainstay.api.kinds import BUILTIN
from mainstay.api.pod_resources import amount, amounts_of, is_over, requests_of
from mainstay.api.pod_state import condition_of, is_active, is_leaving, is_ready, node_of, time_of, zone_of
from mainstay.api.quantity import parse
from mainstay.explain.why.answer import Also, Evidence, Involved, Verdict
from mainstay.explain.why.budgets import budget_advice
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.control import not_done
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
from mainstay.explain.why.nodes import in_trouble
from mainstay.explain.why.quotas import has_room, refused_in
from mainstay.explain.why.workloads import worst_of
from mainstay.explain.writers import Version
from mainstay.journal.record import DecisionRecord, Ending, moment

_LEFT: Final = re.compile(r"([a-z0-9.-]+) \((\d+)\)")
_KINDS: Final = {kind.reference.text: kind.reference for kind in BUILTIN}
_ALIKE: Final = 0.8  # So near to what is wanted that it was probably meant.
USERS_TOLD: Final = 2
REFUSED_WITHIN: Final = timedelta(hours=1)
REFUSED_LATELY: Final = timedelta(minutes=5)
"""Whoever was refused so long ago has asked again since, or does not want it any more."""


# Namespaces.


async def of_namespace(case: Case, namespace: Object) -> Found:
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


async def of_resource_quota(case: Case, quota: Object) -> Found:
    subject = subject_of(RESOURCE_QUOTAS, quota)
    status = quota.get("status") or NOTHING
    hard: Mapping[str, Any] = (quota.get("spec") or NOTHING).get("hard") or {}
    used: Mapping[str, Any] = status.get("used") or {}
    words = ", ".join(f"{name} {used.get(name, '0')} of {hard[name]}" for name in sorted(hard))
    full = [name for name in sorted(hard) if name in used and parse(str(used[name])) >= parse(str(hard[name]))]
    refused = await _refused(case, subject.namespace, subject.name)
    link = done("used", words, said_by(quota))
    last_asked = refused_in(refused[-1].outcome.message) if refused else None
    is_freed = last_asked is not None and has_room(quota, last_asked[1])
    if not full and (not refused or is_freed or case.now - moment(refused[-1].at) > REFUSED_LATELY):
        text = f"{subject.words} has room: {words}"
        asked = count(sum(max(each.attempts, 1) for each in refused), "request")
        notes = (f"refused: {asked} in the last hour, the last at {clock(moment(refused[-1].at))}",) if refused else ()
        return Found(
            cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,), notes=notes
        )
    users = await _largest_users(case, subject.namespace, full or sorted(hard))
    what = (
        f"{subject.words} is used up in {listed(full)} ({words})"
        if full
        else f"{subject.words} leaves too little ({words})"
    )
    if users:
        what += f", most of it by {users}"
    since = moment(refused[0].at) if refused else None
    chain = [broken("used", words, said_by(quota))]
    involved = []
    if refused:
        last = refused[-1]
        times = sum(max(each.attempts, 1) for each in refused)
        who = f"{last.subject.kind.partition('.')[0]} {last.subject.namespace}/{last.subject.name}"
        requests = f"{count(times, 'request')} {'was' if times == 1 else 'were'}"
        what += f"; {requests} refused for that, the last for {who} at {clock(moment(last.at))}"
        chain.append(broken("refused", shortened(last.outcome.message, 160), evidence_of(last)))
        involved.append(Involved(last.user or last.component, f"asked for {who}", (evidence_of(last),)))
    return Found(
        cause=Cause.QUOTA_EXCEEDED,
        sentence=sentence(shortened(what, 400)),
        verdict=Verdict.WAITING,
        since=since,
        chain=tuple(chain),
        involved=tuple(involved),
    )


async def _largest_users(case: Case, namespace: str, resources: Sequence[str]) -> str:
    """Who uses the most of the first of some resources that pods use: `Deployment hog (1900m) and Job x (100m)`."""
    for limited in resources:
        resource = limited.removeprefix("requests.")
        used: dict[str, int] = {}
        for pod in await case.all(PODS):
            if pod["metadata"].get("namespace") == namespace and not is_over(pod):
                size = 1 if resource == "pods" else requests_of(pod).get(resource, 0)
                owner = await _top_owner(case, pod)
                used[owner] = used.get(owner, 0) + size
        largest = sorted((each for each in used if used[each]), key=lambda each: (-used[each], each))
        if largest:
            return listed(f"{each} ({amount(resource, used[each])})" for each in largest[:USERS_TOLD])
    return ""


async def _top_owner(case: Case, obj: Object, kind: str = "Pod") -> str:
    """The workload that an object belongs to in the end: `Deployment web`."""
    for _ in range(3):
        owner = await case.owner_of(obj)
        if owner is None:
            break
        kind = owner[0].kind
        if owner[1] is None:
            return f"{kind} {owner[2]}"
        obj = owner[1]
    return f"{kind} {obj['metadata']['name']}"


async def _refused(case: Case, namespace: str, name: str) -> list[DecisionRecord]:
    """What a quota has kept out of late."""
    found = await case.journal.decisions(
        namespace=namespace, component="quota", since=case.now - REFUSED_WITHIN, before=case.before, limit=200
    )
    return [
        each
        for each in found.records
        if each.outcome.ending is Ending.REFUSED and (not name or f"exceeded quota: {name}," in each.outcome.message)
    ]


async def of_zone_quota(case: Case, quota: Object) -> Found:
    subject, spec = subject_of(ZONE_QUOTAS, quota), quota.get("spec") or NOTHING
    zone, hard = str(spec.get("zone") or ""), amounts_of(_plain(spec.get("hard") or {}))
    nodes = {node["metadata"]["name"] for node in await case.all(NODES) if zone_of(node) == zone}
    used: dict[str, int] = {}
    waiting_pods = []
    for pod in await case.all(PODS):
        if pod["metadata"].get("namespace") != subject.namespace or is_over(pod):
            continue
        if node_of(pod) in nodes:
            for resource, size in {**requests_of(pod), "pods": 1}.items():
                used[resource] = used.get(resource, 0) + size
        elif not node_of(pod) and is_active(pod):
            waiting_pods.append(pod)
    words = ", ".join(
        f"{name} {amount(name, used.get(name, 0))} of {amount(name, hard[name])}" for name in sorted(hard)
    )
    full = [name for name in sorted(hard) if used.get(name, 0) >= hard[name]]
    held_up = [
        pod["metadata"]["name"]
        for pod in waiting_pods
        if any(requests_of(pod).get(name, 0) > hard[name] - used.get(name, 0) for name in hard)
    ]
    text = f"{subject.words} in zone {zone}: {words}"
    if not full and not held_up:
        link = done("used", words, said_by(quota))
        return Found(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    text = f"{subject.words} {'is used up' if full else 'leaves too little'} in zone {zone} ({words})"
    if held_up:
        text += f"; {listed(held_up)} {'waits' if len(held_up) == 1 else 'wait'} for it, or for another zone"
    return Found(
        cause=Cause.ZONE_QUOTA_EXCEEDED,
        sentence=sentence(text),
        verdict=Verdict.WAITING,
        chain=(broken("used", words, said_by(quota)),),
    )


def _plain(hard: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("requests."): value for name, value in hard.items() if not name.startswith("limits.")}


# Services and budgets.


async def of_service(case: Case, service: Object) -> Found:
    subject = subject_of(SERVICES, service)
    selector: Mapping[str, str] = (service.get("spec") or NOTHING).get("selector") or {}
    if not selector:
        text = f"{subject.words} has no selector: whoever made it says where it leads"
        link = done("selector", "none", said_by(service))
        return Found(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    wanted = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    pods = [pod for pod in await case.all(PODS) if pod["metadata"].get("namespace") == subject.namespace]
    chosen = [pod for pod in pods if _matches(selector, pod) and is_active(pod)]
    if not chosen:
        return await _nothing_selected(case, service, subject.words, selector, wanted, pods)
    ready = [pod for pod in chosen if is_ready(pod)]
    link = done("selector", f"{wanted} selects {count(len(chosen), 'pod')}", said_by(service))
    if ready:
        text = f"{subject.words} leads to {len(ready)} of {count(len(chosen), 'pod')} that it selects by {wanted}"
        troubled = await in_trouble(case, map(node_of, ready))
        slow = [pod for pod in chosen if not is_ready(pod) or node_of(pod) in troubled]
        worst = await worst_of(case, slow)
        also = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]), *worst[2])
        found = done("ready", f"{len(ready)} ready", said_by(service))
        return Found(
            cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link, found), also=also
        )
    worst = await worst_of(case, chosen)
    if worst is None:
        text = f"{subject.words} leads nowhere: none of its pods is ready"
        return Found(cause=Cause.NOT_READY_YET, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))
    found_below, _, also = worst
    none = "the only pod" if len(chosen) == 1 else f"none of the {len(chosen)} pods"
    is_ready_ = "is not ready" if len(chosen) == 1 else "is ready"
    text = f"{subject.words} leads nowhere: {none} it selects {is_ready_}. {found_below.sentence}"
    return Found(
        cause=found_below.cause,
        sentence=shortened(text, 420),
        verdict=found_below.verdict,
        since=found_below.since,
        about=found_below.about,
        chain=(link, *found_below.chain),
        cures=found_below.cures,
        also=also,
    )


def _matches(selector: Mapping[str, str], pod: Object) -> bool:
    return selector.items() <= (pod["metadata"].get("labels") or {}).items()


async def _nothing_selected(
    case: Case, service: Object, words: str, selector: Mapping[str, str], wanted: str, pods: list[Object]
) -> Found:
    """What the pods have instead of what is selected by."""
    near: dict[str, list[str]] = {}
    for pod in pods:
        if is_active(pod):
            for key, value in sorted((pod["metadata"].get("labels") or {}).items()):
                if key in selector and value != selector[key]:
                    near.setdefault(f"{key}={value}", []).append(pod["metadata"]["name"])
    alike = [each for part in wanted.split(",") for each in difflib.get_close_matches(part, near, n=1, cutoff=_ALIKE)]
    text = f"{words} leads nowhere: no pod has {wanted}, by which it selects"
    if alike:
        names = near[alike[0]]
        text += f"; {count(len(names), 'pod')} ({listed(names, 2)}) {'has' if len(names) == 1 else 'have'} {alike[0]}"
    link = broken("selector", f"{wanted} selects nothing", said_by(service))
    return Found(
        cause=Cause.SELECTOR_MISMATCH if alike else Cause.NOTHING_SELECTED,
        sentence=sentence(text),
        verdict=Verdict.BLOCKED,
        chain=(link,),
    )


async def of_budget(case: Case, budget: Object) -> Found:
    subject = subject_of(DISRUPTION_BUDGETS, budget)
    status = budget.get("status") or NOTHING
    allowed = int(status.get("disruptionsAllowed") or 0)
    healthy, needed = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    expected = int(status.get("expectedPods") or 0)
    numbers = f"{healthy} of {expected} pods are healthy, {needed} have to be"
    evidence = Evidence(source="status", revision=subject.revision)
    if allowed > 0:
        text = f"{subject.words} allows {count(allowed, 'disruption')}: {numbers}"
        link = done("budget", numbers, evidence)
        return Found(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    selector = (budget.get("spec") or NOTHING).get("selector")
    pods = [pod for pod in await case.all(PODS) if pod["metadata"].get("namespace") == subject.namespace]
    chosen = [pod for pod in pods if selector is not None and _selects(selector, pod) and is_active(pod)]
    if not chosen:
        link = broken("selector", "selects no pod", evidence)
        text = f"{subject.words} selects no pod, so it protects none"
        return Found(cause=Cause.NOTHING_SELECTED, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))
    text = f"{subject.words} allows no eviction: {numbers}"
    worst = await worst_of(case, [pod for pod in chosen if not is_ready(pod)])
    also = () if worst is None else (Also(worst[0].cause, worst[0].sentence, worst[1]), *worst[2])
    return Found(
        cause=Cause.BUDGET_EXHAUSTED,
        sentence=sentence(text),
        verdict=Verdict.WAITING if worst is not None else Verdict.BLOCKED,
        chain=(broken("budget", numbers, evidence),),
        also=also,
        advice=budget_advice(budget),
    )


def _selects(selector: Mapping[str, Any], pod: Object) -> bool:
    return labels.from_object(selector).matches(pod["metadata"].get("labels") or {})
