"""Changes that could help against one obstacle on one node. Whether they do is found out by trying (search.py).

Each is a `CureStep`: the words, the edits to try it by, the command to do it with, and how large a change it is. What
makes room is in room.py.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.labels import Operator, Requirement
from mainstay.api.node_terms import parse_requirements
from mainstay.api.pod_resources import amount, parse_amounts
from mainstay.api.taints import UNSCHEDULABLE, Taint
from mainstay.api.well_known_labels import (
    ARCHITECTURE,
    HOSTNAME,
    NOT_READY_TAINT,
    OS,
    REGION_LABEL,
    UNREACHABLE_TAINT,
    ZONE_LABEL,
)
from mainstay.explain.cures.owner import find_workload, patch_of_template, patched, unchangeable
from mainstay.explain.cures.values import CureKind
from mainstay.scheduler.cache.charge import build_charge, find_reservation
from mainstay.scheduler.what_if import Objects
from mainstay.scheduler.why.cures.blockers import Blocked, Obstacle
from mainstay.scheduler.why.cures.trial import Edit, NodeEdit, PodEdit, QuotaEdit, ReservationGone, find_pods_ahead


@dataclass(frozen=True, slots=True)
class CureStep:
    change: CureKind
    text: str
    """What to do: `uncordon n3`."""
    edits: tuple[Edit, ...]
    cost: int
    """How large a change it is, compared with others: 0 for waiting."""
    command: str = ""
    until: str = ""
    """Of a wait: when it is over at the latest, if that is known."""
    replacements: tuple[Object, ...] = ()
    """Replacements that will be created because of it, and need a node, too."""


# Labels that the machine or its place determines. Writing something else there does not help.
_NOT_OURS: Final = (OS, ARCHITECTURE, "node.kubernetes.io/instance-type", HOSTNAME)
_WHERE: Final = (ZONE_LABEL, REGION_LABEL)
_ADMITTED: Final = (NOT_READY_TAINT, UNREACHABLE_TAINT)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SELECTOR_MAX: Final = 3  # More than so many changes of labels are no small change.


class Steps:
    """What could be tried for one pod."""

    def __init__(self, objects: Objects, pod: Object) -> None:
        self._objects = objects
        self._pod = pod
        self._workload = find_workload(pod)
        self._nodes = {node["metadata"]["name"]: node for node in objects.nodes}

    def against(self, obstacle: Obstacle, blocked: Blocked) -> Iterator[CureStep]:
        """Smaller ones first. Nothing, if nothing is known to help."""
        match obstacle:
            case Obstacle.CORDONED:
                yield self._uncordon(blocked)
            case Obstacle.UNHEALTHY:
                yield self._wait_for_node(blocked)
            case Obstacle.TAINTED:
                yield self._tolerate(blocked)
                yield self._untaint(blocked)
            case Obstacle.NOT_SELECTED:
                yield from self._label(blocked)
                yield from self._select(blocked)
            case Obstacle.SKEWED | Obstacle.UNLABELLED:
                yield self._relax(blocked)
            case Obstacle.NO_QUOTA:
                yield from self._raise(blocked)
            case Obstacle.RESERVED_ELSEWHERE:
                yield from self._release(find_reservation(self._pod))
            case Obstacle.NO_ROOM | Obstacle.PORT_TAKEN | Obstacle.NOT_NAMED | Obstacle.SKEWED_BY_POLICY:
                return

    # The node.

    def _uncordon(self, blocked: Blocked) -> CureStep:
        def edit(node: Object) -> Object:
            spec = {name: value for name, value in (node.get("spec") or {}).items() if name != "unschedulable"}
            return {**node, "spec": _without(spec, (UNSCHEDULABLE,))}

        name = blocked.node
        text = f"uncordon {name}"
        return CureStep(CureKind.UNCORDON, text, (NodeEdit(name, edit),), 10, f"kubectl uncordon {name}")

    def _wait_for_node(self, blocked: Blocked) -> CureStep:
        name, listed = blocked.node, ", ".join(map(str, blocked.health))
        text = f"wait until {name} is healthy again (it has {listed})"
        return CureStep(
            CureKind.WAIT_FOR_NODE, text, (_untainted(name, blocked.health),), 1, f"mainstay why node/{name}"
        )

    def _untaint(self, blocked: Blocked) -> CureStep:
        name = blocked.node
        listed = ", ".join(map(str, blocked.taints))
        command = f"kubectl taint node {name} {' '.join(_removal(taint) for taint in blocked.taints)}"
        cost = 25 + 5 * len(blocked.taints)
        return CureStep(
            CureKind.UNTAINT, f"remove {listed} from {name}", (_untainted(name, blocked.taints),), cost, command
        )

    def _label(self, blocked: Blocked) -> Iterator[CureStep]:
        name = blocked.node
        labels = _labels(self._nodes[name])
        wanted = _labels_wanted(self._pod, name, labels)
        if not wanted or len(wanted) > _SELECTOR_MAX:
            return

        def edit(node: Object) -> Object:
            new = {key: value for key, value in {**_labels(node), **wanted}.items() if value is not None}
            return {**node, "metadata": {**node["metadata"], "labels": new}}

        parts = [f"{key}-" if value is None else f"{key}={value}" for key, value in sorted(wanted.items())]
        changed = any(key in labels for key in wanted)
        command = f"kubectl label node {name} {' '.join(parts)}{' --overwrite' if changed else ''}"
        text = f"label {name} with {', '.join(parts)}"
        yield CureStep(CureKind.LABEL_NODE, text, (NodeEdit(name, edit),), 20 + 5 * len(wanted) + 10 * changed, command)

    # The pod.

    def _tolerate(self, blocked: Blocked) -> CureStep:
        made = [_toleration(taint) for taint in blocked.taints]
        listed = ", ".join(map(str, blocked.taints))

        def edit(pod: Object) -> Object:
            return _with_spec(pod, tolerations=[*(pod["spec"].get("tolerations") or ()), *made])

        own = [each for each in self._pod["spec"].get("tolerations") or () if not _is_admitted(each)]
        return self._of_pod(
            CureKind.TOLERATE,
            f"add a toleration for {listed}",
            edit,
            20 + 5 * len(made),
            patch_of_template(self._workload, {"tolerations": [*own, *made]}),
        )

    def _select(self, blocked: Blocked) -> Iterator[CureStep]:
        """Ask for what this node has, or ask for less."""
        found = _selection(self._pod["spec"], blocked.node, _labels(self._nodes[blocked.node]))
        if found is None:
            return
        text, patch, count = found

        def edit(pod: Object) -> Object:
            return _with_spec(pod, **_merged(pod["spec"], patch))

        yield self._of_pod(CureKind.SELECT_OTHERS, text, edit, 30 + 5 * count, patch_of_template(self._workload, patch))

    def _relax(self, blocked: Blocked) -> CureStep:
        skews, missing = blocked.skews, blocked.missing_labels

        def relaxed(constraint: Object) -> Object:
            key = constraint["topologyKey"]
            if constraint.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
                return constraint
            if key in missing:
                others = {name: value for name, value in constraint.items() if name != "minDomains"}
                return {**others, "whenUnsatisfiable": "ScheduleAnyway"}
            return {**constraint, "maxSkew": skews[key][1]} if key in skews else constraint

        new = [relaxed(each) for each in self._pod["spec"].get("topologySpreadConstraints") or ()]
        parts = [f"a skew of {would} over {key} (now {most})" for key, (most, would) in sorted(skews.items())]
        parts += [f"nodes without {key}" for key in missing]
        return self._of_pod(
            CureKind.RELAX_SPREAD,
            f"allow {' and '.join(parts)}",
            lambda pod: _with_spec(pod, topologySpreadConstraints=new),
            30,
            patch_of_template(self._workload, {"topologySpreadConstraints": [{"$patch": "replace"}, *new]}),
        )

    def _of_pod(
        self, change: CureKind, text: str, edit: Callable[[Object], Object], cost: int, command: str
    ) -> CureStep:
        return CureStep(change, text + unchangeable(self._workload), (PodEdit(edit),), cost, command)

    # Others.

    def _raise(self, blocked: Blocked) -> Iterator[CureStep]:
        """All quotas of the zone that leave too little: for this pod, and for those of its namespace before it."""
        ahead: dict[str, int] = {}
        for pod in find_pods_ahead(self._objects, self._pod):
            if pod["metadata"].get("namespace") == self._pod["metadata"].get("namespace"):
                for resource, number in build_charge(pod).requests.items():
                    ahead[resource] = ahead.get(resource, 0) + number
        yield from self._raised_by(blocked, {})
        if ahead:
            yield from self._raised_by(blocked, ahead)

    def _raised_by(self, blocked: Blocked, more: Mapping[str, int]) -> Iterator[CureStep]:
        edits: list[QuotaEdit] = []
        texts, commands = [], []
        namespace = self._pod["metadata"].get("namespace") or ""
        own = [each for each in self._objects.zone_quotas if (each["metadata"].get("namespace") or "") == namespace]
        needed = {
            (zone, resource): least + more.get(resource, 0)
            for (zone, resource), least in _needed(own, blocked.quotas).items()
        }
        for quota in own:
            raised = _raised(quota, needed)
            if raised:
                spec = {**quota["spec"], "hard": {**quota["spec"]["hard"], **raised}}
                edits.append(QuotaEdit(quota, {**quota, "spec": spec}))
                name = quota["metadata"]["name"]
                listed = ", ".join(f"{each} to {raised[each]}" for each in sorted(raised))
                texts.append(f"raise zone quota {name} ({quota['spec']['zone']}): {listed}")
                commands.append(patched("zonequota", name, namespace, {"spec": {"hard": raised}}, "merge"))
        if edits:
            cost = 20 + 10 * len(edits)
            yield CureStep(CureKind.RAISE_ZONE_QUOTA, "; ".join(texts), tuple(edits), cost, " && ".join(commands))

    def _release(self, name: str) -> Iterator[CureStep]:
        namespace = self._pod["metadata"].get("namespace") or ""
        for reservation in self._objects.reservations:
            metadata = reservation["metadata"]
            if (metadata.get("namespace") or "", metadata["name"]) == (namespace, name):
                yield release(reservation)


def release(reservation: Object) -> CureStep:
    """What a reservation holds is free when its time is over, or when it is removed."""
    metadata, spec = reservation["metadata"], reservation["spec"]
    namespace, name = metadata.get("namespace") or "", metadata["name"]
    until = spec.get("expiresAt") or ""
    said = f"wait until reservation {namespace}/{name} on {spec['nodeName']} ends" + (f" at {until}" if until else "")
    command = f"kubectl delete reservation {name} -n {namespace}"
    text = f"{said}, or delete it"
    return CureStep(CureKind.WAIT_FOR_RESERVATION, text, (ReservationGone(reservation),), 3, command, until)


def _labels(node: Object) -> dict[str, str]:
    return dict(node["metadata"].get("labels") or {})


def _with_spec(pod: Object, **changes: Any) -> Object:
    spec = {**pod["spec"], **changes}
    return {**pod, "spec": {name: value for name, value in spec.items() if value is not None}}


# Taints.


def _without(spec: dict[str, Any], taints: tuple[Taint, ...]) -> dict[str, Any]:
    kept = [
        each
        for each in spec.get("taints") or ()
        if Taint(each.get("key", ""), each.get("value") or "", each.get("effect") or "") not in taints
    ]
    return {**spec, "taints": kept}


def _untainted(name: str, taints: tuple[Taint, ...]) -> NodeEdit:
    return NodeEdit(name, lambda node: {**node, "spec": _without(node.get("spec") or {}, taints)})


def _removal(taint: Taint) -> str:
    return f"{taint}-"


def _toleration(taint: Taint) -> dict[str, str]:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


def _is_admitted(toleration: Object) -> bool:
    """Every pod gets these two when it is made; no template has them."""
    return toleration.get("key") in _ADMITTED and toleration.get("tolerationSeconds") is not None


# Which nodes a pod asks for.


def _labels_wanted(pod: Object, name: str, labels: dict[str, str]) -> dict[str, str | None] | None:
    """The fewest labels to change so that a node is one that a pod asks for. None: no labels help."""
    requirements = parse_requirements(pod["spec"])
    options = [()] if requirements.terms is None else [term.labels for term in requirements.terms if _names(term, name)]
    found = [_changes((*requirements.selector.requirements, *option), labels) for option in options]
    possible = [each for each in found if each is not None]
    return min(possible, key=lambda each: (len(each), sorted(each)), default=None)


def _names(term: Any, name: str) -> bool:
    return all((each.name == name) is each.is_wanted for each in term.names)


def _changes(requirements: tuple[Requirement, ...], labels: dict[str, str]) -> dict[str, str | None] | None:
    new: dict[str, str | None] = {}
    for each in requirements:
        if each.matches({**labels, **{key: value for key, value in new.items() if value is not None}}):
            continue
        if each.key in new or each.key in _NOT_OURS or (each.key in _WHERE and each.key in labels):
            return None
        match each.operator:
            case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
                new[each.key] = each.values[0]
            case Operator.EXISTS:
                new[each.key] = "true"
            case Operator.NOT_IN | Operator.NOT_EQUALS | Operator.DOES_NOT_EXIST:
                new[each.key] = None
            case Operator.GREATER | Operator.LESS:
                new[each.key] = str(int(each.values[0]) + (1 if each.operator is Operator.GREATER else -1))
    return new


def _selection(spec: Object, name: str, labels: dict[str, str]) -> tuple[str, dict[str, Any], int] | None:
    """What a pod would have to ask for so that a node is among those: in words, as a patch, and how many changes."""
    texts: list[str] = []
    patch: dict[str, Any] = {}
    selector: dict[str, str | None] = {}
    for key, value in sorted((spec.get("nodeSelector") or {}).items()):
        if labels.get(key) != value:
            selector[key] = labels.get(key)
            texts.append(
                f"select {key}={labels[key]} instead of {value}"
                if key in labels
                else f"drop {key}={value} from its node selector"
            )
    if selector:
        patch["nodeSelector"] = selector
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if affinity is not None and not _terms_hold(spec, name, labels):
        texts.append("drop its required node affinity")
        patch["affinity"] = {"nodeAffinity": {_REQUIRED: None}}
    return ("; ".join(texts), patch, len(texts)) if texts else None


def _terms_hold(spec: Object, name: str, labels: dict[str, str]) -> bool:
    terms = parse_requirements(spec).terms
    return terms is None or any(term.matches(name, labels) for term in terms)


def _merged(spec: Object, patch: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "nodeSelector" in patch:
        new = {**(spec.get("nodeSelector") or {}), **patch["nodeSelector"]}
        found["nodeSelector"] = {key: value for key, value in new.items() if value is not None}
    if "affinity" in patch:
        affinity = copy.deepcopy(spec["affinity"])
        affinity["nodeAffinity"].pop(_REQUIRED, None)
        found["affinity"] = affinity
    return found


# Quotas.


def _needed(quotas: list[Object], short: dict[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str], int]:
    """By zone and resource, what a quota has to allow. What is left is said of the smallest one; what is used is the
    same for all of them."""
    found = {}
    for (zone, resource), (wanted, left) in short.items():
        hard = [limit for quota in quotas for name, limit in _limits(quota) if (_zone(quota), name) == (zone, resource)]
        found[zone, resource] = min(hard, default=0) - left + wanted
    return found


def _raised(quota: Object, needed: dict[tuple[str, str], int]) -> dict[str, str]:
    """Of one quota, what has to be changed, and to what."""
    found = {}
    for name, quantity in (quota["spec"].get("hard") or {}).items():
        resource = name.removeprefix("requests.")
        least = needed.get((_zone(quota), resource))
        if least is not None and parse_amounts({resource: quantity})[resource] < least:
            found[name] = amount(resource, least)
    return found


def _zone(quota: Object) -> str:
    return str(quota["spec"].get("zone") or "")


def _limits(quota: Object) -> Iterator[tuple[str, int]]:
    for name, quantity in (quota["spec"].get("hard") or {}).items():
        resource = name.removeprefix("requests.")
        if not name.startswith("limits."):
            yield resource, parse_amounts({resource: quantity})[resource]
