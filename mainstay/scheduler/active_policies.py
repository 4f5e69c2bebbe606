"""The placement policies that are active, and which one a pod goes by.

A policy with a scope applies to the pods that it selects, the most specific scope first (api/policy_scope.py). Pods
that no scope selects go by the base: the policy without a scope that the scheduler was started with (`--policy`), while
it is active, or else the default.

    policies = build_policies(objects, base="batch-v3")
    chosen = policies.choose(pod)        chosen.policy decides, chosen.named goes into the record
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PLACEMENT_POLICIES
from mainstay.api.policy_scope import PolicyScope, is_active, parse_scope, selects, specificity
from mainstay.journal.record import AppliedPolicy
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import DEFAULT, Policy, parse_policy


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """What a decision goes by, and how its record names it."""

    policy: Policy
    named: tuple[AppliedPolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class ActivePolicies:
    base: ChosenPolicy
    scoped: tuple[tuple[PolicyScope, ChosenPolicy], ...] = ()
    """The most specific first."""

    def choose(self, pod: PodToPlace) -> ChosenPolicy:
        """The one that applies to a pod."""
        if self.scoped:
            facts = pod.scoped
            for scope, chosen in self.scoped:
                if selects(scope, facts):
                    return chosen
        return self.base

    @property
    def named(self) -> tuple[AppliedPolicy, ...]:
        """All that some pod may go by."""
        return (*self.base.named, *(name for _, chosen in self.scoped for name in chosen.named))


NO_POLICIES: Final = ActivePolicies(ChosenPolicy(DEFAULT))


def build_policies(objects: Iterable[Object], base: str = "", default: Policy = DEFAULT) -> ActivePolicies:
    """Those of the PlacementPolicies that are active. `base` names the one without a scope to go by, if it is there;
    `default` is what else."""
    found = ChosenPolicy(default)
    scoped: list[tuple[PolicyScope, ChosenPolicy]] = []
    for each in objects:
        if not is_active(each):
            continue
        scope = parse_scope(each)
        if scope is not None:
            scoped.append((scope, _choose(each)))
        elif each["metadata"]["name"] == base:
            found = _choose(each)
    # The server lets no two of them tie for a pod. A view may be old, though, and two runs must choose the same.
    scoped.sort(key=lambda each: each[1].policy.name)
    scoped.sort(key=lambda each: specificity(each[0]), reverse=True)
    return ActivePolicies(found, tuple(scoped))


def _choose(placement_policy: Object) -> ChosenPolicy:
    metadata = placement_policy["metadata"]
    revision = int(metadata.get("resourceVersion") or 0)
    named = AppliedPolicy(PLACEMENT_POLICIES.text, metadata["name"], metadata.get("uid") or "", revision)
    return ChosenPolicy(parse_policy(placement_policy), (named,))
