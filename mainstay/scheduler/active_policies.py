"""The placement policies that are active, and which one a pod goes by.

A policy with a scope applies to the pods that it selects, the most specific scope first (api/policy_scope.py). Pods
that no scope selects go by the base: the policy without a scope that the scheduler was started with (`--policy`), while
it is active, or else the default.

    policies = build_policies(objects, base="batch-v3")
    chosen = policies.choose(pod)        chosen.policy decides, chosen.named goes into the record

A policy in shadow is not active. It is decided by as well where it would apply if it were active (shadow.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PLACEMENT_POLICIES
from mainstay.api.policy_scope import (
    PolicyScope,
    find_shadow_percent,
    is_active,
    is_in_share,
    parse_scope,
    selects,
    specificity,
)
from mainstay.journal.record import AppliedPolicy
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import DEFAULT, Policy, parse_policy


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """What a decision goes by, and how its record names it."""

    policy: Policy
    named: tuple[AppliedPolicy, ...] = ()
    specificity: tuple[int, ...] = ()
    """Of its scope, as if it had no limit. Empty, which is less than all others: it has no scope."""


@dataclass(frozen=True, slots=True)
class ShadowPolicy:
    scope: PolicyScope
    percent: int
    """Of the decisions."""
    chosen: ChosenPolicy


@dataclass(frozen=True, slots=True)
class ActivePolicies:
    base: ChosenPolicy
    scoped: tuple[tuple[PolicyScope, ChosenPolicy], ...] = ()
    """The most specific first."""
    shadowed: tuple[ShadowPolicy, ...] = ()
    """By name."""

    def choose(self, pod: PodToPlace) -> ChosenPolicy:
        """The one that applies to a pod."""
        if self.scoped:
            facts = pod.scoped
            for scope, chosen in self.scoped:
                if selects(scope, facts):
                    return chosen
        return self.base

    def find_shadows(self, pod: PodToPlace, chosen: ChosenPolicy, decision: str) -> list[ChosenPolicy]:
        """The policies in shadow that would apply to a pod, instead of the one that does, and that this decision is
        sampled for."""
        return [
            each.chosen
            for each in self.shadowed
            if is_in_share(each.chosen.policy.name, decision, each.percent)
            and each.chosen.specificity >= chosen.specificity
            and selects(each.scope, pod.scoped)
        ]

    @property
    def named(self) -> tuple[AppliedPolicy, ...]:
        """All that some pod may go by."""
        return (*self.base.named, *(name for _, chosen in self.scoped for name in chosen.named))

    @property
    def named_in_shadow(self) -> tuple[AppliedPolicy, ...]:
        return tuple(name for each in self.shadowed for name in each.chosen.named)


NO_POLICIES: Final = ActivePolicies(ChosenPolicy(DEFAULT))


def build_policies(objects: Iterable[Object], base: str = "", default: Policy = DEFAULT) -> ActivePolicies:
    """Those of the PlacementPolicies that are active or in shadow. `base` names the one without a scope to go by, if it
    is there; `default` is what else."""
    found = ChosenPolicy(default)
    scoped: list[tuple[PolicyScope, ChosenPolicy]] = []
    shadowed: list[ShadowPolicy] = []
    for each in objects:
        scope, percent = parse_scope(each), find_shadow_percent(each)
        if scope is not None and percent:
            shadowed.append(ShadowPolicy(scope, percent, _choose(each, scope)))
        if not is_active(each):
            continue
        if scope is not None:
            scoped.append((scope, _choose(each, scope)))
        elif each["metadata"]["name"] == base:
            found = _choose(each)
    # The server lets no two of them tie for a pod. A view may be old, though, and two runs must choose the same.
    scoped.sort(key=lambda each: each[1].policy.name)
    scoped.sort(key=lambda each: specificity(each[0]), reverse=True)
    shadowed.sort(key=lambda each: each.chosen.policy.name)
    return ActivePolicies(found, tuple(scoped), tuple(shadowed))


def _choose(placement_policy: Object, scope: PolicyScope | None = None) -> ChosenPolicy:
    metadata = placement_policy["metadata"]
    revision = int(metadata.get("resourceVersion") or 0)
    named = AppliedPolicy(PLACEMENT_POLICIES.text, metadata["name"], metadata.get("uid") or "", revision)
    rank = () if scope is None else specificity(replace(scope, limit=None))
    return ChosenPolicy(parse_policy(placement_policy), (named,), rank)
