"""A pod with a hard spread constraint goes only where the skew stays within what is allowed, and only to nodes that
have the label at all.

The skew of a domain is the number of matching pods in it, with this one if it matches itself, less the smallest such
number of any domain; that number is taken to be 0 as long as there are fewer domains than `minDomains`.

A constraint is the pod's own, or the `maxZoneSkew` of the policy that it goes by (../policy_class.py), which the reason
then names.
"""

from collections.abc import Iterator
from typing import Final

from mainstay.scheduler.cache import domains
from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.label_column import ABSENT
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "PodTopologySpread"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths | None:
    """Whether the nodes have the labels. Skews are judged by `domains.Domains.allowed`, for all nodes of a domain."""
    if not any(each.is_hard for each in pod.spread):
        return None
    return domains.has_all_labels(columns, pod, True, rows)


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    missing = (Cure.NODE_ADDED, Cure.NODE_LABELS)
    levelled = (*missing, Cure.NODE_REMOVED, Cure.NODE_TAINTS, Cure.POD_REMOVED, Cure.POD_PLACED, Cure.POD_LABELS)
    for constraint in pod.spread:
        if not constraint.is_hard:
            continue
        found = domains.Domains(columns, pod, constraint, ring)
        has_label = found.by_place != ABSENT
        skews = found.skews()[found.by_place]
        found.close(columns)
        key, policy = constraint.key, constraint.policy
        yield from refused(ring, ~has_label, RefusalReason.TOPOLOGY_LABEL_MISSING, PLUGIN, missing, detail=key)
        yield from refused(
            ring,
            has_label & (skews > constraint.max_skew),
            RefusalReason.ZONE_SKEW_TOO_LARGE if policy else RefusalReason.SKEW_TOO_LARGE,
            PLUGIN,
            (*levelled, Cure.PLACEMENT_POLICY) if policy else levelled,
            detail=policy or key,
            wanted=constraint.max_skew,
            free=skews,
        )
