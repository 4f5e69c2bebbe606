"""Why a pod that has its node is not ready: what its agent says of each container, and what the node itself is like."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.agent.pod.record import COMPONENT as AGENT
from mainstay.agent.pod.why.ends import START_ERROR, Ends, find_ends, is_shaky, list_container_statuses
from mainstay.agent.pod.why.kubelet_text import find_probe
from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, PODS, SECRETS
from mainstay.api.pod_state import find_condition, get_node_name, parse_time_or_none
from mainstay.explain.why.answer import Also, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause, gravity
from mainstay.explain.why.found import (
    NOTHING,
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
from mainstay.journal.record import DecisionRecord

TAKEN_ON_WITHIN: Final = timedelta(seconds=10)
_IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_CONFIG: Final = frozenset({"CreateContainerConfigError"})
_NO_NEWS: Final = frozenset({"", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"})
"""What is not a reason of its own: every container waits for that at first, or has ended before."""
_PROBES: Final = {
    "Liveness": Cause.LIVENESS_PROBE_FAILING,
    "Startup": Cause.STARTUP_PROBE_FAILING,
    "Readiness": Cause.READINESS_PROBE_FAILING,
}
_PROBE_FIELDS: Final = {"livenessProbe": "Liveness", "startupProbe": "Startup", "readinessProbe": "Readiness"}
"""The actions of Events `Unhealthy`."""
_KINDS: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


async def not_started(case: Case, pod: Object) -> Finding | None:
    """Why a container waits or keeps exiting. None: its status says neither."""
    who = build_subject(PODS, pod).words
    probes = await _failed_probes(case, pod)
    all_found = []
    for status in list_container_statuses(pod):
        ends = await find_ends(case, pod, str(status.get("name") or ""))
        found = _waits(pod, who, status, probes, ends, case.now)
        if found is not None:
            all_found.append((found, _missing(status)))
    if not all_found:
        return None
    (worst, missing), *others = sorted(all_found, key=lambda each: gravity(each[0].cause))
    also = tuple(Also(each.cause, each.sentence) for each, _ in others)
    return await _unless_there_by_now(case, pod, missing, replace(worst, also=also))


def _missing(status: Mapping[str, Any]) -> str:
    """What a container waits for that does not exist, as its agent names it: `Secret/db`."""
    return str(((status.get("state") or NOTHING).get("waiting") or NOTHING).get("missing") or "")


async def _unless_there_by_now(case: Case, pod: Object, missing: str, found: Finding) -> Finding:
    """The same; and that what was missing is there by now, and the agent has not tried again."""
    word, _, name = missing.partition("/")
    if found.cause is not Cause.CONFIG_MISSING or word not in _KINDS or "/" in name:  # Or only a key is missing.
        return found
    if await case.get(_KINDS[word], name, pod["metadata"].get("namespace") or "") is None:
        return found
    text = f"{found.sentence.removesuffix('.')}; it exists now, and the agent has not retried yet"
    return replace(found, sentence=sentence(text), verdict=Verdict.WAITING)


async def restarted_lately(case: Case, pod: Object) -> Finding | None:
    """Whether a pod that is ready at this moment is restarted so often that this says little."""
    who = build_subject(PODS, pod).words
    for status in list_container_statuses(pod):
        if not is_shaky(status, case.now):
            continue
        ends = await find_ends(case, pod, str(status.get("name") or ""))
        found = _waits(pod, who, status, await _failed_probes(case, pod), ends, case.now)
        if found is not None:
            text = found.sentence.removesuffix(".")
            said = sentence(f"{text}; at the moment it is ready")
            return replace(found, sentence=said, verdict=Verdict.WAITING)
    return None


def was_restarted_lately(pod: Object, now: datetime) -> bool:
    """Whether a pod may be one of those that `restarted_lately` has something to say about."""
    return any(is_shaky(status, now) for status in list_container_statuses(pod))


async def not_ready(case: Case, pod: Object) -> Finding:
    """Why a pod whose containers have started is not ready."""
    who, node = build_subject(PODS, pod).words, get_node_name(pod)
    probes = await _failed_probes(case, pod)
    spec = {each.get("name"): each for each in (pod.get("spec") or NOTHING).get("containers") or ()}
    ready = find_condition(pod, "Ready") or NOTHING
    since = parse_time_or_none(ready.get("lastTransitionTime"))
    for status in (pod.get("status") or NOTHING).get("containerStatuses") or ():
        name = status.get("name", "")
        running = (status.get("state") or NOTHING).get("running")
        container: Mapping[str, Any] = spec.get(name) or NOTHING
        ended = (status.get("state") or NOTHING).get("terminated") or NOTHING
        if ended and (pod.get("spec") or NOTHING).get("restartPolicy") != "Never":
            how = _ended(pod, name, ended)
            text = f"container {name} of {who} {how} on {node} and is being restarted"
            link = waiting("agent", f"container {name} {how}", said_by(pod, ready))
            text = sentence(text[0].upper() + text[1:])
            return Finding(cause=Cause.RESTARTING, sentence=text, verdict=Verdict.WAITING, since=since, chain=(link,))
        if status.get("ready") or running is None:
            continue
        started_at = parse_time_or_none(running.get("startedAt"))
        kind = "Startup" if not status.get("started") and container.get("startupProbe") else "Readiness"
        probe = container.get("startupProbe" if kind == "Startup" else "readinessProbe")
        if probe is None:
            continue
        told = probes.get((name, kind), "")
        if told or _is_late(probe, started_at, case.now):
            why = f": {told}" if told else ""
            text = f"{who} is running on {node}, but the {kind.lower()} probe of container {name} fails{why}"
            link = broken("ready", f"{kind.lower()} probe ({_probe_words(probe)}) fails{why}", said_by(pod, ready))
            return Finding(
                cause=_PROBES[kind],
                sentence=sentence(shortened(text)),
                verdict=Verdict.WAITING,
                since=since,
                chain=(link,),
            )
        text = f"{who} is running on {node} since {clock(started_at)}, but its {kind.lower()} probe has not passed yet"
        link = waiting("ready", f"{kind.lower()} probe ({_probe_words(probe)})", said_by(pod, ready))
        return Finding(
            cause=Cause.NOT_READY_YET, sentence=sentence(text), verdict=Verdict.WAITING, since=since, chain=(link,)
        )
    if ready.get("reason") == "ReadinessGatesNotReady":
        text = f"{who} is running and waits for its readiness gates: {ready.get('message')}"
        link = waiting("ready", str(ready.get("message") or ""), said_by(pod, ready))
        return Finding(cause=Cause.NOT_READY_YET, sentence=sentence(text), verdict=Verdict.WAITING, chain=(link,))
    text = f"{who} is starting on {node}" + (f" (for {ago(since, case.now)})" if since is not None else "")
    link = waiting("agent", str(ready.get("message") or "starting"), said_by(pod, ready))
    return Finding(cause=Cause.STARTING, sentence=sentence(text), verdict=Verdict.WAITING, since=since, chain=(link,))


async def failed(case: Case, pod: Object) -> Finding:
    """Why a pod has failed for good."""
    who, node = build_subject(PODS, pod).words, get_node_name(pod)
    status = pod.get("status") or NOTHING
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    agent = await _last_of_agent(case, pod)
    evidence = (said_by(pod), *((build_source(agent),) if agent is not None else ()))
    if reason == "DeadlineExceeded":
        seconds = (pod.get("spec") or NOTHING).get("activeDeadlineSeconds")
        text = f"{who} was terminated on {node}: it exceeded its activeDeadlineSeconds of {seconds}"
        link = broken("agent", text, *evidence)
        return Finding(cause=Cause.DEADLINE_EXCEEDED, sentence=sentence(text), verdict=Verdict.BLOCKED, chain=(link,))
    for each in list_container_statuses(pod):
        ended = (each.get("state") or NOTHING).get("terminated") or NOTHING
        if ended and int(ended.get("exitCode") or 0) != 0:
            how = _ended(pod, str(each.get("name") or ""), ended)
            text = f"{who} failed: its container {each.get('name')} {how} on {node}"
            link = broken("agent", f"container {each.get('name')} {how}", *evidence)
            since = parse_time_or_none(ended.get("finishedAt"))
            is_wrong = ended.get("reason") == START_ERROR
            failing = Cause.CONTAINER_CANNOT_START if is_wrong else Cause.CONTAINER_FAILED
            advice = "" if is_wrong else _read_log(pod, str(each.get("name") or ""))
            return Finding(
                cause=failing,
                sentence=sentence(text),
                verdict=Verdict.BLOCKED,
                since=since,
                chain=(link,),
                advice=advice,
            )
    if reason in ("NodeLost", "Terminated", "Evicted", "Preempting"):
        text = f"{who} was terminated on {node} ({reason}): {message}"
        link = broken("agent", shortened(message), *evidence)
        cause = Cause.NODE_LOST if reason == "NodeLost" else Cause.EVICTED
        return Finding(cause=cause, sentence=sentence(shortened(text)), verdict=Verdict.BLOCKED, chain=(link,))
    if reason:
        text = f"the agent of {node} rejected {who} ({reason}): {message}"
        link = broken("agent", f"{reason}: {shortened(message, 160)}", *evidence)
        return Finding(
            cause=Cause.AGENT_REFUSED,
            sentence=sentence(shortened(text[0].upper() + text[1:])),
            verdict=Verdict.BLOCKED,
            chain=(link,),
        )
    text = f"{who} failed on {node}, and its status has no reason"
    return Finding(
        cause=Cause.NOT_RECORDED,
        sentence=sentence(text),
        verdict=Verdict.INCOMPLETE,
        chain=(broken("agent", "Failed", *evidence),),
    )


# Containers.


def _waits(
    pod: Object,
    who: str,
    status: Mapping[str, Any],
    probes: Mapping[tuple[str, str], str],
    ends: Ends,
    now: datetime,
) -> Finding | None:
    name, node = str(status.get("name") or ""), get_node_name(pod)
    held: Mapping[str, Any] = (status.get("state") or NOTHING).get("waiting") or NOTHING
    reason, message = str(held.get("reason") or ""), str(held.get("message") or "")
    restarts = int(status.get("restartCount") or 0)
    ready = find_condition(pod, "Ready")
    since = parse_time_or_none((ready or NOTHING).get("lastTransitionTime"))

    def blocked(cause: Cause, text: str, short: str) -> Finding:
        link = broken("agent", short, said_by(pod, ready))
        said = sentence(shortened(text))
        return Finding(cause=cause, sentence=said, verdict=Verdict.BLOCKED, since=since, chain=(link,))

    if reason in _IMAGE:
        image = str(_find_container_spec(pod, name).get("image") or status.get("image") or "")
        text = f"{who} does not start on {node}: the image {image} of container {name} cannot be pulled ({reason})"
        if message and image not in message:
            text += f": {message}"
        return blocked(Cause.IMAGE_UNAVAILABLE, text, f"{reason}: {shortened(message or image, 120)}")
    if reason in _CONFIG or _missing(status):
        text = f"container {name} of {who} cannot be configured on {node}: {message}"
        return blocked(Cause.CONFIG_MISSING, text[0].upper() + text[1:], f"{reason}: {shortened(message, 120)}")
    if reason == "CommandRequired":
        text = f"container {name} of {who} cannot be started on {node}: {message}"
        return blocked(Cause.COMMAND_MISSING, text[0].upper() + text[1:], f"{reason}: {shortened(message, 120)}")
    if reason == "LeaseNotHeld":
        text = f"{who} must run at most once, and {node} does not hold its lease: {message}"
        return blocked(Cause.NODE_FENCED, text, message)
    if reason == "ContainerCreating" and message:
        text = f"{who} is starting on {node}: {message}"
        link = waiting("agent", shortened(message, 120), said_by(pod, ready))
        said = sentence(shortened(text))
        return Finding(cause=Cause.STARTING, sentence=said, verdict=Verdict.WAITING, since=since, chain=(link,))
    if reason not in _NO_NEWS:
        text = f"container {name} of {who} cannot be started on {node} ({reason})" + (f": {message}" if message else "")
        return blocked(Cause.CONTAINER_CANNOT_START, text[0].upper() + text[1:], f"{reason}: {shortened(message, 120)}")
    if (status.get("state") or NOTHING).get("running") and not is_shaky(status, now):
        return None
    ended_by, last = _ended_by_probe(name, probes), ends.last
    is_looping = reason == "CrashLoopBackOff" or (restarts >= 2 and ends.fails_often)
    if ended_by and (is_looping or restarts):
        since = ends.since(only_failures=False) or since
        kind, told = ended_by
        why = f": {told}" if told else ""
        again = "keeps restarting" if restarts > 1 else "was restarted"
        text = f"{who} {again} on {node} ({count(restarts, 'restart')}): its {kind.lower()} probe fails{why}"
        return blocked(_PROBES[kind], text, f"{kind.lower()} probe of {name} fails{why}")
    if not is_looping:
        return None
    since = ends.since(only_failures=reason != "CrashLoopBackOff") or since
    if last.get("reason") == START_ERROR:
        text = f"container {name} of {who} cannot be started on {node}: {last.get('message') or START_ERROR}"
        text = f"{text[0].upper()}{text[1:]} (tried {count(restarts + 1, 'time')})"
        return blocked(Cause.CONTAINER_CANNOT_START, text, f"container {name} {_ended(pod, name, last)}")
    once, often = ("crashed", "keeps crashing") if int(last.get("exitCode") or 0) else ("exited", "keeps exiting")
    again = "is in CrashLoopBackOff" if reason == "CrashLoopBackOff" else often if restarts > 1 else once
    how = _ended(pod, name, last)
    text = f"{who} {again} on {node}: container {name} {how} ({count(restarts, 'restart')})"
    found = blocked(Cause.CRASH_LOOP, text, f"container {name} {how}")
    return replace(found, advice=_read_log(pod, name, is_previous=True))


def _read_log(pod: Object, container: str, *, is_previous: bool = False) -> str:
    """What to do, as it can be pasted."""
    metadata = pod["metadata"]
    previous = " --previous" if is_previous else ""
    where = f"-c {container} -n {metadata.get('namespace') or 'default'}"
    return f"Read its log: `mainstay logs {metadata['name']} {where}{previous}`."


def _find_container_spec(pod: Object, name: str) -> Mapping[str, Any]:
    spec = pod.get("spec") or NOTHING
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return next((each for each in containers if each.get("name") == name), NOTHING)


def _ended(pod: Object, name: str, ended: Mapping[str, Any]) -> str:
    """How a container ended: `exited with code 1`, `was OOM-killed (limit 64Mi)`."""
    if not ended:
        return "exited"
    code, reason = int(ended.get("exitCode") or 0), str(ended.get("reason") or "")
    signal = int(ended.get("signal") or 0)
    how = f"was killed by signal {signal}" if signal else f"exited with code {code}"
    also = f" ({reason})" if reason and reason not in ("Error", "Completed") else ""
    if reason == "OOMKilled":
        limit = ((_find_container_spec(pod, name).get("resources") or NOTHING).get("limits") or NOTHING).get("memory")
        how, also = "was OOM-killed", f" (limit {limit})" if limit else ""
    message = str(ended.get("message") or "")
    return f"{how}{also}" + (f": {shortened(message, 100)}" if message else "")


# Probes.


async def _failed_probes(case: Case, pod: Object) -> dict[tuple[str, str], str]:
    """By container and probe: what the last failure said."""
    found: dict[tuple[str, str], str] = {}
    for event in await case.events(pod, ("Unhealthy",)):
        path = str((event.get("involvedObject") or NOTHING).get("fieldPath") or "")
        name = path.partition("{")[2].rstrip("}")
        message = str(event.get("message") or event.get("note") or "")
        kind = _PROBE_FIELDS.get(str(event.get("action") or "")) or find_probe(message)
        if kind:
            # The probe is named beside it: only what it said is of interest.
            found[name, kind] = shortened(message.removeprefix(f"{kind} probe failed:").strip(), 140)
    return found


def _ended_by_probe(name: str, probes: Mapping[tuple[str, str], str]) -> tuple[str, str] | None:
    for kind in ("Liveness", "Startup"):
        if (name, kind) in probes:
            return kind, probes[name, kind]
    return None


def _is_late(probe: Mapping[str, Any], started_at: datetime | None, now: datetime) -> bool:
    """Whether it has had the time to fail as often as counts."""
    if started_at is None:
        return False
    period, threshold = int(probe.get("periodSeconds") or 10), int(probe.get("failureThreshold") or 3)
    allowed = int(probe.get("initialDelaySeconds") or 0) + period * threshold
    return (now - started_at).total_seconds() > allowed


def _probe_words(probe: Mapping[str, Any]) -> str:
    if http := probe.get("httpGet"):
        return f"GET {http.get('path') or '/'} on port {http.get('port')}"
    if tcp := probe.get("tcpSocket"):
        return f"connection to port {tcp.get('port')}"
    if command := (probe.get("exec") or NOTHING).get("command"):
        return shortened(f"command {' '.join(str(each) for each in command)}", 60)
    return "probe"


async def _last_of_agent(case: Case, pod: Object) -> DecisionRecord | None:
    """The agent's last decision about a pod, if it has recorded one."""
    metadata = pod["metadata"]
    records = await case.records(PODS.text, metadata.get("namespace") or "", metadata["name"], metadata.get("uid", ""))
    own = [each for each in records if each.component == AGENT]
    return own[-1] if own else None


def not_taken_on(pod: Object, since: datetime | None, now: datetime) -> Finding:
    """The pod is bound, and the agent has not said anything about it."""
    who, name = build_subject(PODS, pod).words, get_node_name(pod)
    is_late = since is not None and now - since > TAKEN_ON_WITHIN
    text = f"{who} is bound to {name} for {ago(since, now)}, but the agent of {name} has not acknowledged it"
    if is_late:
        link = broken("agent", f"{name} has not acknowledged it for {ago(since, now)}", said_by(pod))
        seems = f"{text}, although its lease is renewed: the agent does not see the pod or cannot report"
        return Finding(
            cause=Cause.AGENT_SILENT, sentence=sentence(seems), verdict=Verdict.WAITING, since=since, chain=(link,)
        )
    link = waiting("agent", f"{name} has not acknowledged it yet", said_by(pod))
    return Finding(cause=Cause.STARTING, sentence=sentence(f"{text} yet"), verdict=Verdict.WAITING, chain=(link,))
