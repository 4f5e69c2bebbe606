"""Why a node accepts no pods, or sends no heartbeats; and what that means for its pods."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from mainstay.api.holds import HoldScope
from mainstay.api.kind import Object
from mainstay.api.kind_names import LEASES, NODES
from mainstay.api.kind_names import PODS as POD_KIND
from mainstay.api.node_health import LEASE_NAMESPACE, RELEASED, TAINTS, HealthState, record_in
from mainstay.api.pod_resources import CPU, MEMORY, PODS, amount, count_requests, is_over, read_allocatable
from mainstay.api.pod_state import find_condition, get_node_name, get_zone, is_active, parse_time_or_none
from mainstay.api.taints import KEEPS_AWAY, NO_EXECUTE, Taint, parse_taints, parse_tolerations, stays_for, untolerated
from mainstay.explain.fields import FieldChange
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import Also, AnswerSource, ChainLink, CureFound, Involved, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    ago,
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
    written,
)
from mainstay.explain.why.removal import Removal
from mainstay.explain.why.trouble import Trouble
from mainstay.explain.writers import Version

NODE_HEALTH: Final = "node-health"
_NAMES: Final = {PODS: "pod slots"}
_UNHEALTHY: Final = (HealthState.SUSPECT, HealthState.UNKNOWN, HealthState.RELEASED)


async def find_trouble(case: Case, name: str) -> Trouble | None:
    """What keeps a node from running its pods. None: it is healthy, as far as is known."""
    node = await case.get(NODES, name)
    if node is None:
        versions = await case.versions(NODES.text, "", name)
        gone = next((each for each in reversed(versions) if each.after is None), None)
        if gone is None:
            source = (AnswerSource(source="no such node"),)
            return Trouble(Cause.NODE_DOES_NOT_EXIST, f"{name} does not exist, nor is it in the journal", None, source)
        text = f"{name} was deleted at {clock(gone.at)} by {gone.who.name}"
        return Trouble(Cause.NODE_LOST, text, gone.at, (written(gone),), is_silent=True)
    record = record_in(node)
    if record.state in _UNHEALTHY:
        return await _silent(case, node)
    ready = find_condition(node, "Ready")
    if ready is not None and ready.get("status") != "True":
        since = parse_time_or_none(ready.get("lastTransitionTime"))
        what = "has been unreachable" if ready.get("status") == "Unknown" else "has reported not ready"
        why = shortened(str(ready.get("message") or ready.get("reason") or ""), 120)
        text = f"{name} {what} since {clock(since)}" + (f" ({why})" if why else "")
        cause = Cause.NODE_LOST if ready.get("status") == "Unknown" else Cause.NODE_NOT_READY
        return Trouble(cause, text, since, (said_by(node, ready),), is_silent=cause is Cause.NODE_LOST)
    late = await _lease_ran_out(case, name)
    if late is not None:
        at, evidence = late
        text = f"{name} has not renewed its lease since {clock(at)}, {ago(at, case.now)} ago"
        return Trouble(Cause.NODE_LOST, text, at, (evidence,), is_silent=True)
    return None


async def in_trouble(case: Case, names: Iterable[str]) -> frozenset[str]:
    """Those nodes that something may be wrong with: they are not there, not ready, or not healthy by their record."""
    well = {
        node["metadata"]["name"]
        for node in await case.all(NODES)
        if record_in(node).state == HealthState.HEALTHY
        and (find_condition(node, "Ready") or NOTHING).get("status") == "True"
    }
    return frozenset(names) - well - {""}


async def last_heard(case: Case, names: Iterable[str]) -> dict[str, datetime]:
    """When nodes last gave a sign, by their leases. Those that have no lease are left out."""
    found = {}
    for name in names:
        lease = await case.get(LEASES, name, LEASE_NAMESPACE)
        renewed = parse_time_or_none(((lease or NOTHING).get("spec") or NOTHING).get("renewTime"))
        if renewed is not None:
            found[name] = renewed
    return found


async def _silent(case: Case, node: Object) -> Trouble:
    name, record = node["metadata"]["name"], record_in(node)
    since = (await last_heard(case, [name])).get(name) or parse_time_or_none(record.since)
    decided = await _decided(case, name)
    evidence = (said_by(node), *decided)
    for_so_long = f"since {clock(since)} ({ago(since, case.now)})"
    if record.state == HealthState.SUSPECT:
        text = f"{name} is late with its heartbeat: none {for_so_long}"
        return Trouble(Cause.NODE_NOT_READY, text, since, evidence)
    silent = f"{name} has sent no heartbeat {for_so_long}"
    if record.state == HealthState.RELEASED:
        text = f"{silent}; its pods are released for eviction"
        return Trouble(Cause.NODE_LOST, text, since, evidence, is_silent=True, because=record.evidence)
    if record.held:
        zone = get_zone(node)
        others = [each for each in await case.all(NODES) if get_zone(each) == zone]
        down = [each["metadata"]["name"] for each in others if record_in(each).state in _UNHEALTHY]
        cause = Cause.EVICTIONS_FROZEN if record.hold else Cause.NODE_LOST
        where = f"zone {zone}" if zone else "the cluster"
        like = f", like {len(down)} of {len(others)} nodes in {where}" if cause is Cause.NODE_LOST else ""
        text = f"{silent}{like}; its pods are not evicted yet: {record.held}"
        return Trouble(cause, text, since, evidence, is_silent=True, because=record.evidence)
    text = f"{silent}; its pods are not evicted yet"
    return Trouble(Cause.NODE_LOST, text, since, evidence, is_silent=True, because=record.evidence)


def stays_until(node: Object, pod: Object, now: datetime) -> str:
    """How long a pod tolerates that its node is lost, in words. Empty: no longer, or it is not being evicted."""
    if not _has_to_go(node):
        return ""
    until = _tolerates_until(node, pod, now)
    if until is None:
        return "; the pod tolerates this indefinitely"
    return f"; the pod tolerates this until {clock(until)}" if until > now else ""


def _stay_until(node: Object, pods: list[Object], now: datetime) -> str:
    """The same of all pods of a node."""
    if not pods or not _has_to_go(node):
        return ""
    all_ends = [_tolerates_until(node, pod, now) for pod in pods]
    ends = sorted(each for each in all_ends if each is not None)
    if not ends:
        return f" and {'tolerates' if len(pods) == 1 else 'tolerate'} this indefinitely"
    stays = f", {len(pods) - len(ends)} of them indefinitely" if len(ends) < len(pods) else ""
    if ends[-1] <= now:
        return f" and no longer {'tolerates' if len(pods) == 1 else 'tolerate'} this{stays}"
    if ends[0] == ends[-1]:
        when = f"until {clock(ends[0])}"
    else:
        when = f"until {clock(ends[0])} (the first) to {clock(ends[-1])} (the last)"
    return f" and {'tolerates' if len(pods) == 1 else 'tolerate'} this {when}{stays}"


def _has_to_go(node: Object) -> bool:
    return any(each.get("effect") == NO_EXECUTE for each in (node.get("spec") or NOTHING).get("taints") or ())


def _tolerates_until(node: Object, pod: Object, now: datetime) -> datetime | None:
    """None: for ever."""
    stays = stays_for(pod, parse_taints(node))
    if stays is None:
        return None
    taints = [each for each in (node.get("spec") or NOTHING).get("taints") or () if each.get("effect") == NO_EXECUTE]
    added = [at for each in taints if (at := parse_time_or_none(each.get("timeAdded"))) is not None]
    return max(added) + stays if added else now


async def _decided(case: Case, name: str) -> tuple[AnswerSource, ...]:
    records = [each for each in await case.records(NODES.text, "", name) if each.component == NODE_HEALTH]
    return (build_source(records[-1]),) if records else ()


async def _lease_ran_out(case: Case, name: str) -> tuple[datetime, AnswerSource] | None:
    """When the last renewal was, if it is too long ago. Nodes that have no lease are judged by their status alone."""
    lease = await case.get(LEASES, name, LEASE_NAMESPACE)
    spec = (lease or NOTHING).get("spec") or NOTHING
    renewed, lasts = parse_time_or_none(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    if lease is None or renewed is None or not lasts:
        return None
    if case.now - renewed <= timedelta(seconds=float(lasts)):
        return None
    return renewed, AnswerSource(source=f"Lease {name}", at=renewed, revision=int(lease["metadata"]["resourceVersion"]))


# Asked about the node itself.


async def why_node(case: Case, node: Object) -> Finding:
    return await _with_refused_evictions(case, node, await _why(case, node))


async def _why(case: Case, node: Object) -> Finding:
    metadata = node["metadata"]
    name, who = metadata["name"], build_subject(NODES, node).words
    links = [await _made(case, node)]
    on_it = [each for each in await case.all(POD_KIND) if get_node_name(each) == name and not is_over(each)]
    involved = tuple(await _frozen(case, name))
    trouble = await find_trouble(case, name)
    if trouble is not None:
        lives = f"; {count(len(on_it), 'pod')} {'is' if len(on_it) == 1 else 'are'} bound to it" if on_it else ""
        lives += _stay_until(node, on_it, case.now) if trouble.is_silent else ""
        return Finding(
            cause=trouble.cause,
            sentence=sentence(f"Node {trouble.text}{lives}"),
            verdict=Verdict.WAITING,
            since=trouble.since,
            chain=(*links, trouble.link),
            involved=involved,
        )
    links.append(done("health", "Ready, lease renewed", said_by(node, find_condition(node, "Ready"))))
    also = []
    found: Finding | None = None
    if (node.get("spec") or NOTHING).get("unschedulable"):
        found = await _cordoned(case, node, who)
    taints = [taint for taint in parse_taints(node) if taint.effect in KEEPS_AWAY]
    if taints and found is None:
        found = await _tainted(case, node, who, taints)
    elif taints and found is not None:
        also.append(
            Also(
                Cause.UNTOLERATED_TAINT,
                f"it has {'taint' if len(taints) == 1 else 'taints'} {listed(map(str, taints))}",
            )
        )
    room, full = _room(node, on_it)
    if found is not None:
        return Finding(
            cause=found.cause,
            sentence=found.sentence,
            verdict=found.verdict,
            since=found.since,
            chain=(*links, *found.chain),
            cures=found.cures,
            involved=(*found.involved, *involved),
            also=tuple(also),
            notes=(room,),
        )
    if full:
        text = f"{who} is full: no {listed(_NAMES.get(each, each) for each in full)} left ({room})"
        link = broken("capacity", room, said_by(node))
        return Finding(
            cause=Cause.NODE_FULL,
            sentence=sentence(text),
            verdict=Verdict.WAITING,
            chain=(*links, link),
            involved=involved,
        )
    return Finding(
        cause=Cause.SATISFIED,
        sentence=sentence(f"{who} is ready and schedulable: {room}"),
        verdict=Verdict.SATISFIED,
        chain=(*links, done("capacity", room, said_by(node))),
        involved=involved,
    )


async def _made(case: Case, node: Object) -> ChainLink:
    versions = await case.versions(NODES.text, "", node["metadata"]["name"])
    first = next((each for each in versions if each.before is None and not each.is_first_known), None)
    if first is None:
        return done("node", f"created at {node['metadata'].get('creationTimestamp')}", said_by(node))
    return done("node", f"created by {first.who.name}", written(first))


async def _cordoned(case: Case, node: Object, who: str) -> Finding:
    name = node["metadata"]["name"]
    versions = await case.versions(NODES.text, "", name)
    last = next((each for each in reversed(versions) if _sets(each.changes, "unschedulable")), None)
    by = f" by {last.who.name} at {clock(last.at)}" if last is not None else ""
    since = last.at if last is not None else None
    evidence = written(last) if last is not None else said_by(node)
    return Finding(
        cause=Cause.NODE_CORDONED,
        sentence=sentence(f"{who} {'was' if by else 'is'} cordoned{by}: no new pods are scheduled to it"),
        verdict=Verdict.BLOCKED,
        since=since,
        chain=(broken("cordon", f"cordoned{by}", evidence),),
        cures=(CureFound(f"uncordon {name}", command=f"kubectl uncordon {name}"),),
        involved=(Involved(last.who.name, f"cordoned it at {clock(last.at)}", (evidence,)),)
        if last is not None
        else (),
    )


async def _tainted(case: Case, node: Object, who: str, taints: list[Taint]) -> Finding:
    name = node["metadata"]["name"]
    versions = await case.versions(NODES.text, "", name)
    last = next((each for each in reversed(versions) if _sets(each.changes, "taints")), None)
    by = f", set by {last.who.name} at {clock(last.at)}" if last is not None else ""
    evidence = written(last) if last is not None else said_by(node)
    words = listed(map(str, taints))
    ours = all(taint in TAINTS for taint in taints)
    text = f"{who} accepts only pods that tolerate {words}{by}"
    return Finding(
        cause=Cause.NODE_NOT_READY if ours else Cause.UNTOLERATED_TAINT,
        sentence=sentence(text),
        verdict=Verdict.WAITING if ours else Verdict.BLOCKED,
        since=last.at if last is not None else None,
        chain=(broken("taints", words, evidence),),
        involved=(Involved(last.who.name, f"set its taints at {clock(last.at)}", (evidence,)),) if last else (),
    )


def _sets(changes: Iterable[FieldChange], field: str) -> bool:
    return any(field in each.path for each in changes)


async def _frozen(case: Case, name: str) -> list[Involved]:
    return [
        Involved(hold.owner, hold.words, (AnswerSource(source=f"Hold {hold.name}", revision=hold.revision),))
        for hold in await case.holds(NODES, name)
        if hold.what is HoldScope.EVICTIONS
    ]


def _room(node: Object, on_it: list[Object]) -> tuple[str, list[str]]:
    """What is left, in words; and of what nothing is."""
    has = read_allocatable(node)
    used: dict[str, int] = {PODS: len(on_it)}
    for pod in on_it:
        for resource, size in count_requests(pod).items():
            if resource != PODS:
                used[resource] = used.get(resource, 0) + size
    shown = [each for each in (CPU, MEMORY, PODS) if each in has]
    left = {each: max(has[each] - used.get(each, 0), 0) for each in shown}
    words = ", ".join(f"{_about(each, left[each])} of {_about(each, has[each])} {each} left" for each in shown)
    return words, [each for each in shown if left[each] == 0 and has[each]]


def _about(resource: str, size: int) -> str:
    """An amount as people say it; of memory in whole Gi, where that is near enough."""
    gi = 1 << 30
    if resource == MEMORY and size >= gi:
        return f"{size / gi:.1f}Gi" if size % gi else f"{size // gi}Gi"
    return amount(resource, size)


async def why_removed(case: Case, told: Version, link: ChainLink) -> Removal:
    """Why node health evicted a pod: its node is lost, or has a taint."""
    obj = told.object
    name = get_node_name(obj)
    condition = find_condition(obj, "DisruptionTarget") or NOTHING
    said = str(condition.get("message") or told.who.reason or "")
    then = await _node_then(case, name, told.revision)
    taints = (
        untolerated(parse_taints(then), parse_tolerations(obj.get("spec") or NOTHING), (NO_EXECUTE,)) if then else ()
    )
    every = [taint for taint in parse_taints(then) if taint.effect == NO_EXECUTE] if then else []
    if any(taint.key == RELEASED.key for taint in every):
        text = f"its node {name} stopped sending heartbeats and was released for eviction"
        return Removal(Cause.NODE_LOST, text, (link,))
    named = listed(str(taint) for taint in (taints or every))
    text = f"it does not tolerate taint {named} of {name}" if named else said or f"a taint of {name}"
    involved: tuple[Involved, ...] = ()
    versions = await case.versions(NODES.text, "", name)
    setting = [
        each
        for each in versions
        if each.revision <= told.revision and any("taints" in one.path for one in each.changes)
    ]
    if setting:
        who = setting[-1].who.name
        text += f"; {who} set it at {clock(setting[-1].at)}"
        involved = (Involved(who, f"set the taints of {name}", (written(setting[-1]),)),)
    return Removal(Cause.EVICTED_BY_TAINT, text, (link,), involved)


async def _node_then(case: Case, name: str, revision: int) -> Object | None:
    versions = [each for each in await case.versions(NODES.text, "", name) if each.revision <= revision]
    if versions:
        return versions[-1].after
    return await case.get(NODES, name)


PODS_LOOKED_AT: Final = 20  # Of a node.


async def _with_refused_evictions(case: Case, node: Object, found: Finding) -> Finding:
    """What is known of a node that is cordoned, and why those do not go that are still there."""
    if found.cause is not Cause.NODE_CORDONED:
        return found
    name = node["metadata"]["name"]
    here = [pod for pod in await case.all(POD_KIND) if get_node_name(pod) == name and is_active(pod)]
    for pod in sorted(here, key=lambda each: each["metadata"]["name"])[:PODS_LOOKED_AT]:
        refused = await case.rooms.evictions().eviction_refused(case, pod, build_subject(POD_KIND, pod).words)
        if refused is not None:
            still = f"{count(len(here), 'pod')} {'is' if len(here) == 1 else 'are'} still on it"
            text = f"{found.sentence.removesuffix('.')}; {still}. {refused.sentence}"
            return replace(found, sentence=shortened(text, 420), chain=(*found.chain, *refused.chain))
    return found


ROOM: Final = WhyRoom(analyser=why_node, remover=why_removed)
