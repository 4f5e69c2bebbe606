"""Which node a pod goes to: a function of what the columns say, the pod, the policy and the seed.

    vectors = Vectors(columns)
    match decide(vectors, pod, policy, seed):
        case Placed(node, score): columns.assume(pod, node), and bind it
        case Unschedulable() as no: no.refusals say why, no.cures what is worth another try

The best of all nodes that can take the pod is chosen, not the best of some. What the columns say decides, and nothing
else: not the order in which they were told, not what was decided before, not what happens to be kept in `vectors`.

It does not place anything: until the pod is assumed, deciding again says the same. `decide_batch` assumes as it goes.

`decide_without` is for a pod whose binding was refused on some nodes. The server knew something that the columns do not
know yet. Until they do, deciding again would name the same node, so it is left out for the next tries of this pod, and
of no other.
"""

from collections.abc import Iterable

from mainstay.scheduler.cache.arrays import Numbers
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.filters.table import refusals
from mainstay.scheduler.pod_class import PodClass, PodToPlace
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.policy_class import class_under
from mainstay.scheduler.reasons import Decision, Placed, Unschedulable


def decide(vectors: Vectors, pod: PodToPlace, policy: Policy, seed: str) -> Decision:
    """The node for a pod, or why there is none."""
    pod_class = class_under(pod, policy)
    ring, totals = vectors.of(pod_class, policy).totals()
    place = choose(totals, ring.start_for(seed, pod.uid))
    if place is None:
        return _refused(vectors, pod_class)
    return Placed(ring.names[place], int(totals[place]))


def decide_without(
    vectors: Vectors, pod: PodToPlace, policy: Policy, seed: str, without: Iterable[str]
) -> Placed | None:
    """As `decide`, on nodes other than these. None: no other node can take it."""
    ring, totals = vectors.of(class_under(pod, policy), policy).totals()
    left = totals.copy()
    for name in without:
        row = vectors.columns.find_row(name)
        place = None if row is None else ring.places.get(row)
        if place is not None:
            left[place] = -1
    place = choose(left, ring.start_for(seed, pod.uid))
    return None if place is None else Placed(ring.names[place], int(left[place]))


def choose(totals: Numbers, start: int) -> int | None:
    """The best of all nodes: the largest score, and among equals the first from the pod's place around the ring.

    Returns its place on the ring; None if no node can take the pod: all totals are negative."""
    if not len(totals):
        return None
    ahead, behind = totals[start:], totals[:start]
    # `argmax` gives the first of equals. What lies ahead comes first, then around.
    place = start + int(ahead.argmax()) if len(ahead) else -1
    if len(behind):
        around = int(behind.argmax())
        if place < 0 or totals[around] > totals[place]:
            place = around
    return place if totals[place] >= 0 else None


def decide_batch(vectors: Vectors, pods: Iterable[PodToPlace], policy: Policy, seed: str) -> list[Decision]:
    """Decide for one after the other, each as if those before it were already bound. All that found a node are then
    assumed to be there."""
    found: list[Decision] = []
    for pod in pods:
        decision = decide(vectors, pod, policy, seed)
        if isinstance(decision, Placed):
            vectors.columns.assume(pod, decision.node)
        found.append(decision)
    return found


def scores(vectors: Vectors, pod: PodToPlace, policy: Policy) -> dict[str, int]:
    """Of all nodes that can take a pod, by name: for explanations."""
    ring, totals = vectors.of(class_under(pod, policy), policy).totals()
    return {name: total for name, total in sorted(zip(ring.names, totals.tolist(), strict=True)) if total >= 0}


def _refused(vectors: Vectors, pod: PodClass) -> Unschedulable:
    """Many pods of one class may be refused in a row: while nothing has changed, the answer is the same."""
    kept = vectors.refused.get(pod.key)
    version = vectors.columns.version
    if kept is not None and kept[0] == version:
        return kept[1]
    found = Unschedulable(len(vectors.columns.ring), refusals(vectors.columns, pod))
    vectors.keep_refused(pod.key, version, found)
    return found
