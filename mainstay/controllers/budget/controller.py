"""How many pods may be taken away right now: the status of each PodDisruptionBudget.

    disruptionsAllowed = healthy pods − as many as must stay healthy        (never below 0)

An eviction takes one of these, in the same transaction that removes the pod (server/placement/eviction.py), and notes
the pod under `disruptedPods`. Two things keep what was taken from being given back by a controller that has not heard
of it:

- The status is written only over the very version that was counted for. If an eviction came in between, the write is
  refused, and all is counted again. (Blind retries of this write are kubernetes #82149.)
- A pod under `disruptedPods` is not healthy, even if the cache of pods still shows it as ready. It stays there until
  the pod is seen to leave, or for two minutes: then the eviction has not happened after all.

How many must stay is a number, or follows from how many the owners of the pods want: a percentage, and everything with
`maxUnavailable`. Owners are asked for through their kind: Deployment, ReplicaSet, StatefulSet, ReplicationController.
For a pod of any other owner that number is unknown; then nothing may be taken away, and the condition says why.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from mainstay.api.labels import LabelSelector, from_object
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import find_controller
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.client.indexes import NAMESPACE
from mainstay.client.partial import reader
from mainstay.controllers.deployment.rolling import scaled
from mainstay.controllers.endpoints.selectors import LABELLED
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import DONE, Decision, WakeAt
from mainstay.loop.view import View

DELETION_WITHIN: Final = timedelta(minutes=2)
"""An eviction whose pod is not on its way out after so long has not happened."""
ALLOWED: Final = "DisruptionAllowed"
_SCALED: Final = (DEPLOYMENTS, REPLICASETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)


class _Unknown(Exception):
    """It is unknown how many pods there should be."""


@dataclass(frozen=True, slots=True)
class BudgetTarget:
    expected: int
    """How many pods there should be."""
    healthy: int
    """How many of them must stay healthy."""


def still_disrupted(budget: Object, pods: Sequence[Object], now: datetime) -> tuple[dict[str, str], datetime | None]:
    """The pods that were evicted and are not yet seen to leave; and when the next of them is given up on."""
    noted: Mapping[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    there = {pod["metadata"]["name"]: pod for pod in pods}
    found: dict[str, str] = {}
    ends: list[datetime] = []
    for name, text in sorted(noted.items()):
        since = pod_state.parse_time_or_none(text)
        pod = there.get(name)
        if pod is None or since is None or pod_state.is_leaving(pod):
            continue
        if since + DELETION_WITHIN > now:
            found[name] = text
            ends.append(since + DELETION_WITHIN)
    return found, min(ends, default=None)


def _is_healthy(pod: Object) -> bool:
    return not pod_state.is_leaving(pod) and pod_state.is_ready(pod)


# How many are wanted.


def _wanted(view: View, budget: Object, pods: Sequence[Object]) -> BudgetTarget:
    """Raises `_Unknown`."""
    spec = budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is not None:
        expected = _expected(view, pods)
        return BudgetTarget(expected, max(0, expected - scaled(most, expected, rounds_up=True)))
    if isinstance(least, int):
        return BudgetTarget(len(pods), least)
    if least is not None:
        expected = _expected(view, pods)
        return BudgetTarget(expected, scaled(least, expected, rounds_up=True))
    return BudgetTarget(len(pods), 0)


def _expected(view: View, pods: Sequence[Object]) -> int:
    """How many pods their owners want, in all. A pod without an owner does not count."""
    found: dict[str, int] = {}
    for pod in pods:
        reference = find_controller(pod)
        if reference is None or reference["uid"] in found:
            continue
        uid, count = _scale(view, pod, reference)
        found[uid] = count
        if uid != reference["uid"]:
            found[reference["uid"]] = 0  # Its pods are those of its owner, which is counted.
    return sum(found.values())


def _scale(view: View, obj: Object, reference: Object) -> tuple[str, int]:
    """Who wants it, and how many. Raises `_Unknown`."""
    namespace = obj["metadata"]["namespace"]
    kind = _find_kind(reference)
    if kind is None:
        name = f"{reference.get('kind')} {reference.get('name')}"
        raise _Unknown(f"{name} has no scale: its number of desired pods is unknown")
    owner = view.get(kind, ObjectKey(namespace, reference["name"]))
    if owner is None or owner["metadata"]["uid"] != reference["uid"]:
        return str(reference["uid"]), 0  # It is gone, and wants nothing any more.
    above = find_controller(owner)
    if above is not None and kind == REPLICASETS and _find_kind(above) is not None:
        return _scale(view, owner, above)
    return str(reference["uid"]), int((owner.get("spec") or {}).get("replicas", 1))


def _find_kind(reference: Object) -> KindName | None:
    group, _, _ = str(reference.get("apiVersion", "")).rpartition("/")
    return next((kind for kind in _SCALED if (kind.group, kind.kind) == (group, reference.get("kind"))), None)


# Which pods.


def _selector(budget: Object) -> LabelSelector | None:
    """None: it covers nothing. An empty one covers all."""
    found = (budget.get("spec") or {}).get("selector")
    return None if found is None else from_object(found)


def _covered(view: View, budget: Object) -> list[Object]:
    selector = _selector(budget)
    if selector is None:
        return []
    namespace = budget["metadata"]["namespace"]
    exact = (budget["spec"]["selector"] or {}).get("matchLabels") or {}
    if exact:
        name, value = min(exact.items())
        found = view.by(PODS, LABELLED.name, f"{namespace}/{name}={value}")
    else:
        found = view.by(PODS, NAMESPACE.name, namespace)
    return [pod for pod in found if selector.matches(pod["metadata"].get("labels") or {})]


_read_counted = reader(
    [
        ("metadata", "labels"),
        ("metadata", "deletionTimestamp"),
        ("metadata", "ownerReferences"),
        ("status", "conditions"),
    ]
)


def _counted(entry: CachedObject | None) -> tuple[Mapping[str, str], list[Any]]:
    """The labels of a pod, and all else of it that budgets depend on."""
    if entry is None:
        return {}, []
    labels, leaves, owners, conditions = _read_counted(entry.raw)
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions or ())
    return labels or {}, [entry.uid, leaves, owners, is_ready]


def _covering() -> Callable[[Change, Cache], Iterable[ObjectKey]]:
    """Wakes the budgets that cover a pod, or have, when it changes in what they count."""

    def wakes(change: Change, budgets: Cache) -> Iterable[ObjectKey]:
        there = budgets.by(NAMESPACE.name, change.key.namespace)
        if not there:
            return ()
        before, after = _counted(change.old), _counted(change.new)
        if before == after:
            return ()
        found: dict[ObjectKey, None] = {}
        for key in there:
            budget = budgets.get(key)
            selector = _selector(budget) if budget is not None else None
            if selector is not None and any(selector.matches(labels) for labels, facts in (before, after) if facts):
                found[key] = None
        return list(found)

    return wakes


def _in_the_namespace() -> Callable[[Change, Cache], Iterable[ObjectKey]]:
    """Wakes the budgets where an owner wants another number of pods now."""

    def wakes(change: Change, budgets: Cache) -> Iterable[ObjectKey]:
        if _replicas(change.old) == _replicas(change.new):
            return ()
        return budgets.by(NAMESPACE.name, change.key.namespace)

    return wakes


_read_scale = reader([("spec", "replicas"), ("metadata", "ownerReferences")])


def _replicas(entry: CachedObject | None) -> tuple[Any, ...] | None:
    return None if entry is None else (entry.uid, *_read_scale(entry.raw))


# The controller.


class DisruptionBudgets(Controller):
    name = "disruption-budget"
    kind = DISRUPTION_BUDGETS
    indexes = (NAMESPACE,)
    reads = (
        Reads(PODS, wakes_among=_covering(), indexes=(LABELLED, NAMESPACE)),
        *(Reads(kind, wakes_among=_in_the_namespace()) for kind in _SCALED),
    )

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        budget = view.get(DISRUPTION_BUDGETS, key)
        if budget is None or pod_state.is_leaving(budget):
            return Decision()
        pods = _covered(view, budget)
        disrupted, look_again_at = still_disrupted(budget, pods, view.now)
        healthy = sum(1 for pod in pods if _is_healthy(pod) and pod["metadata"]["name"] not in disrupted)
        try:
            wanted = _wanted(view, budget, pods)
        except _Unknown as error:
            status = {"disruptionsAllowed": 0, "observedGeneration": budget["metadata"].get("generation", 0)}
            return Decision(status=status, conditions=(Condition(ALLOWED, Truth.FALSE, "SyncFailed", str(error)),))
        allowed = max(0, healthy - wanted.healthy) if wanted.expected > 0 else 0
        before = (budget.get("status") or {}).get("disruptedPods") or {}
        gone = dict.fromkeys(name for name in before if name not in disrupted)
        status = {
            "expectedPods": wanted.expected,
            "currentHealthy": healthy,
            "desiredHealthy": wanted.healthy,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        if before and gone:
            # None removes a name; and when none is left, the field.
            status["disruptedPods"] = {**disrupted, **gone} if disrupted else None
        truth, reason = (Truth.TRUE, "SufficientPods") if allowed else (Truth.FALSE, "InsufficientPods")
        result = DONE if look_again_at is None else WakeAt(look_again_at, "an eviction may not have happened")
        return Decision(result=result, status=status, conditions=(Condition(ALLOWED, truth, reason),))
