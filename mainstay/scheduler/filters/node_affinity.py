"""A pod goes only to nodes that its node selector and its required node affinity allow."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from mainstay.api.node_terms import NodeTerm
from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "NodeAffinity"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths | None:
    if pod.nodes.is_empty:
        return None
    allowed = np.ones(len(rows), np.bool_)
    for requirement in pod.nodes.selector.requirements:
        allowed &= columns.label(requirement.key).matching(requirement, rows)
    if pod.nodes.terms is not None:
        by_terms = np.zeros(len(rows), np.bool_)
        for term in pod.nodes.terms:
            by_terms |= term_matching(columns, term, rows)
        allowed &= by_terms
    return allowed


def term_matching(columns: NodeColumns, term: NodeTerm, rows: Rows) -> Truths:
    """For which of the rows all requirements of a term hold."""
    found = np.ones(len(rows), np.bool_)
    for requirement in term.labels:
        found &= columns.label(requirement.key).matching(requirement, rows)
    for named in term.names:
        row = columns.find_row(named.name)
        found &= (rows == (-1 if row is None else row)) == named.is_wanted
    return found


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    found = passing(columns, pod, ring.rows)
    if found is not None:
        cures = (Cure.NODE_ADDED, Cure.NODE_LABELS)
        yield from refused(ring, ~found, RefusalReason.NODE_AFFINITY, PLUGIN, cures)
