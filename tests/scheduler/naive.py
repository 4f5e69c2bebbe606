"""The same rules once more, as plainly as they can be written: objects, node after node, nothing kept.

It shares no code with the scheduler but what api/pod_resources.py says a pod needs, which has tests of its own, and the
hash that ties end in. Slow; for small clusters.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainstay.api.pod_resources import (
    conflicts,
    count_requests,
    count_scored_requests,
    is_over,
    list_host_ports,
    parse_amounts,
    parse_host_port,
    read_allocatable,
)
from mainstay.scheduler.cache.ring import hash_node, hash_pod
from mainstay.scheduler.policy import Allocation, Policy
from mainstay.scheduler.what_if import Objects

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
Refused = tuple[str, str]
"""Reason and detail."""


@dataclass(frozen=True)
class Outcome:
    node: str | None
    scores: dict[str, int]
    """Of the nodes that can take the pod."""
    refused: dict[str, frozenset[Refused]]
    """Of those that cannot, by node."""


def decide(objects: Objects, pod: Object, policy: Policy, seed: str) -> Outcome:
    world, pod = _World(objects), under(pod, policy)
    refused = {name: frozenset(world.refusals(pod, name)) for name in world.nodes}
    feasible = sorted(name for name, reasons in refused.items() if not reasons)
    scores = world.scores(pod, feasible, policy)
    best = min(feasible, key=lambda name: (-scores[name], tie(seed, pod["metadata"]["uid"], name), name), default=None)
    return Outcome(best, scores, {name: reasons for name, reasons in refused.items() if reasons})


def under(pod: Object, policy: Policy) -> Object:
    """The pod as the policy has it: with one more constraint, or with hard ones turned into soft ones."""
    constraints = [dict(each) for each in pod["spec"].get("topologySpreadConstraints") or []]
    if not policy.enforces_spread:
        constraints = [{**each, "whenUnsatisfiable": "ScheduleAnyway"} for each in constraints]
    if policy.max_zone_skew and find_owner(pod):
        bound = {"topologyKey": ZONE, "maxSkew": policy.max_zone_skew, "whenUnsatisfiable": "DoNotSchedule"}
        constraints.append({**bound, "nodeTaintsPolicy": "Honor", "policy": policy.name})
    return {**pod, "spec": {**pod["spec"], "topologySpreadConstraints": constraints}}


def find_owner(pod: Object) -> str:
    return next((each["uid"] for each in pod["metadata"].get("ownerReferences") or [] if each["controller"]), "")


def tie(seed: str, uid: str, node: str) -> int:
    return (hash_node(node) - hash_pod(seed, uid)) % 2**64


class _World:
    def __init__(self, objects: Objects) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in objects.nodes}
        bound = {
            pod["metadata"]["uid"]: (pod, pod["spec"]["nodeName"])
            for pod in objects.pods
            if pod["spec"].get("nodeName") and not is_over(pod)
        }
        over = {pod["metadata"]["uid"] for pod in objects.pods if is_over(pod)}
        for pod, node in objects.assumed:
            uid = pod["metadata"]["uid"]
            if uid not in over:
                bound.setdefault(uid, (pod, node))
        self.placed = list(bound.values())
        self.reservations = [
            each for each in objects.reservations if (each.get("status") or {}).get("phase", "Active") == "Active"
        ]
        self.holding = [each for each in self.reservations if not self.is_claimed(each)]
        self.unconfirmed = [
            (each, node) for node, found in objects.unconfirmed for each in found if each["uid"] not in bound
        ]
        self.quotas = objects.zone_quotas

    def is_claimed(self, reservation: Object) -> bool:
        """Whether a pod that names it is on its node: then that pod has the room."""
        metadata = reservation["metadata"]
        return any(
            node == reservation["spec"]["nodeName"]
            and pod["metadata"]["namespace"] == metadata["namespace"]
            and (pod["metadata"].get("annotations") or {}).get("mainstay.dev/reservation") == metadata["name"]
            for pod, node in self.placed
        )

    # Who refuses.

    def refusals(self, pod: Object, name: str) -> Iterable[Refused]:
        node, spec = self.nodes[name], pod["spec"]
        if spec.get("nodeName") and spec["nodeName"] != name:
            yield "OtherNodeNamed", spec["nodeName"]
        own = self.own_reservation(pod)
        if own is not None and own["spec"]["nodeName"] != name:
            yield "ReservedElsewhere", own["spec"]["nodeName"]
        tolerations = spec.get("tolerations") or []
        cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if node["spec"].get("unschedulable") and not tolerated(cordon, tolerations):
            yield "UnschedulableNode", ""
        for taint in node["spec"].get("taints") or []:
            if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated(taint, tolerations):
                value = f"={taint['value']}" if taint.get("value") else ""
                yield "UntoleratedTaint", f"{taint['key']}{value}:{taint['effect']}"
                break
        if not allowed_by_affinity(pod, node):
            yield "NodeAffinity", ""
        yield from self.port_refusals(pod, name, own)
        yield from self.room_refusals(pod, name, own)
        for constraint in spec.get("topologySpreadConstraints") or []:
            if constraint["whenUnsatisfiable"] == "DoNotSchedule":
                yield from self.spread_refusals(pod, node, constraint)
        yield from self.quota_refusals(pod, node)

    def own_reservation(self, pod: Object) -> Object | None:
        name = (pod["metadata"].get("annotations") or {}).get("mainstay.dev/reservation")
        for each in self.reservations:
            if (each["metadata"]["namespace"], each["metadata"]["name"]) == (pod["metadata"]["namespace"], name):
                return each
        return None

    def port_refusals(self, pod: Object, name: str, own: Object | None) -> Iterable[Refused]:
        taken = [port for other, node in self.placed if node == name for port in list_host_ports(other)]
        for each in self.holding:
            if each is not own and each["spec"]["nodeName"] == name:
                taken += [parse_host_port(port) for port in each["spec"].get("ports") or []]
        taken += [
            parse_host_port(port) for charge, node in self.unconfirmed if node == name for port in charge["ports"]
        ]
        for port in list_host_ports(pod):
            if any(conflicts(port, other) for other in taken):
                yield "PortTaken", f"{port.ip}:{port.port}/{port.protocol}"

    def room_refusals(self, pod: Object, name: str, own: Object | None) -> Iterable[Refused]:
        allocatable = read_allocatable(self.nodes[name])
        for resource, amount in count_requests(pod).items():
            taken = self.taken(name, resource, count_requests)
            for each in self.holding:
                if each is not own and each["spec"]["nodeName"] == name:
                    taken += parse_amounts(each["spec"]["resources"]).get(resource, 0)
            limit = allocatable.get(resource, 0)
            if amount > 0 and taken + self.unconfirmed_of(name, resource) + amount > limit:
                is_unconfirmed = taken + amount <= limit
                short = "HeldByGhosts" if is_unconfirmed else "InsufficientResource"
                yield "NodeTooSmall" if amount > limit else short, resource

    def unconfirmed_of(self, name: str, resource: str) -> int:
        return sum(
            parse_amounts(charge["resources"]).get(resource, 0) for charge, node in self.unconfirmed if node == name
        )

    def taken(self, name: str, resource: str, requests: Any) -> int:
        return sum(requests(pod).get(resource, 0) for pod, node in self.placed if node == name)

    def spread_refusals(self, pod: Object, node: Object, constraint: Object) -> Iterable[Refused]:
        key, labels = constraint["topologyKey"], node["metadata"]["labels"]
        if key not in labels:
            yield "TopologyLabelMissing", key
            return
        domains = self.domains(pod, constraint)
        least = min(domains.values(), default=0)
        if len(domains) < (constraint.get("minDomains") or 1):
            least = 0
        itself = int(selected(pod, constraint, pod))
        if domains.get(labels[key], 0) + itself - least > constraint["maxSkew"]:
            yield ("ZoneSkewTooLarge", constraint["policy"]) if "policy" in constraint else ("SkewTooLarge", key)

    def domains(self, pod: Object, constraint: Object) -> dict[str, int]:
        """Matching pods by domain, on nodes that count."""
        same_kind = [
            each["topologyKey"]
            for each in pod["spec"]["topologySpreadConstraints"]
            if each["whenUnsatisfiable"] == constraint["whenUnsatisfiable"]
        ]
        found: dict[str, int] = {}
        for name, node in self.nodes.items():
            labels = node["metadata"]["labels"]
            if any(key not in labels for key in same_kind):
                continue
            if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not allowed_by_affinity(pod, node):
                continue
            if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and any(
                taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated(taint, pod["spec"].get("tolerations"))
                for taint in node["spec"].get("taints") or []
            ):
                continue
            domain = labels[constraint["topologyKey"]]
            found[domain] = found.get(domain, 0) + self.matching_on(name, pod, constraint)
        return found

    def matching_on(self, name: str, pod: Object, constraint: Object) -> int:
        return sum(node == name and selected(other, constraint, pod) for other, node in self.placed)

    def quota_refusals(self, pod: Object, node: Object) -> Iterable[Refused]:
        zone, namespace = node["metadata"]["labels"].get(ZONE), pod["metadata"]["namespace"]
        found = set()
        for quota in self.quotas:
            if quota["metadata"]["namespace"] != namespace or quota["spec"]["zone"] != zone:
                continue
            for limit, quantity in quota["spec"]["hard"].items():
                if limit.startswith("limits."):
                    continue
                resource = limit.removeprefix("requests.")
                wanted = count_requests(pod).get(resource, 0)
                used = sum(
                    count_requests(other).get(resource, 0)
                    for other, name in self.placed
                    if other["metadata"]["namespace"] == namespace
                    and name in self.nodes
                    and self.nodes[name]["metadata"]["labels"].get(ZONE) == zone
                )
                if wanted and used + wanted > parse_amounts({resource: quantity})[resource]:
                    found.add(("ZoneQuotaExceeded", f"{zone}/{resource}"))
        yield from sorted(found)

    # Who is preferred.

    def scores(self, pod: Object, feasible: Sequence[str], policy: Policy) -> dict[str, int]:
        affinity = {name: preferred(pod, self.nodes[name]) for name in feasible}
        dislikes = {name: disliked(pod, self.nodes[name]) for name in feasible}
        most_affinity, most_dislikes = max(affinity.values(), default=0), max(dislikes.values(), default=0)
        spread = self.soft_spread(pod, feasible)
        found = {}
        for name in feasible:
            total = policy.allocation_weight * self.allocation(pod, name, policy)
            total += policy.balance_weight * self.balance(pod, name, policy)
            if most_affinity:
                total += policy.affinity_weight * (100 * affinity[name] // most_affinity)
            total += policy.taints_weight * (100 - (100 * dislikes[name] // most_dislikes if most_dislikes else 0))
            total += policy.spread_weight * spread[name]
            found[name] = total
        return found

    def used_for_scores(self, name: str, resource: str, requests: Any) -> int:
        held = sum(
            parse_amounts(each["spec"]["resources"]).get(resource, 0)
            for each in self.holding
            if each["spec"]["nodeName"] == name
        )
        return self.taken(name, resource, requests) + held + self.unconfirmed_of(name, resource)

    def allocation(self, pod: Object, name: str, policy: Policy) -> int:
        allocatable, total, weights = read_allocatable(self.nodes[name]), 0, 0
        for resource, weight in policy.resources:
            requests = count_scored_requests if resource in ("cpu", "memory") else count_requests
            limit = allocatable.get(resource, 0)
            wanted = requests(pod).get(resource, 0)
            if limit == 0 or (resource not in ("cpu", "memory", "ephemeral-storage") and not wanted):
                continue
            taken = self.used_for_scores(name, resource, requests) + wanted
            if policy.allocation is Allocation.LEAST:
                points = 0 if taken > limit else (limit - taken) * 100 // limit
            else:
                points = min(taken, limit) * 100 // limit
            total, weights = total + points * weight, weights + weight
        return total // weights if weights else 0

    def balance(self, pod: Object, name: str, policy: Policy) -> int:
        wanted = count_requests(pod)
        if not any(wanted.get(resource) for resource, _ in policy.resources):
            return 0
        allocatable, before, after = read_allocatable(self.nodes[name]), [], []
        for resource, _ in policy.resources:
            limit = allocatable.get(resource, 0)
            if limit == 0 or (resource not in ("cpu", "memory", "ephemeral-storage") and not wanted.get(resource)):
                continue
            taken = self.used_for_scores(name, resource, count_requests)
            before.append(min(taken / limit, 1.0))
            after.append(min((taken + wanted.get(resource, 0)) / limit, 1.0))
        return 50 + (50 + balance_of(after) - balance_of(before)) // 2

    def soft_spread(self, pod: Object, feasible: Sequence[str]) -> dict[str, int]:
        soft = [
            each
            for each in pod["spec"].get("topologySpreadConstraints") or []
            if each["whenUnsatisfiable"] == "ScheduleAnyway"
        ]
        found = dict.fromkeys(feasible, 0)
        labels = {name: self.nodes[name]["metadata"]["labels"] for name in feasible}
        judged = [name for name in feasible if soft and all(each["topologyKey"] in labels[name] for each in soft)]
        load = dict.fromkeys(judged, 0.0)
        for constraint in soft:
            key = constraint["topologyKey"]
            domains = self.domains(pod, constraint)
            size = len(judged) if key == HOSTNAME else len({labels[name][key] for name in judged})
            for name in judged:
                in_domain = domains.get(labels[name][key], 0)
                pods = self.matching_on(name, pod, constraint) if key == HOSTNAME else in_domain
                load[name] += pods * math.log(size + 2) + (constraint["maxSkew"] - 1)
        rounded = {name: math.floor(value + 0.5) for name, value in load.items()}
        if rounded:
            least, most = min(rounded.values()), max(rounded.values())
            for name, value in rounded.items():
                found[name] = 100 if most == 0 else 100 * (most + least - value) // most
        return found


def tolerated(taint: Mapping[str, Any], tolerations: Sequence[Mapping[str, Any]] | None) -> bool:
    for each in tolerations or ():
        if each.get("effect") and each["effect"] != taint["effect"]:
            continue
        if each.get("key") and each["key"] != taint["key"]:
            continue
        if each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""):
            return True
    return False


def disliked(pod: Object, node: Object) -> int:
    return sum(
        taint["effect"] == "PreferNoSchedule" and not tolerated(taint, pod["spec"].get("tolerations"))
        for taint in node["spec"].get("taints") or []
    )


def allowed_by_affinity(pod: Object, node: Object) -> bool:
    labels = node["metadata"]["labels"]
    for key, value in (pod["spec"].get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_holds(term, node) for term in required["nodeSelectorTerms"])


def preferred(pod: Object, node: Object) -> int:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    found = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    return sum(each["weight"] for each in found if term_holds(each["preference"], node))


def term_holds(term: Object, node: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(holds(each, node["metadata"]["labels"]) for each in expressions) and all(
        holds(each, {"metadata.name": node["metadata"]["name"]}) for each in fields
    )


def holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.lstrip("-").isdigit() and int(value) > int(values[0])
        case _:
            return value is not None and value.lstrip("-").isdigit() and int(value) < int(values[0])


def selected(other: Object, constraint: Object, pod: Object) -> bool:
    """Whether a spread constraint of `pod` counts another pod (or `pod` itself)."""
    if other["metadata"]["namespace"] != pod["metadata"]["namespace"] or "deletionTimestamp" in other["metadata"]:
        return False
    if "policy" in constraint:
        return find_owner(other) == find_owner(pod)
    labels, own = other["metadata"].get("labels") or {}, pod["metadata"].get("labels") or {}
    keys = [key for key in constraint.get("matchLabelKeys") or [] if key in own]
    selector = constraint.get("labelSelector")
    if selector is None and not keys:
        return False
    wanted = {**((selector or {}).get("matchLabels") or {})}
    return (
        all(labels.get(key) == value for key, value in wanted.items())
        and all(labels.get(key) == own[key] for key in keys)
        and all(holds(each, labels) for each in (selector or {}).get("matchExpressions") or [])
    )


def balance_of(parts: Sequence[float]) -> int:
    deviation = 0.0
    if len(parts) == 2:
        deviation = abs((parts[0] - parts[1]) / 2)
    elif len(parts) > 2:
        mean = sum(parts) / len(parts)
        deviation = math.sqrt(sum((part - mean) * (part - mean) for part in parts) / len(parts))
    return int((1 - deviation) * 100)
