"""Now and then a decision is made a second time, on columns made from the caches alone, and must come out the same.

The columns are kept up to date change by change for days. A mistake in that would show in no single step: pods would go
to worse nodes, or wait for room that is there, until the scheduler is restarted. So one decision in many is made again
from the view and the scheduler's memory (which pods are assumed where, which charges are unconfirmed), and a
disagreement is logged and counted. It changes nothing: the decision stands, because the commit is what keeps nodes
from harm.

To make columns takes about 20 microseconds for each object, in one step. Where there are too many it is left out.
"""

from collections.abc import Container, Iterable

from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide, decide_without
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Decision
from mainstay.scheduler.what_if import Objects, build_columns


def decide_from_objects(
    objects: Objects,
    kept: NodeColumns,
    assumed: Container[str],
    pod: PodToPlace,
    policy: Policy,
    seed: str,
    left_out: Iterable[str],
) -> Decision | None:
    """What would be decided about a pod from these objects, and of the columns that were kept only the unconfirmed
    charges and where the assumed pods are. None: nothing but the nodes that are left out could take it."""
    columns = build_columns(objects)
    columns.take_memory_from(kept, assumed)
    vectors = Vectors(columns)
    without = tuple(left_out)
    if without:
        return decide_without(vectors, pod, policy, seed, without)
    return decide(vectors, pod, policy, seed)
