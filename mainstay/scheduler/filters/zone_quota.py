"""A pod goes only to zones in which its namespace's quota leaves enough. Nodes without a zone are in none."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "ZoneQuota"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths | None:
    if not columns.quotas.has(pod.namespace):
        return None
    shortages = columns.quotas.shortages(pod.namespace, pod.requests)
    if not shortages:
        return None
    zones = columns.label(ZONE_LABEL)
    allowed = np.ones(len(zones.values), np.bool_)
    for shortage in shortages:
        number = zones.find_number(shortage.zone)
        if number:
            allowed[number] = False
    found: Truths = allowed[zones.numbers[rows]]
    return found


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    cures = (Cure.NODE_ADDED, Cure.NODE_LABELS, Cure.POD_REMOVED, Cure.ZONE_QUOTA)
    zones = columns.label(ZONE_LABEL)
    for shortage in columns.quotas.shortages(pod.namespace, pod.requests):
        number = zones.find_number(shortage.zone)
        refuses = zones.numbers[ring.rows] == (number or -1)
        yield from refused(
            ring,
            refuses,
            RefusalReason.ZONE_QUOTA_EXCEEDED,
            PLUGIN,
            cures,
            detail=f"{shortage.zone}/{shortage.resource}",
            wanted=shortage.wanted,
            free=np.full(len(ring), shortage.left, np.int64),
        )
