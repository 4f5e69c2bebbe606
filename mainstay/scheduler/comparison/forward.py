"""Run a policy forward: where the pods of a recorded time would have gone, each placement resting on those before it.

Two models of the cluster, one by the recorded policies and one with the candidate, get the same inputs: the nodes,
reservations and quotas as they changed, the pods in the order in which the scheduler first decided about each, and
their ends when the journal has them. Each model keeps its own placements. A pod that fits nowhere waits, and is tried
again after something has changed.

What the model leaves out (`LEFT_OUT` says so to users): pods run for as long as they did; no controller or autoscaler
reacts to a pod that waits or runs elsewhere; nothing is evicted or preempted, and priorities do not order those that
wait; the scheduler's view is never stale and no binding is rejected; unconfirmed charges, resized pods and policies
that change while a pod waits are not followed. Pods without a recorded, replayable decision count where they ran.

Because of all that, compare the two models with each other, not with what happened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Final

from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.journal.keys import parse_object_key
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.comparison.history import (
    KINDS,
    PlacementHistory,
    ViewCursor,
    change_columns,
    decode_object,
    decode_pod_state,
)
from mainstay.scheduler.comparison.measures import (
    RESOURCES,
    ResourceMeasure,
    TypicalPod,
    find_typical,
    measure_columns,
)
from mainstay.scheduler.decide import decide_without
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.policy_class import class_under

SAMPLES: Final = 200
"""How often the models are measured over the time."""
RETRIES_MAX: Final = 5_000
"""How often pods that wait are tried again over the time."""
LEFT_OUT: Final = (
    "pods run for as long as recorded; no controller or autoscaler reacts to other placements",
    "nothing is evicted or preempted; priorities do not order pods that wait",
    "the view is never stale, and no binding is rejected",
    "a pod keeps the policy of its first decision, also while it waits",
    f"pods that wait are tried again at most {RETRIES_MAX:,} times over the whole time",
)


@dataclass(frozen=True, slots=True)
class PodArrival:
    """A pod that a scheduler decided about for the first time."""

    revision: int
    """Of the pods in the view: it comes after all changes up to it."""
    order: tuple[int, str]
    """Among those of one revision: by time, then by the name of the decision."""
    pod: PodToPlace
    recorded: Policy
    candidate: Policy
    seed: str


@dataclass(frozen=True, slots=True)
class ForwardFigures:
    """What became of the pods by one policy. Balance and fragmentation are means over the time, in percent."""

    arrived: int
    placed: int
    pending_end: int
    """Pods that wait when the time is over."""
    pending_most: int
    pending_mean: float
    resources: Mapping[str, ResourceMeasure]


@dataclass(slots=True)
class _Model:
    """A cluster, with the placements of one policy."""

    columns: NodeColumns = field(default_factory=NodeColumns)
    placed: int = 0
    pending_most: int = 0
    pending_samples: list[int] = field(default_factory=list)
    samples: list[dict[str, ResourceMeasure]] = field(default_factory=list)
    _vectors: Vectors | None = None
    _waiting: dict[tuple[bytes, Policy], dict[str, tuple[PodToPlace, str]]] = field(default_factory=dict)
    """By class and policy, then by uid, in the order of arrival: pods with their seeds."""
    _group_by_uid: dict[str, tuple[bytes, Policy]] = field(default_factory=dict)
    _tried_at: int = -1

    @property
    def pending(self) -> int:
        return len(self._group_by_uid)

    def arrive(self, pod: PodToPlace, policy: Policy, seed: str) -> None:
        group = class_under(pod, policy).key, policy
        if (self._waiting and group in self._waiting) or not self._place(pod, policy, seed):
            self._waiting.setdefault(group, {})[pod.uid] = pod, seed
            self._group_by_uid[pod.uid] = group
            self.pending_most = max(self.pending_most, self.pending)

    def end(self, uid: str) -> None:
        group = self._group_by_uid.pop(uid, None)
        if group is None:
            self.columns.pod_changed({"metadata": {"uid": uid}}, None)
            return
        del self._waiting[group][uid]
        if not self._waiting[group]:
            del self._waiting[group]

    def retry(self) -> None:
        """Try those that wait again. Of equal ones that wait, none fits if the first does not."""
        if self._tried_at == self.columns.version:
            return
        for group in list(self._waiting):
            pods = self._waiting[group]
            for uid, (pod, seed) in list(pods.items()):
                if not self._place(pod, group[1], seed):
                    break
                del pods[uid], self._group_by_uid[uid]
            if not pods:
                del self._waiting[group]
        self._tried_at = self.columns.version

    def measure(self, typical: TypicalPod) -> None:
        self.pending_samples.append(self.pending)
        self.samples.append(measure_columns(self.columns, typical))

    def _place(self, pod: PodToPlace, policy: Policy, seed: str) -> bool:
        if self._vectors is None:
            self._vectors = Vectors(self.columns)
        found = decide_without(self._vectors, pod, policy, seed, ())
        if found is None:
            return False
        self.columns.assume(pod, found.node)
        self.placed += 1
        return True

    def figures(self, arrived: int) -> ForwardFigures:
        count = len(self.samples)
        means = {
            name: ResourceMeasure(
                sum(each[name].deviation for each in self.samples) / count,
                sum(each[name].spread for each in self.samples) / count,
                _find_mean([each[name].fragmentation for each in self.samples]),
            )
            for name in (RESOURCES if count else ())
        }
        mean = sum(self.pending_samples) / count if count else 0.0
        return ForwardFigures(arrived, self.placed, self.pending, self.pending_most, mean, means)


def _find_mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known else None


@dataclass(slots=True)
class _Replay:
    """Both models, and what the journal tells them."""

    models: tuple[_Model, _Model]
    arriving: frozenset[str]
    """The uids of all pods that arrive."""
    uids: dict[ObjectKey, str] = field(default_factory=dict)

    def change(self, kind: str, key: ObjectKey, revision: int, value: bytes | None) -> None:
        if kind == PODS.text:
            self._change_pod(key, value)
            return
        for model in self.models:
            change_columns(model.columns, kind, key, value)

    def _change_pod(self, key: ObjectKey, value: bytes | None) -> None:
        before, pod = self.uids.get(key), None if value is None else decode_pod_state(value)
        if before is not None and (pod is None or before != pod.uid):
            self._end(before)
            del self.uids[key]
        if pod is None or value is None:
            return
        uid = self.uids[key] = pod.uid
        if pod.is_over:
            self._end(uid)
        elif pod.is_bound and uid not in self.arriving:
            recorded = decode_object(value)
            for model in self.models:
                model.columns.pod_changed(None, recorded)

    def _end(self, uid: str) -> None:
        for model in self.models:
            model.end(uid)


async def run_forward(
    history: PlacementHistory, arrivals: Sequence[PodArrival]
) -> tuple[ForwardFigures, ForwardFigures]:
    """The figures by the recorded policies, and with the candidate. Raises `JournalUnreachable`."""
    models = (_Model(), _Model())
    ordered = sorted(arrivals, key=lambda each: (each.revision, each.order))
    replay = _Replay(models, frozenset(each.pod.uid for each in ordered))
    cursor = ViewCursor(history, replay.change)
    await cursor.start(dict.fromkeys(KINDS, history.begins))
    typical = find_typical(each.pod for each in ordered)
    sample_every = max(len(ordered) // SAMPLES, 1)
    retry_every = max(len(ordered) // RETRIES_MAX, 1)
    changes = list(merge(*history.changes.values(), key=lambda each: each.revision))
    kinds = {change.key: kind for kind, listed in history.changes.items() for change in listed}
    at = 0
    for number, arrival in enumerate(ordered):
        while at < len(changes) and changes[at].revision <= arrival.revision:
            change = changes[at]
            replay.change(kinds[change.key], parse_object_key(change.key), change.revision, change.value)
            at += 1
        for model, policy in zip(models, (arrival.recorded, arrival.candidate), strict=True):
            if number % retry_every == 0:
                model.retry()
            model.arrive(arrival.pod, policy, arrival.seed)
            if number % sample_every == 0:
                model.measure(typical)
    for model in models:
        model.retry()
        model.measure(typical)
    return models[0].figures(len(ordered)), models[1].figures(len(ordered))
