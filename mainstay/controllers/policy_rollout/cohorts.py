"""What the pods in the scope of a rollout show since its stage took effect: those under the candidate, and the rest.

Only pods that were created after the stage took effect are counted: older ones were placed by another policy. A pod is
judged at the age of `boundWithinSeconds`, bound or not. If bound pods counted sooner, a burst would fill the sample
with those that were placed at once, and the gate pass before the others count. A pod that no scheduler has decided
about at that age says nothing about policies, only that schedulers lag: it is counted by itself, and holds the gate.
Conflicts and refusals at the commit are counted by the schedulers (counters.py).

Pods that are gone are not counted. So an eviction shows for as long as the pod takes to stop; one that goes on shows at
each look.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.pod_state import created_at, find_condition, get_node_name, is_leaving, parse_time_or_none
from mainstay.api.policy_scope import PolicyScope, is_active, parse_scope, selects, specificity
from mainstay.api.scoped_pods import read_scoped_pod
from mainstay.client.indexes import NAMESPACE, PRIORITY_CLASS, Index
from mainstay.controllers.policy_rollout.counters import DecisionCounters
from mainstay.controllers.policy_rollout.health import CohortFigures
from mainstay.loop.view import View

_TEN_MINUTES: Final = len("2026-01-01T00:0")  # Of the text of a time: which ten minutes it is in.
_BUCKET: Final = timedelta(minutes=10)


def _list_buckets(created: Any) -> Iterable[str]:
    return (created[:_TEN_MINUTES],) if isinstance(created, str) else ()


CREATED: Final = Index("created", ("metadata", "creationTimestamp"), _list_buckets)
"""Pods by the ten minutes in which they were created, so that a look at the new ones does not read all."""


@dataclass(frozen=True, slots=True)
class CohortCounters:
    candidate: DecisionCounters
    baseline: DecisionCounters | None
    """None: its pods go by no PlacementPolicy."""


@dataclass(frozen=True, slots=True)
class Cohorts:
    candidate: CohortFigures
    baseline: CohortFigures


@dataclass(frozen=True, slots=True)
class CohortPods:
    candidate: list[Object]
    baseline: list[Object]


class _Tally:
    def __init__(self) -> None:
        self.pods = self.late = self.disrupted = self.undecided = 0
        self.pending: dict[str, int] = {}

    def add(self, pod: Object, now: datetime, accepted: timedelta) -> None:
        said = find_condition(pod, "PodScheduled") or {}
        created = created_at(pod)
        if now - created < accepted:
            return
        is_pending = not get_node_name(pod)
        if is_pending and (is_leaving(pod) or said.get("reason") == "SchedulingGated"):
            return
        if is_pending and not said:
            self.undecided += 1
            return
        bound = parse_time_or_none(said.get("lastTransitionTime"))
        if not is_pending and (said.get("status") != "True" or bound is None):
            return  # Created with a node: no scheduler has placed it.
        self.pods += 1
        if is_pending:
            reason = str(said.get("cause") or said.get("reason") or "Unknown")
            self.pending[reason] = self.pending.get(reason, 0) + 1
        if is_pending or (bound is not None and bound - created > accepted):
            self.late += 1
        if (find_condition(pod, "DisruptionTarget") or {}).get("status") == "True":
            self.disrupted += 1


def list_created(view: View, scope: PolicyScope, since: datetime) -> list[Object]:
    """The pods that were created after a time, as far as the seconds of the API tell: not within the same one. All that
    the scope selects are among them; those in other namespaces or of other priority classes are not read."""
    buckets = []
    bucket = since
    while _name_bucket(bucket) <= _name_bucket(view.now):
        buckets.append(_name_bucket(bucket))
        bucket += _BUCKET
    wanted: dict[str, Sequence[str]] = {CREATED.name: buckets}
    if scope.namespaces:
        wanted[NAMESPACE.name] = scope.namespaces
    if scope.priority_classes and all(scope.priority_classes):  # The empty one has the pods that no index finds.
        wanted[PRIORITY_CLASS.name] = scope.priority_classes
    return [pod for pod in view.by_all(PODS, wanted) if created_at(pod) > since]


def _name_bucket(at: datetime) -> str:
    return times.format_time(at)[:_TEN_MINUTES]


@dataclass(frozen=True, slots=True)
class RolledOut:
    """The policies that a rollout is about."""

    candidate: Object
    """With the limit of the stage."""
    baseline: Object | None
    others: Sequence[Object] = ()

    def find_scopes(self) -> tuple[PolicyScope, PolicyScope]:
        """The whole scope, and the part of it that the candidate has now."""
        limited = parse_scope(self.candidate)
        assert limited is not None, self.candidate["metadata"]["name"]
        return replace(limited, limit=None), limited

    def find_narrower(self) -> list[PolicyScope]:
        """Those of other active policies that take pods of the scope away from both."""
        least = specificity(self.find_scopes()[1])
        scopes = [parse_scope(each) for each in self.others if is_active(each)]
        return [scope for scope in scopes if scope is not None and specificity(scope) > least]


def split_pods(policies: RolledOut, pods: Iterable[Object]) -> CohortPods:
    """Those that go by the candidate, and the others of its scope. Pods that a narrower policy has are neither."""
    whole, limited = policies.find_scopes()
    narrower = policies.find_narrower()
    found = CohortPods([], [])
    for pod in pods:
        facts = read_scoped_pod(pod)
        if selects(whole, facts) and not any(selects(each, facts) for each in narrower):
            (found.candidate if selects(limited, facts) else found.baseline).append(pod)
    return found


def count_cohorts(pods: CohortPods, counted: CohortCounters, now: datetime, accepted: timedelta) -> Cohorts:
    """Of pods that were created since the stage took effect, and of what schedulers have counted since then."""
    ours, theirs = _Tally(), _Tally()
    for tally, cohort in ((ours, pods.candidate), (theirs, pods.baseline)):
        for pod in cohort:
            tally.add(pod, now, accepted)
    return Cohorts(_build_figures(ours, counted.candidate), _build_figures(theirs, counted.baseline))


def _build_figures(tally: _Tally, counted: DecisionCounters | None) -> CohortFigures:
    found = counted or DecisionCounters()
    return CohortFigures(
        pods=tally.pods,
        pending=dict(sorted(tally.pending.items())),
        late=tally.late,
        disrupted=tally.disrupted,
        undecided=tally.undecided,
        decided=found.decided,
        conflicts=found.conflicts,
        refused=found.refused,
        is_counted=counted is not None,
    )
