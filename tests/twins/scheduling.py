"""Bugs that a scheduler at work could have."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from mainstay.api.kind import Object
from mainstay.client.entry import Change
from mainstay.journal.record import ViewPart
from mainstay.scheduler import bind, cycle, report
from mainstay.scheduler.bind import Answer, Bind, Binder, NotDone, SeenRevisions, Unknown
from mainstay.scheduler.bindings import Bindings
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.feed import CacheFeed
from mainstay.scheduler.cache.unconfirmed import UnconfirmedWatch
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.queue.pending_pods import BindAttempt, PendingPod
from mainstay.scheduler.queue.pod_states import PodState
from mainstay.scheduler.queue.scheduling_queue import SchedulingQueue
from mainstay.scheduler.reasons import Cure, Placed
from mainstay.scheduler.record import Deciding
from mainstay.server.placement import pod_to_bind

Twin = Callable[[pytest.MonkeyPatch], None]


def loses_what_comes_before_the_parking(patch: pytest.MonkeyPatch) -> None:
    honest = SchedulingQueue.park

    def park(self: SchedulingQueue, uid: str, cures: Sequence[Cure], mark: int, now_ns: int) -> PodState | None:
        return honest(self, uid, cures, self.mark, now_ns)

    patch.setattr(SchedulingQueue, "park", park)


def takes_no_answer_for_a_no(patch: pytest.MonkeyPatch) -> None:
    """Frees the room of a binding that may yet be done."""
    honest = Bindings._answered

    def answered(self: Bindings, attempt: BindAttempt, answer: Answer) -> None:
        honest(self, attempt, NotDone(answer.message) if isinstance(answer, Unknown) else answer)

    patch.setattr(Bindings, "_answered", answered)


def takes_the_revision_of_pods_for_that_of_nodes(patch: pytest.MonkeyPatch) -> None:
    """What it says to have seen of nodes is what it has seen of pods."""

    def find_seen(view: Iterable[ViewPart]) -> SeenRevisions:
        seen = bind.find_seen(view)
        return SeenRevisions(seen.pods, seen.pods, seen.reservations)

    patch.setattr(cycle, "find_seen", find_seen)


def gives_devices_away_by_any_view(patch: pytest.MonkeyPatch) -> None:
    """Never asks to be refused."""
    honest = cycle.Cycle._bind

    def unstrict(
        self: cycle.Cycle, pod: PendingPod, deciding: Deciding, node: str, observed: SeenRevisions, chosen_at: str
    ) -> Bind:
        return replace(honest(self, pod, deciding, node, observed, chosen_at), is_strict=False)

    patch.setattr(cycle.Cycle, "_bind", unstrict)


def tries_the_same_node_again(patch: pytest.MonkeyPatch) -> None:
    def decide_again(
        vectors: Vectors, pod: PodToPlace, policy: Policy, seed: str, without: Iterable[str]
    ) -> Placed | None:
        found = decide(vectors, pod, policy, seed)
        return found if isinstance(found, Placed) else None

    patch.setattr(cycle, "decide_without", decide_again)


def gives_up_repeating(patch: pytest.MonkeyPatch) -> None:
    """Never asks what became of a binding, so its pod waits for ever if it was not done."""
    honest = Binder.bind
    sent: dict[str, None] = {}

    async def bind(self: Binder, binds: Sequence[Bind]) -> list[Answer]:
        if all(each.operation in sent for each in binds):
            return [Unknown("not sent again")] * len(binds)
        sent.update(dict.fromkeys(each.operation for each in binds))
        return await honest(self, binds)

    patch.setattr(Binder, "bind", bind)


def never_asks_for_unconfirmed_charges(patch: pytest.MonkeyPatch) -> None:
    """What the server refuses because of them is tried again and again."""
    patch.setattr(UnconfirmedWatch, "refused", lambda self, node: None)


def asks_for_unconfirmed_charges_once(patch: pytest.MonkeyPatch) -> None:
    """Does not find out that they are gone."""
    patch.setattr(UnconfirmedWatch, "_later", lambda self, node, *, is_news: self._nodes.pop(node, None))


def does_not_hear_that_a_node_is_gone(patch: pytest.MonkeyPatch) -> None:
    honest = CacheFeed.node_changed

    def node_changed(self: CacheFeed, change: Change) -> None:
        if change.new is not None:
            honest(self, change)

    patch.setattr(CacheFeed, "node_changed", node_changed)


def loses_the_pods_of_a_node_that_goes(patch: pytest.MonkeyPatch) -> None:
    """They are still charged when a node of that name comes back, and their own end is yet to come."""
    honest = NodeColumns.node_changed

    def node_changed(self: NodeColumns, node: Object | None, name: str) -> tuple[Cure, ...]:
        row = self._rows.get(name)
        if node is None and row is not None:
            for uid in list(self._pods_on[row]):
                self._remove(uid)
        return honest(self, node, name)

    patch.setattr(NodeColumns, "node_changed", node_changed)


def keeps_the_room_of_a_refused_binding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeColumns, "forget", lambda self, uid: ())


def says_for_ever_that_it_tries_again(patch: pytest.MonkeyPatch) -> None:
    """The binding that is made in the end leaves the condition as it is."""
    patch.setattr(pod_to_bind, "_settled", lambda retrying, now: retrying)


def tells_without_looking(patch: pytest.MonkeyPatch) -> None:
    """Says that a binding is retried of a pod that may be bound by now."""
    honest = report.retrying_patch

    def retrying_patch(pod: Object, message: str, now: datetime, scheduled_at: str = "") -> Object | None:
        found = honest({**pod, "spec": {}}, message, now, scheduled_at)
        if found is not None:
            del found["metadata"]["resourceVersion"]
        return found

    patch.setattr(report, "retrying_patch", retrying_patch)
