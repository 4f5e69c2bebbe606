"""The autoscaler amplifies nothing: it raises no target that does not get what it has asked for already. (SPEC T1)

Judged by what was committed, whenever a decision of the autoscaler has raised the replicas of a Deployment or a
ReplicaSet. The version before must not say that replicas are missing because of placement, quota, policy or a control
plane that lags; and its controllers must have observed the generation that was wanted. The bound is exact, since the
record that is judged by is part of the version that the write had to find. The new number is at most the autoscaler's
maximum, and at most what the policies of `behavior.scaleUp` allow from the old one, or, without `behavior`, twice the
old one or 4. A policy counts from the start of its period: what the autoscaler has removed since then it may add again.
What it has added since then is not deducted here, because a new leader does not know of it.

A raise up to the minimum is a user's wish and no amplification. That the metrics justify the number can only be told
where the load is known: by the scenario (scenarios/autoscaler_and_lag.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.kind import Object
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

DECISIONS: Final = "horizontal-pod-autoscaler-"
"""How the ids of its decisions begin."""
_AUTOSCALERS: Final = "autoscaling/horizontalpodautoscalers/"
_TARGETS: Final = {"apps/deployments/": "Deployment", "apps/replicasets/": "ReplicaSet"}
_WAITING: Final = ("admitted", "queued", "scheduled", "bound", "starting")
"""Stages that are reached only when another component agrees, or acts."""
_STEPWISE: Final = "RollingOut"
_SECOND_NS: Final = 1_000_000_000
_LATE_NS: Final = 60 * _SECOND_NS
"""Between a decision of the autoscaler and the commit of its write, at most."""


@dataclass(frozen=True, slots=True)
class RemovedReplicas:
    """By a decision of the autoscaler."""

    at_ns: int
    replicas: int


class AutoscaledWithinProgress:
    name = "autoscaled"

    def __init__(self) -> None:
        self._asked: dict[int, str] = {}
        """By request: the path of each write of the autoscaler to a scale."""
        self._specs: dict[str, Object] = {}
        """By key of the autoscaler."""
        self._removals: dict[str, list[RemovedReplicas]] = {}
        """By key of the target."""
        self.raises = 0

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            if event.decision.startswith(DECISIONS) and event.path.partition("?")[0].endswith("/scale"):
                self._asked[event.request] = event.path
            return
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(_AUTOSCALERS):
            if event.value is None:
                self._specs.pop(event.key, None)
            else:
                self._specs[event.key] = decode_commit(event.value)["spec"]
        elif event.request not in self._asked or not event.key.startswith(tuple(_TARGETS)):
            return
        elif event.value is not None and event.previous is not None:
            self._judge(event, decode_commit(event.previous), decode_commit(event.value))

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _judge(self, event: RevisionCommitted, before: Object, after: Object) -> None:
        old, new = int(before["spec"].get("replicas", 1)), int(after["spec"].get("replicas", 1))
        if new <= old:
            self._removals.setdefault(event.key, []).append(RemovedReplicas(event.at_ns, old - new))
            return
        self.raises += 1
        specs = self._find_specs(event.key)
        if specs and new <= max(int(each.get("minReplicas") or 1) for each in specs):
            return
        if problem := self._find_limit(before):
            raise Violated(self.name, f"{event.key} was raised from {old} to {new} although {problem}", [event])
        if specs and new > max(int(each.get("maxReplicas") or 0) for each in specs):
            raise Violated(self.name, f"{event.key} was raised to {new}, which is more than the maximum", [event])
        bound = max([self._find_bound(each, old, event) for each in specs], default=new)
        if new > bound:
            text = f"{event.key} was raised from {old} to {new} at once: {bound} is the most that the rules allow"
            raise Violated(self.name, text, [event])

    def _find_bound(self, spec: Object, old: int, event: RevisionCommitted) -> int:
        """The highest number that an autoscaler with this spec may ask for in one step."""
        behavior = spec.get("behavior")
        if behavior is None:
            return max(2 * old, 4)
        rules = behavior.get("scaleUp") or {}
        policies = rules.get("policies") or ()
        if rules.get("selectPolicy") == "Disabled" or not policies:
            return old
        choose = min if rules.get("selectPolicy") == "Min" else max
        return max(old, choose([self._apply_policy(each, old, event) for each in policies]))

    def _apply_policy(self, policy: Mapping[str, Any], old: int, event: RevisionCommitted) -> int:
        since_ns = event.at_ns - int(policy["periodSeconds"]) * _SECOND_NS - _LATE_NS
        start = old + sum(each.replicas for each in self._removals.get(event.key, ()) if each.at_ns >= since_ns)
        value = int(policy["value"])
        return start + value if policy["type"] == "Pods" else ceil(Fraction(100 + value, 100) * start)

    def _find_specs(self, key: str) -> list[Object]:
        """Of the autoscalers of a target."""
        prefix = next((each for each in _TARGETS if key.startswith(each)), "")
        namespace, _, name = key.removeprefix(prefix).partition("/")
        return [
            spec
            for own, spec in self._specs.items()
            if own.removeprefix(_AUTOSCALERS).startswith(f"{namespace}/")
            and (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]) == (_TARGETS.get(prefix), name)
        ]

    def _find_limit(self, target: Object) -> str:
        """Why the target does not get what it wants; empty if it does, or only its pods take their time."""
        status: Any = target.get("status") or {}
        generation, progress = target["metadata"].get("generation", 0), status.get("progress") or {}
        observed = min(int(status.get("observedGeneration") or 0), int(progress.get("observedGeneration") or 0))
        if observed < generation:
            return f"generation {generation} is observed only up to {observed}"
        limit = progress.get("limitedBy") or {}
        is_missing = int(progress.get("ready") or 0) < int(progress.get("desired") or 0)
        if is_missing and limit.get("stage") in _WAITING and limit.get("reason") != _STEPWISE:
            return f"{limit.get('count')} replicas are not {limit['stage']}: {limit.get('reason')}"
        return ""
