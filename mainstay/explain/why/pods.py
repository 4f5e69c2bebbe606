"""Why a pod is not ready and serving: the first link that is broken on its way there.

made ─► gates ─► queue ─► view ─► filters ─► bind ─► agent ─► ready ─► serving
"""

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS
from mainstay.api.pod_state import created_at, find_condition, get_node_name, is_leaving, parse_time_or_none
from mainstay.api.stages import SERVING_CONDITION, PodStage, find_stage
from mainstay.explain.why.answer import AnswerSource, ChainLink, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    ago,
    broken,
    build_subject,
    clock,
    done,
    listed,
    said_by,
    sentence,
    shortened,
    waiting,
    written,
)
from mainstay.explain.why.removal import leaving


async def of_pod(case: Case, pod: Object, *, is_asked: bool = True) -> Finding:
    """Why a pod is as it is. Not `is_asked`: it is looked at because its workload is asked about."""
    made = await _made(case, pod)
    if is_leaving(pod):
        return (await leaving(case, PODS, pod)).after((made,))
    who, phase = build_subject(PODS, pod).words, (pod.get("status") or NOTHING).get("phase")
    if phase == "Succeeded":
        text = f"{who} succeeded on {get_node_name(pod)}"
        link = done("end", "all containers completed", said_by(pod))
        found = Finding(cause=Cause.COMPLETED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
        return found.after((made,))
    if phase == "Failed":
        bound = await case.rooms.placements().placed(case, pod) if get_node_name(pod) else ()
        return (await case.rooms.containers().failed(case, pod)).after((made, *bound))
    if gates := (pod.get("spec") or NOTHING).get("schedulingGates"):
        names = listed(str(each.get("name")) for each in gates)
        text = f"{who} is not scheduled until its scheduling gates are removed: {names}"
        link = broken(
            "gates", names, AnswerSource(source="spec", revision=int(pod["metadata"].get("resourceVersion") or 0))
        )
        found = Finding(cause=Cause.SCHEDULING_GATED, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))
        return found.after((made,))
    if not get_node_name(pod):
        return (await case.rooms.placements().unplaced(case, pod)).after((made,))
    links = [made, *(await case.rooms.placements().placed(case, pod))]
    return (await _on_its_node(case, pod, who, is_asked)).after(links)


async def _made(case: Case, pod: Object) -> ChainLink:
    metadata = pod["metadata"]
    versions = await case.versions(PODS.text, metadata.get("namespace") or "", metadata["name"])
    first = next((each for each in versions if each.before is None and not each.is_first_known), None)
    if first is None:
        return done("created", f"at {clock(created_at(pod))}; not in the journal", said_by(pod))
    first = await case.reasoned(first)
    reason = f" ({first.who.reason})" if first.who.reason else ""
    return done("created", f"by {first.who.name}{reason}", written(first))


async def _on_its_node(case: Case, pod: Object, who: str, is_asked: bool) -> Finding:
    name = get_node_name(pod)
    trouble = await case.find_trouble(name)
    ready = find_condition(pod, "Ready") or NOTHING
    is_ready = ready.get("status") == "True"
    if trouble is not None and (trouble.is_silent or not is_ready):
        node = await case.get(NODES, name)
        stays = case.rooms.nodes().stays_until(node, pod, case.now) if node is not None else ""
        return Finding(
            cause=trouble.cause,
            sentence=sentence(f"{who} may not be running: its node {trouble.text}{stays}"),
            verdict=Verdict.BLOCKED if trouble.cause is Cause.NODE_DOES_NOT_EXIST else Verdict.WAITING,
            since=trouble.since,
            chain=(trouble.link,),
        )
    stage = find_stage(pod)
    if stage is not None and stage[0] is PodStage.BOUND:
        return case.rooms.containers().not_taken_on(pod, stage[1], case.now)
    containers = case.rooms.containers()
    if not is_ready:
        return await containers.not_started(case, pod) or await containers.not_ready(case, pod)
    restarted = await containers.restarted_lately(case, pod)
    if restarted is not None:
        return restarted
    if is_asked:
        refused = await case.rooms.evictions().eviction_refused(case, pod, who)
        if refused is not None:
            return refused
    return _serving(case, pod, who)


def _serving(case: Case, pod: Object, who: str) -> Finding:
    name, ready = get_node_name(pod), find_condition(pod, "Ready") or NOTHING
    since = parse_time_or_none(ready.get("lastTransitionTime"))
    link = done("ready", f"on {name} since {clock(since)}", said_by(pod, ready))
    served = find_condition(pod, SERVING_CONDITION) or NOTHING
    if served.get("status") == "False" and served.get("reason") != "NotSelected":
        at = parse_time_or_none(served.get("lastTransitionTime"))
        text = f"{who} is ready on {name}, but receives no traffic ({served.get('reason')}): {served.get('message')}"
        unserved = waiting("serving", f"{served.get('reason')}", said_by(pod, served))
        return Finding(
            cause=Cause.NOT_READY_YET,
            sentence=sentence(shortened(text)),
            verdict=Verdict.WAITING,
            since=at,
            chain=(link, unserved),
        )
    links = [link]
    serves = ""
    if served.get("status") == "True":
        serves = " and receives traffic"
        links.append(done("serving", "a Service routes to it", said_by(pod, served)))
    text = f"{who} is ready on {name} since {clock(since)} ({ago(since, case.now)}){serves}"
    return Finding(
        cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, since=since, chain=tuple(links)
    )
