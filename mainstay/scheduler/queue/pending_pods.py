"""All pods that a scheduler has to place, by uid, each with its state: the one place that knows it.

The queue (scheduling_queue.py) orders those that wait, and the cycle decides about them and binds them. Both change a
pod's state only here, by a step that the table has (pod_states.py). Another step is a bug, and stops the scheduler with
the pod's story: what was decided about other pods counts on this one being where the table says.

An *assumed* pod was decided for, and the cache does not show it on its node yet. One whose binding got no answer may be
bound, now or in a moment. Its room stays taken until the cache shows what became of it, or the server answers the very
same binding sent again. No timer frees it (kubernetes #106361: what was freed after 30 seconds was given to a second
pod). An operation id makes the repeat harmless; without one, on a Kubernetes server, the repeat of a binding that was
done is refused.

The room itself is counted by the columns (cache/columns.py).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mainstay.api.object_key import ObjectKey
from mainstay.env.invariants import BrokenInvariant, broken
from mainstay.scheduler.bind import Bind
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.queue.pod_states import ASSUMED, IN_DOUBT, IN_HAND, STEPS, PodState
from mainstay.scheduler.reasons import Cure
from mainstay.scheduler.record import Deciding

_REPEATS_AT_ONCE_MAX: Final = 500
_TRAIL_MAX: Final = 16

_BEGINS: Final = 1
_ENDS: Final = -1
# By state, the states that may come next, and whether the pod begins or ends to be assumed with that step.
_STEPS: Final[Mapping[PodState, Mapping[PodState, int]]] = {
    before: {after: (after in ASSUMED) - (before in ASSUMED) for after in afters}
    for before, afters in STEPS.after.items()
}


class BindAttempt:
    """A decision that found a node, until it is known what became of the binding."""

    __slots__ = ("bind", "deciding", "mark", "pod", "score", "started_ns")

    def __init__(
        self, pod: "PendingPod", deciding: Deciding, bind: Bind, score: int, mark: int, started_ns: int
    ) -> None:
        self.pod = pod
        self.deciding = deciding
        self.bind = bind
        self.score = score
        self.mark = mark
        """The queue's, from before the decision."""
        self.started_ns = started_ns


class PendingPod:
    """A pod that needs a node. Read it; only `PendingPods` and the queue change it."""

    __slots__ = (
        "added_ns",
        "attempt",
        "attempts",
        "bound_revision",
        "cures",
        "failures",
        "is_outdated",
        "key",
        "left_out",
        "mark",
        "pod",
        "priority",
        "queued_ns",
        "refused_ns",
        "revision",
        "state",
        "ticket",
        "trail",
        "uid",
        "wakes",
        "woken_by",
    )

    def __init__(self, pod: PodToPlace, priority: int, revision: int, now_ns: int) -> None:
        self.pod = pod
        self.uid = pod.uid
        self.key = ObjectKey(pod.namespace, pod.name)
        self.priority = priority
        self.revision = revision
        """Of the pod as it was last seen."""
        self.state = PodState.GATED
        self.trail: list[PodState] = []
        """The latest states that it was in before."""
        # Waiting.
        self.added_ns = now_ns
        self.queued_ns = now_ns
        """When it last got in line."""
        self.refused_ns = now_ns
        self.is_outdated = False
        """It was changed while it was in hand."""
        self.attempts = 0
        self.failures = 0
        """In a row: what its backoff grows with."""
        self.cures: tuple[Cure, ...] = ()
        self.mark = 0
        """Of the decision by which it became unschedulable."""
        self.ticket = 0
        """Of its valid place in a line or among the timers."""
        self.woken_by: tuple[int, ...] = ()
        """The latest revisions that woke it since it was last decided about."""
        self.wakes = 0
        # Being placed.
        self.left_out: dict[str, None] = {}
        """The nodes where its binding was refused since it was last unschedulable."""
        self.attempt: BindAttempt | None = None
        """While it is assumed."""
        self.bound_revision = 0
        """At which the server has bound it; 0: bound, and not known when."""


class PendingPods:
    """By uid. `assumed` has those that count on a node, in the order in which their bindings were sent."""

    def __init__(self) -> None:
        self._pods: dict[str, PendingPod] = {}
        self._counts: dict[PodState, int] = dict.fromkeys(PodState, 0)
        self.assumed: dict[str, PendingPod] = {}
        self._to_repeat: dict[str, PendingPod] = {}
        """Those in doubt whose binding is not on its way again."""

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> PendingPod | None:
        return self._pods.get(uid)

    def count(self, state: PodState) -> int:
        return self._counts[state]

    @property
    def oldest_assumed(self) -> PendingPod | None:
        """The one whose binding was sent first."""
        return next(iter(self.assumed.values()), None)

    # Steps.

    def add(self, pod: PodToPlace, priority: int, revision: int, now_ns: int) -> PendingPod:
        """A pod that was not here. It is gated, until the queue says otherwise."""
        if pod.uid in self._pods:
            raise broken("a pod is pending once", _name(self._pods[pod.uid]), story=_story(self._pods[pod.uid]))
        added = self._pods[pod.uid] = PendingPod(pod, priority, revision, now_ns)
        self._counts[PodState.GATED] += 1
        return added

    def move(self, pod: PendingPod, state: PodState) -> None:
        """Raises `BrokenInvariant` if the table has no such step."""
        before = pod.state
        change = _STEPS[before].get(state)
        if change is None:
            raise _impossible(pod, state)
        self._counts[before] -= 1
        self._counts[state] += 1
        pod.state = state
        trail = pod.trail
        trail.append(before)
        if len(trail) > _TRAIL_MAX:
            del trail[: _TRAIL_MAX // 2]
        if change == _BEGINS:
            self.assumed[pod.uid] = pod
        elif change == _ENDS:
            self._to_repeat.pop(pod.uid, None)
            if self.assumed.pop(pod.uid, None) is not pod:
                raise broken("an assumed pod is among the assumed", _name(pod), story=_story(pod))
            pod.attempt = None

    def remove(self, uid: str) -> PendingPod | None:
        """A pod is shown on its node by the cache, or gone, or not ours any more."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self.move(pod, PodState.GONE)
            self._counts[PodState.GONE] -= 1
        return pod

    def assume(self, attempt: BindAttempt) -> None:
        """A node was found, and the binding will be sent."""
        attempt.pod.attempt = attempt
        self.move(attempt.pod, PodState.BINDING)

    def is_current(self, attempt: BindAttempt) -> bool:
        """Whether the pod still waits for what becomes of this attempt. The cache may have been faster."""
        return attempt.pod.attempt is attempt

    def confirm(self, pod: PendingPod, revision: int) -> None:
        """The server says that it is bound. 0: bound, and not known when."""
        self._to_repeat.pop(pod.uid, None)
        pod.bound_revision = revision
        self.move(pod, PodState.BOUND)

    def doubt(self, pod: PendingPod) -> None:
        """No answer came, or one that cannot be understood; or a pod that was bound is not shown."""
        self.move(pod, PodState.UNANSWERED if pod.state in IN_HAND else PodState.MISSING)
        self._to_repeat[pod.uid] = pod

    # Those in doubt.

    @property
    def has_doubts(self) -> bool:
        return bool(self._to_repeat)

    def take_doubtful(self) -> list[BindAttempt]:
        """Attempts whose bindings have to be sent again as they were."""
        uids = list(self._to_repeat)[:_REPEATS_AT_ONCE_MAX]
        return [self._get_attempt(self._to_repeat.pop(uid)) for uid in uids]

    def find_missing(self, revision: int, *, has_gone_back: bool) -> list[PendingPod]:
        """Those that are bound, and yet not shown by a cache that is as far: they are in doubt from now on. Costs as
        much as there are assumed pods: to be asked now and then."""
        found = [
            pod
            for pod in self.assumed.values()
            if pod.state is PodState.BOUND and (has_gone_back or pod.bound_revision <= revision)
        ]
        for pod in found:
            self.doubt(pod)
        return found

    # Invariants.

    def check(self, in_line: Iterable[PendingPod], on_timer: Iterable[PendingPod]) -> None:
        """Every pod is in exactly one of the sets that its state says. Costs as much as there are pods."""
        lines, timers = [each.uid for each in in_line], [each.uid for each in on_timer]
        places = {"lines": len(lines), "timers": len(timers), "assumed": len(self.assumed)}
        found: dict[str, str] = dict.fromkeys(lines, "line") | dict.fromkeys(timers, "timer")
        if len(found) != len(lines) + len(timers):
            raise broken("the queue's sets are disjoint", "the scheduling queue", **places)
        counts = dict.fromkeys(PodState, 0)
        for uid, pod in self._pods.items():
            counts[pod.state] += 1
            wanted = _PLACES.get(pod.state)
            if found.pop(uid, None) != wanted or (uid in self.assumed) != (pod.state in ASSUMED):
                raise broken("a pod is where its state says", _name(pod), story=_story(pod), wanted=wanted, **places)
            if (pod.attempt is not None) != (pod.state in ASSUMED):
                raise broken("an assumed pod has an attempt", _name(pod), story=_story(pod))
        if found or len(self.assumed) != sum(counts[state] for state in ASSUMED):
            raise broken("the queue's sets hold only pending pods", "the scheduling queue", left=list(found), **places)
        if counts != self._counts:
            raise broken("pods are counted by state", "the scheduling queue", counted=self._counts, found=counts)
        for pod in self._to_repeat.values():
            if pod.state not in IN_DOUBT:
                raise broken("only a binding in doubt is sent again", _name(pod), story=_story(pod))

    @staticmethod
    def _get_attempt(pod: PendingPod) -> BindAttempt:
        if pod.attempt is None:
            raise broken("an assumed pod has an attempt", _name(pod), story=_story(pod))
        return pod.attempt


_PLACES: Final[Mapping[PodState, str]] = {
    PodState.ACTIVE: "line",
    PodState.BACKING_OFF: "timer",
    PodState.UNSCHEDULABLE: "timer",
}
"""In which of the queue's sets a pod is. The others are in none."""


def _impossible(pod: PendingPod, state: PodState) -> BrokenInvariant:
    return broken(f"a pod that is {pod.state} does not become {state}", _name(pod), story=_story(pod))


def _name(pod: PendingPod) -> str:
    return f"pod {pod.key} (uid {pod.uid})"


def _story(pod: PendingPod) -> dict[str, object]:
    attempt = pod.attempt
    return {
        "states": [str(each) for each in (*pod.trail, pod.state)],
        "revision": pod.revision,
        "attempts": pod.attempts,
        "failures": pod.failures,
        "refused by": list(pod.left_out),
        "node": None if attempt is None else attempt.bind.node,
        "decision": None if attempt is None else attempt.bind.decision,
        "bound at": pod.bound_revision,
    }
