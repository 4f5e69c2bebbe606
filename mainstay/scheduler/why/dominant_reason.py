"""Which of the reasons why no node takes a pod is *the* reason. Plain functions over a replayed placement.

Each node that refuses a pod has one reason or several. Reasons are ordered by how far they put a node from taking the
pod: one that the pod itself excludes is further away than one that is full, and that is further than one that is only
cordoned for a while. A node counts by the furthest of its reasons; the pod waits for the nearest of its nodes. So of
"nine nodes have other labels, one is full" the cause is that the one is full; of "two zones are full, in the third the
quota is used up" it is the quota.

What the reasons do not tell is found by trial: whether the pod would fit without the reservations of others, and
whether the nodes together have what none of them has alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from mainstay.api.annotations import RESERVATION
from mainstay.api.kind import Object
from mainstay.api.node_health import UNREACHABLE, record_in
from mainstay.api.node_terms import parse_requirements
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import CPU, MEMORY, amount, conflicts, is_over, list_host_ports, read_allocatable
from mainstay.api.pod_state import get_node_name
from mainstay.api.quantity import parse
from mainstay.api.reservations import is_active
from mainstay.api.taints import KEEPS_AWAY, parse_taints, parse_tolerations, untolerated
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.explain.why.answer import NodeVerdict, Verdict, Verdicts
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import NOTHING, clock, count, listed
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Refusal
from mainstay.scheduler.what_if import Objects
from mainstay.scheduler.why.verdicts import (
    HEALTH_TAINTS,
    Against,
    Distance,
    PodView,
    against,
    by_reason,
    each_node,
    label,
    short,
)

RESERVATIONS_TRIED_MAX: Final = 20
NAMED_MAX: Final = 3

_CAUSES: Final[Mapping[Distance, tuple[Cause, Verdict]]] = {
    Distance.OTHER_NODE_NAMED: (Cause.NODE_DOES_NOT_EXIST, Verdict.BLOCKED),
    Distance.NODE_AFFINITY: (Cause.NODE_AFFINITY, Verdict.BLOCKED),
    Distance.RESERVED_ELSEWHERE: (Cause.RESERVED_ELSEWHERE, Verdict.WAITING),
    Distance.TAINT: (Cause.UNTOLERATED_TAINT, Verdict.BLOCKED),
    Distance.TOPOLOGY_LABEL: (Cause.TOPOLOGY_LABEL_MISSING, Verdict.BLOCKED),
    Distance.TOO_SMALL: (Cause.NODE_TOO_SMALL, Verdict.BLOCKED),
    Distance.PORT: (Cause.PORT_TAKEN, Verdict.WAITING),
    Distance.ROOM: (Cause.INSUFFICIENT_RESOURCES, Verdict.WAITING),
    Distance.SPREAD: (Cause.TOPOLOGY_SPREAD, Verdict.WAITING),
    Distance.POLICY_SPREAD: (Cause.POLICY_SPREAD, Verdict.WAITING),
    Distance.QUOTA: (Cause.ZONE_QUOTA_EXCEEDED, Verdict.WAITING),
    Distance.CORDON: (Cause.NODE_CORDONED, Verdict.BLOCKED),
    Distance.GHOSTS: (Cause.HELD_BY_GHOSTS, Verdict.WAITING),
    Distance.HEALTH: (Cause.NODE_LOST, Verdict.WAITING),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Why no node takes a pod."""

    cause: Cause
    verdict: Verdict
    text: str
    """What comes after "has no node: "; without a full stop."""
    about: tuple[str, ...] = ()
    """The nodes that the cause is about."""
    quota: str = ""
    """The ZoneQuota that the cause is about."""
    reservation: str = ""
    nodes: tuple[Verdicts, ...] = ()
    each_node: tuple[NodeVerdict, ...] = ()
    others: tuple[str, ...] = ()
    """What else holds for other nodes, in words."""


def judged(
    objects: Objects,
    pod: Object,
    policy: Policy,
    seed: str,
    refusals: Sequence[Refusal],
    heard: Mapping[str, datetime] = NOTHING,
) -> Judged:
    """Find the dominant one of the reasons for which all nodes refuse a pod. `heard`: when nodes last gave a sign."""
    nodes = {node["metadata"]["name"]: node for node in objects.nodes}
    if not nodes:
        text = "the cluster has no nodes"
        return Judged(cause=Cause.NO_NODES, verdict=Verdict.WAITING, text=text)
    view = PodView(objects, pod, policy, seed, nodes, against(refusals, nodes, pod))
    distances = {name: min(each.distance for each in view.against[name]) for name in view.against}
    nearest = max(distances.values())
    about = tuple(sorted(name for name, each in distances.items() if each is nearest))
    found = _told(view, nearest, about, heard)
    others = []
    untold = {name: each for name, each in distances.items() if each is not nearest and name not in found.about}
    for distance in sorted(set(untold.values()), reverse=True):
        names = sorted(name for name, each in untold.items() if each is distance)
        others.append(_others(view, distance, names))
    others += _besides(view, found.about, nearest)
    return replace(
        found,
        nodes=by_reason(refusals, view),
        each_node=each_node(view),
        others=() if nearest in (Distance.SPREAD, Distance.POLICY_SPREAD) else tuple(others),  # It has told of them.
    )


# The cause in words.


def _told(view: PodView, nearest: Distance, about: tuple[str, ...], heard: Mapping[str, datetime]) -> Judged:
    cause, verdict = _CAUSES[nearest]
    made = Judged(cause=cause, verdict=verdict, text="", about=about)
    are = _are(view, about)
    match nearest:
        case Distance.OTHER_NODE_NAMED:
            name = view.of(about[0], nearest)[0].detail
            return replace(made, text=f"it requires node {name}, which does not exist")
        case Distance.NODE_AFFINITY:
            return _affinity(view, made)
        case Distance.RESERVED_ELSEWHERE:
            where = view.of(about[0], nearest)[0].detail
            return replace(made, text=f"its Reservation is on {where}, and it can run nowhere else")
        case Distance.TAINT:
            taints = sorted({_first_taint(view, name) for name in about})
            have = "has" if len(about) == 1 else "have"
            return replace(made, text=f"{are} {have} {_untolerated(taints)}")
        case Distance.TOPOLOGY_LABEL:
            keys = sorted({each.detail for name in about for each in view.of(name, nearest)})
            lack = "lacks" if len(about) == 1 else "lack"
            return replace(made, text=f"{are} {lack} the label {listed(keys)} of its topology spread constraint")
        case Distance.TOO_SMALL:
            return _too_small(view, made)
        case Distance.PORT:
            return replace(made, text=_ports(view, about))
        case Distance.ROOM:
            return _room(view, made)
        case Distance.SPREAD:
            said = view.of(about[0], nearest)[0]
            return replace(made, text=_spread(view, about, said.detail, f"maxSkew {said.wanted} over {said.detail}"))
        case Distance.POLICY_SPREAD:
            said = view.of(about[0], nearest)[0]
            bound = f"maxZoneSkew {said.wanted} of PlacementPolicy {said.detail}"
            return replace(made, text=_spread(view, about, ZONE_LABEL, bound))
        case Distance.QUOTA:
            return _quota(view, made)
        case Distance.CORDON:
            is_ = "is" if len(about) == 1 else "are"
            return replace(made, text=f"{_named(view, about)} {is_} cordoned but would have room")
        case Distance.GHOSTS:
            return replace(made, text=_ghosts(view, about))
        case Distance.HEALTH:
            return _health(view, made, heard)


def _are(view: PodView, about: Sequence[str]) -> str:
    """`node-a`, `both nodes`, `all 5 nodes`, `3 of 5 nodes (a, b, c)`."""
    if len(about) == 1:
        return about[0] if len(view.nodes) > 1 else f"the only node, {about[0]},"
    if len(about) == len(view.nodes):
        return "both nodes" if len(about) == 2 else f"all {len(about)} nodes"
    return f"{len(about)} of {len(view.nodes)} nodes ({listed(about)})"


def _named(view: PodView, about: Sequence[str]) -> str:
    """The same, with the names of a few: to act on each of them one needs to know which."""
    if len(about) == len(view.nodes) and 1 < len(about) <= NAMED_MAX:
        return f"{_are(view, about)} ({listed(about)})"
    return _are(view, about)


def _first_taint(view: PodView, name: str) -> str:
    found = untolerated(parse_taints(view.nodes[name]), parse_tolerations(view.pod["spec"]), KEEPS_AWAY)
    own = [taint for taint in found if not taint.key.startswith(HEALTH_TAINTS)]
    return str((own or list(found))[0])


def _untolerated(taints: Sequence[str]) -> str:
    return f"the untolerated {'taint' if len(taints) == 1 else 'taints'} {listed(taints)}"


def _affinity(view: PodView, made: Judged) -> Judged:
    """What the pod requires and no node has, and what nodes have instead."""
    requirements = parse_requirements(view.pod["spec"])
    wanted = [*requirements.selector.requirements]
    if requirements.terms is not None and len(requirements.terms) == 1:
        wanted += requirements.terms[0].labels
    labels = [node["metadata"].get("labels") or {} for node in view.nodes.values()]
    missing = [each for each in wanted if not any(each.matches(has) for has in labels)]
    if not missing:
        is_told = requirements.terms is None or (len(requirements.terms) == 1 and not requirements.terms[0].names)
        if len(wanted) < 2 or not is_told:
            both = "its nodeSelector and " if requirements.selector.requirements else ""
            return replace(made, text=f"no node matches {both}any term of its node affinity")
        text = f"no node matches all that it requires: {listed(map(str, wanted))}"
        return replace(made, cause=Cause.CONSTRAINTS_COMBINED, text=text)
    first = missing[0]
    have = sorted({has[first.key] for has in labels if first.key in has})
    instead = f" (nodes have {listed(f'{first.key}={value}' for value in have)})" if have else ""
    return replace(made, text=f"no node matches {listed(map(str, missing))}, which it requires{instead}")


def _too_small(view: PodView, made: Judged) -> Judged:
    """Nodes that it may use are too small, even when they are empty. Are there others that are not?"""
    large = sorted(name for name in view.nodes if not view.of(name, Distance.TOO_SMALL))
    if large:
        return _large_enough(view, made, large)
    too_small = {name: {each.detail: each for each in view.of(name, Distance.TOO_SMALL)} for name in view.nodes}
    everywhere = sorted(set.intersection(*(set(each) for each in too_small.values())), key=_best_known)
    if not everywhere:
        each = [f"{name} lacks {listed(sorted(too_small[name]))}" for name in sorted(too_small)]
        return replace(made, text=f"no node is large enough for it even when empty: {listed(each)}")
    resource = everywhere[0]
    wanted = next(iter(too_small.values()))[resource].wanted or 0
    return replace(
        made,
        text=f"{_request(resource, wanted)}, more than any node has even when empty: "
        f"the largest, {_largest(view, view.nodes, resource)}",
    )


def _large_enough(view: PodView, made: Judged, large: Sequence[str]) -> Judged:
    """Some nodes are large enough, and are excluded by something that others, which are too small, are not."""
    said = [each for name in made.about for each in view.of(name, Distance.TOO_SMALL)]
    first = min(said, key=lambda each: (_best_known(each.detail), -(each.wanted or 0)))
    kept_off = {name: min(each.distance for each in view.against[name]) for name in large}
    nearest = max(kept_off.values())
    chosen = [name for name in large if kept_off[name] is nearest]
    names = f"{listed(chosen)} {'is' if len(chosen) == 1 else 'are'}"
    if nearest is Distance.TAINT:
        taints = sorted({_first_taint(view, name) for name in chosen})
        but = f"{'has' if len(chosen) == 1 else 'have'} {_untolerated(taints)}"
    else:
        reasons = sorted({short(each) for name in chosen for each in view.of(name, nearest)})
        but = f"{'is' if len(chosen) == 1 else 'are'} not eligible ({listed(reasons)})"
    small = f"the other eligible nodes are too small (the largest, {_largest(view, made.about, first.detail)})"
    cause, verdict = _CAUSES[nearest] if nearest is Distance.TAINT else (Cause.CONSTRAINTS_COMBINED, Verdict.BLOCKED)
    text = f"{_request(first.detail, first.wanted or 0)}: {names} large enough but {but}; {small}"
    return replace(made, cause=cause, verdict=verdict, text=text, about=tuple(chosen))


def _largest(view: PodView, names: Iterable[str], resource: str) -> str:
    size, name = max((_allocatable(view.nodes[name], resource), name) for name in names)
    return f"{name}, has {amount(resource, size)}"


def _request(resource: str, wanted: int) -> str:
    return "it needs a pod slot" if resource == "pods" else f"it requests {amount(resource, wanted)} {resource}"


def _best_known(resource: str) -> tuple[bool, bool, str]:
    return resource != CPU, resource != MEMORY, resource


def _allocatable(node: Object, resource: str) -> int:
    return read_allocatable(node).get(resource, 0)


def _ports(view: PodView, about: Sequence[str]) -> str:
    ports = sorted({each.detail.removeprefix("0.0.0.0:") for name in about for each in view.of(name, Distance.PORT)})
    wanted = list_host_ports(view.pod)
    holders = sorted(
        {
            f"{each['metadata'].get('namespace')}/{each['metadata']['name']}"
            for each in view.objects.pods
            if get_node_name(each) in about
            and not is_over(each)
            and any(conflicts(one, other) for one in wanted for other in list_host_ports(each))
        }
    )
    by = f", by {listed(holders)}" if holders else ""
    where = "on every node" if len(about) == len(view.nodes) else f"on {listed(about)}"
    return f"host port {listed(ports)} is in use {where}{by}"


def _room(view: PodView, made: Judged) -> Judged:
    about = made.about
    without = _without_reservations(view, about)
    if without is not None:
        return replace(made, cause=Cause.RESERVED_ELSEWHERE, text=without[0], reservation=without[1])
    short: dict[str, dict[str, Against]] = {}
    for name in about:
        for each in view.of(name, Distance.ROOM):
            short.setdefault(each.detail, {})[name] = each
    # The resource that most nodes are short of; of equals the better known one.
    resource = max(short, key=lambda each: (len(short[each]), each == CPU, each == MEMORY, each))
    by_node = short[resource]
    wanted = next(iter(by_node.values())).wanted or 0
    free = {name: max(each.free or 0, 0) for name, each in by_node.items()}
    most = max(free, key=lambda name: (free[name], name))
    request = _request(resource, wanted)
    total = sum(free.values())
    is_all = len(about) == len(view.nodes)
    other = {name: sorted(each for each in short if name in short[each]) for name in about if name not in by_node}
    lacking = sorted({each for found in other.values() for each in found})
    also = (
        f" ({listed(sorted(other))} {'is' if len(other) == 1 else 'are'} short of {listed(lacking)})" if other else ""
    )
    if len(by_node) > 1 and total >= wanted and not other:
        where = f"{len(about)} nodes" if is_all else f"{len(about)} eligible nodes ({listed(about)})"
        text = (
            f"{request}: {amount(resource, total)} is free on the {where} together, "
            f"but at most {amount(resource, free[most])} on one ({most})"
        )
        return replace(made, cause=Cause.FRAGMENTATION, text=text)
    left = amount(resource, free[most])
    if len(about) == 1:
        only = "the only node" if len(view.nodes) == 1 else "the only eligible node"
        where = f"{only}, {most}, has {left} free"
    elif is_all and not other:
        where = f"at most {left} is free on one node ({most})"
    else:
        where = f"of the {len(by_node)} otherwise eligible nodes, {most} has the most free: {left}"
    return replace(made, text=f"{request}, but {where}{also}")


def _without_reservations(view: PodView, about: Sequence[str]) -> tuple[str, str] | None:
    """Whether others' reservations are in the way: in words, and the first one's name."""
    mine = (view.pod["metadata"].get("annotations") or NOTHING).get(RESERVATION)
    held = [
        each
        for each in view.objects.reservations
        if is_active(each)
        and (each.get("spec") or NOTHING).get("nodeName") in about
        and (each["metadata"]["name"], each["metadata"].get("namespace")) != (mine, view.namespace)
    ]
    if not held or not view.would_place(_less(view.objects, held)):
        return None
    enough = [each for each in held[:RESERVATIONS_TRIED_MAX] if view.would_place(_less(view.objects, [each]))]
    chosen = enough or held
    names = [_reserved_for(each) for each in chosen]
    nodes = sorted({str(each["spec"]["nodeName"]) for each in chosen})
    text = f"resources on {listed(nodes)} are reserved for {listed(dict.fromkeys(names))}"
    if enough and len(enough) == 1:
        resources = enough[0]["spec"].get("resources") or {}
        text += f" ({', '.join(f'{name} {size}' for name, size in sorted(resources.items()) if name != 'pods')})"
    return f"{text}; without that, the pod would fit", str(chosen[0]["metadata"]["name"])


def _less(objects: Objects, without: Sequence[Object]) -> Objects:
    gone = {_key(each) for each in without}
    return replace(objects, reservations=tuple(each for each in objects.reservations if _key(each) not in gone))


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def _reserved_for(reservation: Object) -> str:
    workload: Mapping[str, Any] = (reservation.get("spec") or NOTHING).get("workload") or NOTHING
    namespace = reservation["metadata"].get("namespace")
    return f"{workload.get('kind') or 'Reservation'} {namespace}/{workload.get('name') or _key(reservation).name}"


def _spread(view: PodView, about: Sequence[str], key: str, bound: str) -> str:
    here = sorted({label(view.nodes[name], key) for name in about})
    domains = sorted({label(node, key) for node in view.nodes.values()} - {""})
    elsewhere = [each for each in domains if each not in here]
    word = key.rpartition("/")[2]
    where = f"{word} {here[0]}, which has" if len(here) == 1 else f"{word}s {listed(here)}, which have"
    text = f"in {where} room, the pod would exceed {bound}"
    if elsewhere:
        others = [name for name in view.nodes if label(view.nodes[name], key) in elsewhere and name in view.against]
        reasons = sorted({short(each) for name in others for each in view.against[name]})
        accept = f"{word} {elsewhere[0]} accepts" if len(elsewhere) == 1 else f"{word}s {listed(elsewhere)} accept"
        text += f"; {accept} none ({listed(reasons)})"
    return text


def _quota(view: PodView, made: Judged) -> Judged:
    """The quotas that leave too little: one for each zone in which nodes would have room."""
    said = {each.detail: each for name in made.about for each in view.of(name, Distance.QUOTA)}
    leaves, wants, names = [], [], []
    for detail in sorted(said):
        zone, _, resource = detail.rpartition("/")
        name, limit = _find_quota(view, zone, resource)
        which = f"ZoneQuota {view.namespace}/{name}" if name else "the quota"
        of = f" of {limit}" if limit else ""
        left = amount(resource, max(said[detail].free or 0, 0))
        leaves.append(f"{which} has {left}{of} {resource} left in zone {zone}")
        wants.append(f"{amount(resource, said[detail].wanted or 0)} {resource}")
        names.append(name)
    wanted = listed(dict.fromkeys(wants))
    if len(said) == 1:
        wanted = wanted.rpartition(" ")[0]  # Of what was just said.
    return replace(made, text=f"{listed(leaves, 2)}, and it requests {wanted}", quota=names[0])


def _find_quota(view: PodView, zone: str, resource: str) -> tuple[str, str]:
    """The name of the quota that limits a resource in a zone, the tightest of several; and its limit."""
    found = []
    for each in view.objects.zone_quotas:
        spec = each.get("spec") or NOTHING
        if each["metadata"].get("namespace") == view.namespace and spec.get("zone") == zone:
            hard = spec.get("hard") or {}
            limit = hard.get(resource) or hard.get(f"requests.{resource}")
            if limit is not None:
                found.append((parse(str(limit)), each["metadata"]["name"], str(limit)))
    return min(found)[1:] if found else ("", "")


def _ghosts(view: PodView, about: Sequence[str]) -> str:
    haunts = {name: ghosts for name, ghosts in view.objects.unconfirmed if name in about}
    who = [f"{each.get('namespace')}/{each.get('name')}" for name in sorted(haunts) for each in haunts[name]]
    by = f" ({listed(who)})" if who else ""
    pods = count(len(who), "force-deleted pod") if who else "force-deleted pods"
    return f"resources on {listed(about)} are held for {pods} that may still run there{by}"


def _health(view: PodView, made: Judged, heard: Mapping[str, datetime]) -> Judged:
    parts = []
    is_lost = False
    for name in made.about:
        record = record_in(view.nodes[name])
        taints = [taint.key for taint in parse_taints(view.nodes[name])]
        lost = record.state not in ("", "Healthy") or UNREACHABLE.key in taints
        is_lost = is_lost or lost
        since = f" since {clock(heard[name])}" if name in heard else ""
        what = next((each.rpartition("/")[2] for each in taints if each.startswith(HEALTH_TAINTS)), "not ready")
        parts.append(f"{name} sends no heartbeat{since}" if lost else f"{name} is {what}")
    text = f"{listed(parts)} but would have room"
    return replace(made, cause=Cause.NODE_LOST if is_lost else Cause.NODE_NOT_READY, text=text)


def _besides(view: PodView, about: Sequence[str], nearest: Distance) -> list[str]:
    """What else speaks against the nodes that the cause is about, and would have to change too."""
    found: dict[str, list[str]] = {}
    for name in about:
        if reasons := sorted({short(each) for each in view.against[name] if each.distance > nearest}):
            found.setdefault(listed(reasons), []).append(name)
    return [f"{listed(found[reasons])} also: {reasons}" for reasons in sorted(found)]


def _others(view: PodView, distance: Distance, names: Sequence[str]) -> str:
    reasons = sorted({short(each) for name in names for each in view.of(name, distance)})
    return f"{listed(names)}: {listed(reasons)}"
