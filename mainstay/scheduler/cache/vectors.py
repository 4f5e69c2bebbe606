"""The vectors that are kept between decisions, for each class of pods and policy.

At most `BYTES_MAX` of them, about; dropped are those that were not used for the longest time. A pod that only one or a
few named nodes can take gets vectors over those nodes alone, which are not kept: there is one such class for each of a
DaemonSet's pods.
"""

from collections import OrderedDict
from typing import Final

from mainstay.scheduler.cache.class_vectors import ClassVectors
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring, build_stop
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Unschedulable

BYTES_MAX: Final = 64_000_000
_BYTES_OF_A_NODE: Final = 40  # In the vectors of one class.
_CLASSES_LEAST: Final = 16
_REFUSED_MAX: Final = 200


class Vectors:
    """Belongs to one set of columns. Make another one for other columns; none of it is needed again."""

    def __init__(self, columns: NodeColumns) -> None:
        self.columns = columns
        self._kept: OrderedDict[tuple[bytes, Policy], ClassVectors] = OrderedDict()
        self.refused: dict[bytes, tuple[int, Unschedulable]] = {}
        """By class, the last refusal, and the version of the columns it was for."""
        self._last: tuple[PodClass | None, Policy | None, ClassVectors | None] = (None, None, None)

    def of(self, pod: PodClass, policy: Policy) -> ClassVectors:
        """For the next decision about a pod of this class."""
        last_pod, last_policy, last = self._last
        if last is not None and pod is last_pod and policy is last_policy:
            return last
        named = self._named(pod)
        if named is not None:
            return ClassVectors(self.columns, pod, policy, named)
        key = (pod.key, policy)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = ClassVectors(self.columns, pod, policy)
            self._drop_oldest()
        else:
            self._kept.move_to_end(key)
        self._last = (pod, policy, found)
        return found

    def keep_refused(self, key: bytes, version: int, found: Unschedulable) -> None:
        if len(self.refused) >= _REFUSED_MAX:
            self.refused.clear()
        self.refused[key] = (version, found)

    def __len__(self) -> int:
        return len(self._kept)

    def _drop_oldest(self) -> None:
        most = max(BYTES_MAX // (_BYTES_OF_A_NODE * (len(self.columns.ring) + 1)), _CLASSES_LEAST)
        while len(self._kept) > most:
            self._kept.popitem(last=False)[1].close()

    def _named(self, pod: PodClass) -> Ring | None:
        """The only nodes that can take the pod, if they are named. With spread constraints all nodes matter."""
        if pod.spread:
            return None
        columns, names = self.columns, pod.named_nodes
        if pod.reservation:
            held = columns.reservation(pod.namespace, pod.reservation)
            if held is not None:
                names = (held.node,)
        if names is None:
            return None
        found = [(name, columns.find_row(name)) for name in names]
        return Ring(sorted(build_stop(name, row) for name, row in found if row is not None))
