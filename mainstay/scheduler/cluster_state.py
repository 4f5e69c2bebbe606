"""What a scheduler knows: nodes as columns, the pods that need a node, and their queue.

`ClusterView` is where it comes from, the caches of the component. `ClusterState` is what is made of it, kept up to date
by `feed` (cache/feed.py) for as long as one cycle lives. `work` is set when there may be something to decide.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mainstay.client.informer import Informer
from mainstay.env import Clock
from mainstay.env.invariants import Sample, broken
from mainstay.journal.record import ViewPart
from mainstay.scheduler.active_policies import ActivePolicies
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.feed import CacheFeed
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.queue.pending_pods import BindAttempt, PendingPods
from mainstay.scheduler.queue.scheduling_queue import SchedulingQueue, SchedulingQueueSettings
from mainstay.scheduler.what_if import Objects


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The caches that decisions are made from, as the component has them."""

    pods: Informer
    names: tuple[str, ...]
    """The `schedulerName`s of the pods that are ours."""
    seen: Callable[[], tuple[ViewPart, ...]]
    """Names the view: how far each cache is."""
    policies: Callable[[], ActivePolicies]
    """Those of this moment: what decisions go by."""
    objects: Callable[[int], Objects | None]
    """All that is in the caches; None if it is more than so many objects."""


class ClusterState:
    def __init__(
        self,
        clock: Clock,
        names: tuple[str, ...],
        queue: SchedulingQueueSettings,
        *,
        settled: Callable[[str], None],
        check_one_in: int,
    ) -> None:
        """`settled` is called when the cache shows what became of a pod. One step in `check_one_in` checks a node."""
        self.work = asyncio.Event()
        self.columns = NodeColumns()
        self.vectors = Vectors(self.columns)
        self.pods = PendingPods()
        self.queue = SchedulingQueue(queue, self.pods)
        self.feed = CacheFeed(self.columns, self.queue, clock, names, wake=self.work.set, settled=settled)
        self._samples = Sample(check_one_in)

    def assume(self, attempt: BindAttempt) -> None:
        """Count a pod on the node that was found for it."""
        uid, node = attempt.bind.uid, attempt.bind.node
        self.pods.assume(attempt)
        if self.columns.find_node(uid) != node:
            place = self.columns.find_node(uid)
            raise broken("an assumed pod counts on its node", f"pod {attempt.pod.key}", node=node, counted_on=place)

    def release(self, uid: str, now_ns: int, since: int = 0) -> None:
        """A pod is not on its node after all. `since` is the mark of the decision by which it was assumed to be."""
        cures = self.columns.forget(uid)
        if cures:
            self.queue.changed(cures, now_ns, since=since)

    def check_sample(self) -> None:
        """Check one node, now and then: to be called after each step."""
        if self._samples.take():
            self.columns.check_next_node()
