"""Why a Job is not done: it is suspended, its pods wait or fail, its deadline has passed; or it is running."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import JOBS, PODS
from mainstay.api.pod_state import find_condition, is_active, is_leaving, is_ready, parse_time_or_none
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import ChainLink, Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.control import held, not_done
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    broken,
    build_subject,
    clock,
    count,
    done,
    said_by,
    sentence,
    shortened,
    waiting,
    written,
)
from mainstay.explain.why.pods import of_pod
from mainstay.explain.why.refusals import last_refused, refusal_cause
from mainstay.explain.why.removal import Removal, leaving, owner_name
from mainstay.explain.why.resource_quotas import freed
from mainstay.explain.why.workload import find_worst, share, verbs_for
from mainstay.explain.writers import Version

_decode = msgspec.json.Decoder(dict[str, Any]).decode


async def why_job(case: Case, job: Object) -> Finding:
    if is_leaving(job):
        return await leaving(case, JOBS, job)
    subject = build_subject(JOBS, job)
    words, spec, status = subject.words, job["spec"], job.get("status") or NOTHING
    desired, since = await _desired(case, job)
    succeeded = int(status.get("succeeded") or 0)
    wanted = int(spec.get("completions") or spec.get("parallelism") or 1)
    progress = f"{succeeded} of {wanted} completions"
    for name in ("Failed", "FailureTarget"):
        said = find_condition(job, name)
        if said is not None and said.get("status") == "True":
            return (await _failed(case, job, words, dict(said))).after((desired,))
    over = find_condition(job, "Complete")
    if over is not None and over.get("status") == "True":
        at = parse_time_or_none(over.get("lastTransitionTime"))
        link = done("complete", progress, said_by(job, over))
        text = f"{words} completed at {clock(at)}: {progress}"
        found = Finding(
            cause=Cause.COMPLETED, sentence=sentence(text), verdict=Verdict.SATISFIED, since=at, chain=(link,)
        )
        return found.after((desired,))
    if spec.get("suspend"):
        return (await _suspended(case, job, words)).after((desired,))
    pods = await case.owned(PODS, subject.uid)
    active = [pod for pod in pods if is_active(pod)]
    failures = int(status.get("failed") or 0)
    worst = await find_worst(case, [pod for pod in active if not is_ready(pod)])
    if worst is not None:
        found, number, also = worst
        verbs = verbs_for(found.cause)
        text = f"{share(number, len(active), words, '', verbs)} ({progress}): "
        link = done("pods", f"{len(active)} active, {progress}", said_by(job))
        return replace(found, sentence=shortened(text + found.sentence, 420), also=also).after((desired, link))
    parallel = min(int(spec.get("parallelism") or 1), max(wanted - succeeded, 0))
    if len(active) < parallel:
        return (await _not_made(case, job, words, len(active), parallel, since, failures)).after((desired,))
    text = f"{words} is running: {progress}, {count(len(active), 'active pod')}"
    link = waiting("pods", f"{len(active)} active, {progress}", said_by(job))
    notes = (f"{count(failures, 'pod')} failed so far",) if failures else ()
    found = Finding(cause=Cause.RUNNING, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,), notes=notes)
    return found.after((desired,))


async def _desired(case: Case, job: Object) -> tuple[ChainLink, datetime | None]:
    subject, spec = build_subject(JOBS, job), job["spec"]
    versions = await case.versions(JOBS.text, subject.namespace, subject.name)
    first = next((each for each in versions if each.before is None and not each.is_first_known), None)
    text = (
        f"{count(spec.get('completions') or spec.get('parallelism') or 1, 'completion')}, "
        f"parallelism {spec.get('parallelism', 1)}"
    )
    if first is None:
        return done("desired", text, said_by(job)), pod_state.created_at(job)
    return done("desired", f"{text}, by {first.who.user or first.who.name}", written(first)), first.at


async def _suspended(case: Case, job: Object, words: str) -> Finding:
    subject = build_subject(JOBS, job)
    versions = await case.versions(JOBS.text, subject.namespace, subject.name)
    set_at = next(
        (each for each in reversed(versions) if any(change.path == ("spec", "suspend") for change in each.changes)),
        next((each for each in versions if each.before is None and not each.is_first_known), None),
    )
    by = f" by {set_at.who.user or set_at.who.name} at {clock(set_at.at)}" if set_at is not None else ""
    evidence = written(set_at) if set_at is not None else said_by(job)
    return Finding(
        cause=Cause.SUSPENDED,
        sentence=sentence(f"{words} {'was' if by else 'is'} suspended{by}, so it has no pods"),
        verdict=Verdict.BLOCKED,
        since=set_at.at if set_at is not None else None,
        chain=(broken("controller", f"suspended{by}", evidence),),
    )


async def _failed(case: Case, job: Object, words: str, said: dict[str, str]) -> Finding:
    """The Job says that it has failed; its pods say why."""
    reason, message = said.get("reason", ""), said.get("message", "")
    since = parse_time_or_none(said.get("lastTransitionTime"))
    link = broken("job", f"{reason}: {shortened(message, 120)}", said_by(job, said))
    if reason == "DeadlineExceeded":
        seconds = job["spec"].get("activeDeadlineSeconds")
        text = f"{words} exceeded its activeDeadlineSeconds of {seconds} (DeadlineExceeded)"
        below = await _last_failure(case, job)
        if below is not None:
            text += f". {below.sentence}"
        return Finding(
            cause=Cause.DEADLINE_EXCEEDED,
            sentence=sentence(shortened(text, 400)),
            verdict=Verdict.BLOCKED,
            since=since,
            chain=(link,),
        )
    failures = int((job.get("status") or NOTHING).get("failed") or 0)
    text = f"{words} failed ({reason}) after {count(failures, 'failed pod')}"
    below = await _last_failure(case, job)
    if below is None:
        case.gaps["the journal has none of its failed pods, so why they failed is unknown"] = None
        said_text = sentence(shortened(f"{text}: {message}", 400))
    else:
        said_text = shortened(f"{text}: {below.sentence}", 420)
    return Finding(
        cause=Cause.BACKOFF_LIMIT_EXCEEDED,
        sentence=said_text,
        verdict=Verdict.BLOCKED,
        since=since,
        chain=(link, *(below.chain if below is not None else ())),
        about=below.about if below is not None else None,
    )


async def _last_failure(case: Case, job: Object) -> Finding | None:
    """Why the last of its pods failed, also if it is gone by now."""
    uid, namespace = job["metadata"].get("uid", ""), job["metadata"].get("namespace") or ""
    failed = [pod for pod in await case.owned(PODS, uid) if (pod.get("status") or NOTHING).get("phase") == "Failed"]
    if not failed:
        changes = await case.journal.changes(kind=PODS.text, namespace=namespace, until=case.moment.revision)
        seen: dict[str, Object] = {}
        for version in changes.records:
            if version.value is None:
                continue
            pod = _decode(version.value)
            owners = pod["metadata"].get("ownerReferences") or ()
            if (
                any(each.get("uid") == uid for each in owners)
                and (pod.get("status") or NOTHING).get("phase") == "Failed"
            ):
                seen[pod["metadata"]["name"]] = pod
        failed = list(seen.values())
    if not failed:
        return None
    last = max(failed, key=lambda pod: (pod_state.created_at(pod), pod["metadata"]["name"]))
    plain = {**last, "metadata": {**last["metadata"], "deletionTimestamp": None}}
    return replace(await of_pod(case, plain, is_asked=False), about=build_subject(PODS, last))


async def _not_made(
    case: Case, job: Object, words: str, there: int, wanted: int, since: datetime | None, failures: int
) -> Finding:
    what = f"{there} of {wanted} pods of {words} {'exists' if there == 1 else 'exist'}"
    hold = await held(case, JOBS, job, ("job",), what)
    if hold is not None:
        return hold
    subject = build_subject(JOBS, job)
    records = await case.records(JOBS.text, subject.namespace, subject.name, subject.uid)
    own = [each for each in records if each.component == "job"]
    if (refused := last_refused(own)) is not None:
        message = own[-1].outcome.message
        if (later := await freed(case, subject.namespace, refused, what, "job")) is not None:
            return later
        cause, verdict = refusal_cause(refused.cause)
        text = f"{what}, and the API server rejects more: {message}"
        link = broken("admission", shortened(message, 200), said_by(job))
        return Finding(cause=cause, sentence=sentence(shortened(text, 400)), verdict=verdict, chain=(link,))
    if failures:
        below = await _last_failure(case, job)
        if below is not None:
            text = f"{what}: {count(failures, 'pod')} failed, backing off. {below.sentence}"
            return replace(below, sentence=shortened(text, 420), verdict=Verdict.WAITING)
    return await not_done(case, JOBS, job, "job", what, since)


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    """Why the Job controller removed a pod, or the Job itself."""
    obj = told.object
    name = owner_name(obj)
    if not name:  # It is the Job itself.
        seconds = (obj.get("spec") or NOTHING).get("ttlSecondsAfterFinished")
        text = f"it finished, and its ttlSecondsAfterFinished of {seconds} expired"
        return Removal(Cause.COMPLETED, text, (link,))
    job = await case.get(JOBS, name, obj["metadata"].get("namespace") or "") if name else None
    for each in ("FailureTarget", "Failed", "SuccessCriteriaMet", "Complete", "Suspended"):
        said = find_condition(job, each) if job is not None else None
        if said is not None and said.get("status") == "True" and each == "Suspended":
            return await _by_suspending(case, obj, name, link)
        if said is not None and said.get("status") == "True":
            text = f"Job {name} finished ({said.get('reason')}): {said.get('message')}"
            cause = {"Complete": Cause.COMPLETED, "SuccessCriteriaMet": Cause.COMPLETED}
            return Removal(cause.get(each, Cause.BACKOFF_LIMIT_EXCEEDED), shortened(text), (link,))
    reason = f" ({told.who.reason})" if told.who.reason else ""
    return Removal(Cause.SCALED_DOWN, f"Job {name} no longer needs it{reason}", (link,))


async def _by_suspending(case: Case, obj: Object, name: str, link: ChainLink) -> Removal:
    versions = await case.versions(JOBS.text, obj["metadata"].get("namespace") or "", name)
    setting = [each for each in versions if any(one.path == ("spec", "suspend") for one in each.changes)]
    if not setting:
        return Removal(Cause.SUSPENDED, f"Job {name} is suspended", (link,))
    last = setting[-1]
    who = last.who.user or last.who.name
    text = f"{who} suspended Job {name} at {clock(last.at)}"
    links = (done("desired", text, written(last)), link)
    return Removal(Cause.SUSPENDED, text, links, (Involved(who, f"suspended {name}", (written(last),)),))


ROOM: Final = WhyRoom(analyser=why_job, remover=why_removed)
