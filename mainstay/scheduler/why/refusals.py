"""Why the scheduler refused a pod, node by node, and what would have turned its decision: found by deciding again.

What the scheduler knew is built again from the journal (placement.py), and the same functions decide that decided then.
If they do not come to the same reasons, the words of the record are used instead, and nothing is claimed beyond them.

`turned_by` asks the other question: had this one change been there already, would the decision have been another?
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.node_terms import parse_requirements
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import amount
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.explain.rebuild import CannotRebuild, RebuiltObjects
from mainstay.explain.writers import Version
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord
from mainstay.scheduler.messages import render_summary
from mainstay.scheduler.reasons import Decision, Placed, Refusal, RefusalReason, Unschedulable
from mainstay.scheduler.what_if import Objects, what_if
from mainstay.scheduler.why.placement import Scheduling, explained, scheduling

PODS: Final = "pods"
NODES_NAMED_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Placing:
    """A decision of a scheduler that is replayable."""

    scheduling: Scheduling
    decision: Decision
    is_same: bool
    """It comes out as it was recorded."""

    @property
    def nodes(self) -> tuple[Object, ...]:
        return self.scheduling.objects.nodes

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return self.decision.refusals if isinstance(self.decision, Unschedulable) else ()


async def placing(journal: Journal, record: DecisionRecord, past: RebuiltObjects | None = None) -> Placing | None:
    """Make the decision again. None: it cannot be done, for want of a view, of memory or of history."""
    try:
        made = await scheduling(journal, record, past)
    except CannotRebuild:
        return None
    if made.gaps:
        return None
    placement = explained(made)
    if placement.decision is None:
        return None
    return Placing(made, placement.decision, not made.missing and _is_same(placement.decision, record))


def _is_same(decision: Decision, record: DecisionRecord) -> bool:
    if isinstance(decision, Unschedulable):
        return render_summary(decision) == record.reasons
    return any(reason.startswith("node=") for reason in record.reasons)


def with_versions(objects: Objects, versions: Iterable[Version]) -> Objects:
    """The objects as they would be, had these changes been there."""
    for version in versions:
        if version.kind == NODES.text:
            objects = (
                objects.with_changes(nodes=[version.after])
                if version.after is not None
                else objects.with_changes(without_nodes=[version.key.name])
            )
        elif version.kind == PODS:
            objects = (
                objects.with_changes(pods=[version.after])
                if version.after is not None
                else objects.with_changes(without_pods=[version.key])
            )
        elif version.kind == ZONE_QUOTAS.text:
            objects = _with(objects, "zone_quotas", version)
        elif version.kind == RESERVATIONS.text:
            objects = _with(objects, "reservations", version)
    return objects


def _with(objects: Objects, part: str, version: Version) -> Objects:
    if version.after is not None and part == "zone_quotas":
        return objects.with_changes(zone_quotas=[version.after])
    if version.after is not None:
        return objects.with_changes(reservations=[version.after])
    held: tuple[Object, ...] = getattr(objects, part)
    kept = tuple(each for each in held if _key(each) != version.key)
    return Objects(
        nodes=objects.nodes,
        pods=objects.pods,
        reservations=kept if part == "reservations" else objects.reservations,
        zone_quotas=kept if part == "zone_quotas" else objects.zone_quotas,
        assumed=objects.assumed,
        unconfirmed=objects.unconfirmed,
    )


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def would_place(placing: Placing, versions: Sequence[Version]) -> str:
    """Where the pod would have gone with these changes; empty if nowhere."""
    made = placing.scheduling
    [decision] = what_if(with_versions(made.objects, versions), [made.pod], made.policy, made.seed)
    return decision.node if isinstance(decision, Placed) else ""


def turned_by(placing: Placing, versions: Sequence[Version]) -> list[Version]:
    """Those of the changes each of which would have been enough to give the pod a node."""
    if isinstance(placing.decision, Placed) or not placing.is_same:
        return []
    return [version for version in versions if would_place(placing, [version])]


# In words.


def refusal_words(refusals: Sequence[Refusal], nodes: Sequence[Object], pod: Object) -> tuple[str, ...]:
    """One line for each reason: the filter, the zones and nodes, the numbers; of an affinity, the labels."""
    zones: dict[str, list[str]] = {}
    for node in nodes:
        zone = (node["metadata"].get("labels") or {}).get(ZONE_LABEL, "")
        zones.setdefault(zone, []).append(node["metadata"]["name"])
    return tuple(_words(refusal, zones, nodes, pod) for refusal in refusals)


def _words(refusal: Refusal, zones: Mapping[str, Sequence[str]], nodes: Sequence[Object], pod: Object) -> str:
    refused = frozenset(refusal.nodes)
    whole = sorted(zone for zone, names in zones.items() if zone and refused.issuperset(names))
    covered = frozenset(name for zone in whole for name in zones[zone])
    rest = [name for name in refusal.nodes if name not in covered]
    places = [zone if zone.startswith("zone") else f"zone {zone}" for zone in whole]
    if rest or not places:
        places.append(_some(rest or list(refusal.nodes)))
    where = " and ".join(places) if len(places) < 3 else f"{', '.join(places[:-1])} and {places[-1]}"
    names = f" ({_some(list(refusal.nodes))})" if whole else ""
    whom = (
        f" for namespace {pod['metadata'].get('namespace', '')}"
        if refusal.reason is RefusalReason.ZONE_QUOTA_EXCEEDED
        else ""
    )
    detail = f" {refusal.detail}" if refusal.detail else ""
    what = f"{refusal.reason}{detail}{_numbers(refusal)}"
    if refusal.reason is RefusalReason.NODE_AFFINITY:
        what = _affinity([node for node in nodes if node["metadata"]["name"] in refused], pod)
    return f"{refusal.plugin or 'scheduler'} rejects {where}{names}{whom}: {what}"


def _affinity(nodes: Sequence[Object], pod: Object) -> str:
    """What the pod asks of a node, and none of these has."""
    asked = parse_requirements(pod["spec"])
    wanted = [*asked.selector.requirements]
    if asked.terms is not None and len(asked.terms) == 1:
        wanted += asked.terms[0].labels
    labels = [node["metadata"].get("labels") or {} for node in nodes]
    missing = [str(each) for each in wanted if not any(each.matches(has) for has in labels)]
    if missing:
        return f"{'none matches' if len(nodes) > 1 else 'it does not match'} {', '.join(missing)}"
    if asked.terms is not None and (len(asked.terms) != 1 or asked.terms[0].names):
        return f"{'none matches' if len(nodes) > 1 else 'it does not match'} the pod's node affinity"
    return f"none matches all of {', '.join(str(each) for each in wanted)}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NODES_NAMED_MAX])
    return shown if len(names) <= NODES_NAMED_MAX else f"{shown} and {len(names) - NODES_NAMED_MAX} more"


def _numbers(refusal: Refusal) -> str:
    if refusal.wanted is None or not refusal.free:
        return ""
    if refusal.reason in (RefusalReason.SKEW_TOO_LARGE, RefusalReason.ZONE_SKEW_TOO_LARGE):
        return f", at most {refusal.wanted} allowed, would be at least {min(refusal.free)}"
    resource = refusal.detail.rpartition("/")[2]
    left = max(*refusal.free, 0)
    return f", {amount(resource, refusal.wanted)} requested, at most {amount(resource, left)} free"
