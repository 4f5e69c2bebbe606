"""From what the caches hear to what the scheduler knows: columns, queue, and which assumptions have come true.

Called in the very step in which a cache has applied a change, so all of it agrees. Each change goes to the columns,
and the cures that they name to the queue. A pod without a node goes to the queue, if it is for one of our names and
nothing holds it back; one that gets a node, ends or is removed leaves it, whatever the reason.

Nothing here depends on having seen every step: after a gap the caches tell what is different, and a node or a pod that
went unnoticed is delivered as gone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import is_over
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.env import Clock
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.queue.pod_states import PodState
from mainstay.scheduler.queue.scheduling_queue import SchedulingQueue
from mainstay.scheduler.reasons import Cure

DEFAULT_NAME: Final = "default-scheduler"


class CacheFeed:
    def __init__(
        self,
        columns: NodeColumns,
        queue: SchedulingQueue,
        clock: Clock,
        names: Sequence[str],
        *,
        wake: Callable[[], None],
        settled: Callable[[str], None],
    ) -> None:
        """`wake` is called when a pod may be in line, or will be sooner than before; `settled` when the cache shows
        that a pod has a node or is no more."""
        self._columns = columns
        self._queue = queue
        self._clock = clock
        self._names = frozenset(names)
        self._wake = wake
        self._settled = settled
        self._reached = 0
        self.has_gone_back = False
        """The store is at an earlier revision than it was. Its reader sets it back."""
        self._awaited: dict[str, None] = {}
        """Nodes of which the server knows something that the caches do not show yet."""

    def await_change(self, node: str) -> None:
        """The server refused a binding because of a change of this node: tell the queue when the caches show one."""
        self._awaited[node] = None

    # The kinds.

    def node_changed(self, change: Change) -> None:
        node = None if change.new is None else change.new.object()
        cures = self._columns.node_changed(node, change.key.name)
        self._tell((*cures, *self._catch_up(change.key.name)), change.revision)

    def reservation_changed(self, change: Change) -> None:
        new = _object(change.new)
        cures = self._columns.reservation_changed(_object(change.old), new)
        node = "" if new is None else (new.get("spec") or {}).get("nodeName") or ""
        self._tell((*cures, *self._catch_up(node)), change.revision)

    def zone_quota_changed(self, change: Change) -> None:
        self._tell(self._columns.zone_quota_changed(_object(change.old), _object(change.new)), change.revision)

    def policy_changed(self, change: Change) -> None:
        """Pods may go by another policy, under which skews are bounded otherwise, or not at all. Pods that are refused
        for a skew wait for labels of nodes in any case; for a policy they wait only if one was in the way."""
        self._tell((Cure.PLACEMENT_POLICY, Cure.NODE_LABELS), change.revision)

    def pod_changed(self, change: Change) -> None:
        if change.revision < self._reached:
            self.has_gone_back = True
        self._reached = change.revision
        if change.new is None:
            if change.old is not None:
                self._gone(change.old.uid, change.revision)
            return
        self._look(change.new, change.revision)

    def look_again(self, pods: Cache, key: ObjectKey) -> None:
        """A pod is not assumed any more: see what the cache says of it."""
        entry = pods.entry(key)
        if entry is not None:
            self._look(entry, 0)

    # Pods.

    def _look(self, entry: CachedObject, revision: int) -> None:
        pod, uid = entry.object(), entry.uid
        spec: Object = pod.get("spec") or {}
        if spec.get("nodeName") or is_over(pod):
            cures = self._columns.pod_changed(None, pod)
            self._tell((*cures, *self._catch_up(spec.get("nodeName") or "")) if self._awaited else cures, revision)
            self._leave(uid)
            return
        if uid in self._queue.pods.assumed:
            return  # The cache is not as far as we are.
        if self._columns.find_node(uid) is not None:
            self._tell(self._columns.pod_changed(_just(uid), None), revision)  # The store has gone back.
        if not self._is_ours(pod, spec):
            self._queue.remove(uid)
            return
        self._queue.put(
            pod_to_place(pod),
            spec.get("priority") or 0,
            self._clock.monotonic_ns(),
            revision=entry.revision,
            is_gated=bool(spec.get("schedulingGates")),
        )
        if self._queue.pods.count(PodState.ACTIVE):
            self._wake()

    def _catch_up(self, node: str) -> tuple[Cure, ...]:
        if node not in self._awaited:
            return ()
        del self._awaited[node]
        return (Cure.VIEW_CAUGHT_UP,)

    def _gone(self, uid: str, revision: int) -> None:
        self._tell(self._columns.pod_changed(_just(uid), None), revision)
        self._leave(uid)

    def _leave(self, uid: str) -> None:
        if self._queue.remove(uid) is not None:
            self._settled(uid)

    def _is_ours(self, pod: Object, spec: Object) -> bool:
        return (spec.get("schedulerName") or DEFAULT_NAME) in self._names and "deletionTimestamp" not in pod["metadata"]

    def _tell(self, cures: Sequence[Cure], revision: int) -> None:
        if cures:
            due_ns = self._queue.next_due_ns
            self._queue.changed(cures, self._clock.monotonic_ns(), revision)
            if self._queue.pods.count(PodState.ACTIVE) or self._queue.next_due_ns != due_ns:
                self._wake()


def _object(entry: CachedObject | None) -> Object | None:
    return None if entry is None else entry.object()


def _just(uid: str) -> dict[str, Any]:
    """All that the columns need of a pod that is gone."""
    return {"metadata": {"uid": uid}}
