"""Why a ResourceQuota lets nothing more in, what it had no room for, and whether it has by now.

The server counts quotas, so there is no controller beside which this could live.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, RESOURCE_QUOTAS
from mainstay.api.pod_resources import amount, count_requests, is_over
from mainstay.api.quantity import parse
from mainstay.explain.why.answer import Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.components import no_controllers
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
    said_by,
    sentence,
    shortened,
    waiting,
)
from mainstay.journal.record import DecisionRecord, Ending, WriteResult, moment


def has_room(quota: Object, refused: WriteResult) -> bool:
    """Whether a quota would let in what it has refused, by what it says of itself."""
    hard, used = _hard_and_used(quota)
    return all(
        parse(str(used.get(name, "0"))) + parse(size) <= parse(str(hard[name]))
        for name, size in _requested(refused).items()
        if name in hard
    )


def _requested(refused: WriteResult) -> dict[str, str]:
    pairs = (each.partition("=") for each in refused.requested.split(",") if each)
    return {name: size for name, _, size in pairs}


async def room_by_now(case: Case, namespace: str, refused: WriteResult | None) -> str:
    """That the quota that refused something has room for it by now, in words. Empty: it has not, or it is unknown."""
    if refused is None or not refused.requested:
        return ""
    name, wanted = refused.quota, _requested(refused)
    quota = await case.get(RESOURCE_QUOTAS, name, namespace)
    if quota is None:
        return f"ResourceQuota {name} no longer exists"
    if not has_room(quota, refused):
        return ""
    hard, used = _hard_and_used(quota)
    sizes = (f"{each} {used.get(each, '0')} of {hard[each]}" for each in sorted(wanted) if each in hard)
    return f"ResourceQuota {name} now has room ({listed(sizes)})"


def _hard_and_used(quota: Object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return (quota.get("spec") or NOTHING).get("hard") or {}, (quota.get("status") or NOTHING).get("used") or {}


async def freed(case: Case, namespace: str, refused: WriteResult | None, what: str, controller: str) -> Finding | None:
    """If the quota that refused something has room for it by now: who has not tried again yet."""
    room = await room_by_now(case, namespace, refused)
    if not room:
        return None
    text = f"{what}: the quota was exceeded, but {room}"
    absent = await no_controllers(case)
    if absent is not None:
        return Finding(
            cause=absent.cause,
            sentence=sentence(f"{text}, and {absent.text}"),
            verdict=Verdict.WAITING,
            since=absent.since,
            chain=(broken("controller", absent.text, *absent.evidence),),
        )
    return Finding(
        cause=Cause.SCALING,
        sentence=sentence(f"{text}, and the controller {controller} has not retried yet"),
        verdict=Verdict.WAITING,
        chain=(waiting("admission", room),),
    )


USERS_TOLD: Final = 2


REFUSED_WITHIN: Final = timedelta(hours=1)


REFUSED_LATELY: Final = timedelta(minutes=5)
"""A client that was refused so long ago has retried since, or has stopped retrying."""


async def why_resource_quota(case: Case, quota: Object) -> Finding:
    subject = build_subject(RESOURCE_QUOTAS, quota)
    status = quota.get("status") or NOTHING
    hard: Mapping[str, Any] = (quota.get("spec") or NOTHING).get("hard") or {}
    used: Mapping[str, Any] = status.get("used") or {}
    words = ", ".join(f"{name} {used.get(name, '0')} of {hard[name]}" for name in sorted(hard))
    full = [name for name in sorted(hard) if name in used and parse(str(used[name])) >= parse(str(hard[name]))]
    refused = await _refused(case, subject.namespace, subject.name)
    link = done("used", words, said_by(quota))
    is_freed = bool(refused) and has_room(quota, refused[-1].writes[0])
    if not full and (not refused or is_freed or case.now - moment(refused[-1].at) > REFUSED_LATELY):
        text = f"{subject.words} has room: {words}"
        asked = count(sum(max(each.attempts, 1) for each in refused), "request")
        notes = (f"rejected {asked} in the last hour, the last at {clock(moment(refused[-1].at))}",) if refused else ()
        return Finding(
            cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,), notes=notes
        )
    users = await _largest_users(case, subject.namespace, full or sorted(hard))
    what = (
        f"{subject.words} is exhausted for {listed(full)} ({words})"
        if full
        else f"{subject.words} has too little left ({words})"
    )
    if users:
        what += f", mostly by {users}"
    since = moment(refused[0].at) if refused else None
    chain = [broken("used", words, said_by(quota))]
    involved = []
    if refused:
        last = refused[-1]
        times = sum(max(each.attempts, 1) for each in refused)
        who = f"{last.subject.kind.partition('.')[0]} {last.subject.namespace}/{last.subject.name}"
        what += f"; it rejected {count(times, 'request')}, the last for {who} at {clock(moment(last.at))}"
        chain.append(broken("rejected", shortened(last.outcome.message, 160), build_source(last)))
        involved.append(Involved(last.user or last.component, f"requested {who}", (build_source(last),)))
    return Finding(
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
                size = 1 if resource == "pods" else count_requests(pod).get(resource, 0)
                owner = await _top_owner(case, pod)
                used[owner] = used.get(owner, 0) + size
        largest = sorted((each for each in used if used[each]), key=lambda each: (-used[each], each))
        if largest:
            return listed(f"{each} ({amount(resource, used[each])})" for each in largest[:USERS_TOLD])
    return ""


async def _top_owner(case: Case, obj: Object, kind: str = "Pod") -> str:
    """The workload that an object belongs to in the end: `Deployment web`."""
    for _ in range(3):
        owner = await case.find_owner(obj)
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
        if each.outcome.ending is Ending.REFUSED and each.writes and each.writes[0].quota == name
    ]
