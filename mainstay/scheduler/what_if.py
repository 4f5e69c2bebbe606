"""What would be decided, if the world were like this?

`Objects` is a view as plain values: from caches, from history, or made up. `with_changes` puts other objects into it,
so that one can ask before doing: with one more node, without that pod, with a larger quota. The same functions decide
as in production, on columns that are made for the question.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide_batch
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Decision


@dataclass(frozen=True, slots=True)
class Objects:
    """All that a placement is decided from."""

    nodes: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    """Bound ones count where they are. Others do not count, but for those that are assumed."""
    reservations: tuple[Object, ...] = ()
    zone_quotas: tuple[Object, ...] = ()
    assumed: tuple[tuple[Object, str], ...] = ()
    """Pods that were decided for and are not known to be bound, each with its node: the scheduler's memory."""
    unconfirmed: tuple[tuple[str, tuple[Object, ...]], ...] = ()
    """What the server has told of each node's unconfirmed charges: memory, too."""

    def with_changes(
        self,
        *,
        nodes: Iterable[Object] = (),
        pods: Iterable[Object] = (),
        reservations: Iterable[Object] = (),
        zone_quotas: Iterable[Object] = (),
        without_nodes: Iterable[str] = (),
        without_pods: Iterable[ObjectKey] = (),
    ) -> "Objects":
        """The same with these objects in place of those of the same name, or in addition; and without some."""
        return Objects(
            nodes=_replaced(self.nodes, nodes, [ObjectKey("", name) for name in without_nodes]),
            pods=_replaced(self.pods, pods, without_pods),
            reservations=_replaced(self.reservations, reservations, ()),
            zone_quotas=_replaced(self.zone_quotas, zone_quotas, ()),
            assumed=self.assumed,
            unconfirmed=self.unconfirmed,
        )


def build_columns(objects: Objects) -> NodeColumns:
    """Columns made from a view alone."""
    columns = NodeColumns()
    for node in objects.nodes:
        columns.node_changed(node, node["metadata"]["name"])
    for name, unconfirmed in objects.unconfirmed:
        columns.unconfirmed_changed(name, {each["uid"]: build_unconfirmed_charge(each) for each in unconfirmed})
    for pod, name in objects.assumed:
        columns.assume(pod_to_place(pod), name)
    for pod in objects.pods:
        columns.pod_changed(None, pod)
    for reservation in objects.reservations:
        columns.reservation_changed(None, reservation)
    for quota in objects.zone_quotas:
        columns.zone_quota_changed(None, quota)
    return columns


def what_if(objects: Objects, pods: Iterable[Object], policy: Policy, seed: str) -> list[Decision]:
    """What would be decided for these pods, one after the other."""
    vectors = Vectors(build_columns(objects))
    return decide_batch(vectors, [pod_to_place(pod) for pod in pods], policy, seed)


def _replaced(held: tuple[Object, ...], given: Iterable[Object], without: Iterable[ObjectKey]) -> tuple[Object, ...]:
    found = {_key(each): each for each in held}
    found |= {_key(each): each for each in given}
    for key in without:
        found.pop(key, None)
    return tuple(found[key] for key in sorted(found))


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
