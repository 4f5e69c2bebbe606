"""Deciding by a policy that does not apply yet, to see what it would do: the first stage of its rollout.

A PlacementPolicy with `shadow: {percent: 5}` is not active. For a sample of the decisions about pods that it would
apply to, the scheduler also decides by it, before the real decision and on the same columns, and compares the two. What
it would choose is neither assumed nor sent, and the columns are only read, so no other decision depends on it. Where
the two differ, the record of the real decision says what the shadow would have done; figures count all of them.

The cost is bounded by the sample, and by not asking why no node fits: a replay can say that. Decisions are sampled by a
hash of policy and decision, so that a replay finds the same ones.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from mainstay.env import Clock
from mainstay.env.invariants import BrokenInvariant
from mainstay.journal.record import ShadowDecision
from mainstay.scheduler.active_policies import ActivePolicies, ChosenPolicy
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.counts import SchedulerCounts
from mainstay.scheduler.decide import decide_without
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.reasons import Decision, Placed
from mainstay.scheduler.record import Deciding


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a policy in shadow would do with a pod."""

    policy: ChosenPolicy
    node: str
    """Empty: it finds none."""


class ShadowDecider:
    def __init__(self, clock: Clock, vectors: Vectors, counts: SchedulerCounts, seed: str) -> None:
        self._clock = clock
        self._vectors = vectors
        self._counts = counts
        self._seed = seed

    def decide(
        self, policies: ActivePolicies, pod: PodToPlace, chosen: ChosenPolicy, deciding: Deciding
    ) -> list[Candidate]:
        """By all policies in shadow that this decision is sampled for. To be called before the pod is assumed to be
        anywhere. `chosen` is the policy that applies."""
        found = policies.find_shadows(pod, chosen, deciding.name)
        candidates = [self._decide_by(policy, pod, deciding.left_out) for policy in found]
        return [each for each in candidates if each is not None]

    def compare(self, candidates: Sequence[Candidate], decision: Decision, deciding: Deciding) -> Deciding:
        """Count how they differ from what was decided, and note it for the record."""
        node = decision.node if isinstance(decision, Placed) else ""
        different = [each for each in candidates if each.node != node]
        for each in candidates:
            figures = self._counts.policies.find(each.policy.named)
            if figures is not None:
                figures.shadowed += 1
                figures.shadow_different += each.node != node
                figures.shadow_unplaced += bool(node) and not each.node
        if not different:
            return deciding
        return msgspec.structs.replace(deciding, shadows=tuple(_describe(each) for each in different))

    def _decide_by(self, policy: ChosenPolicy, pod: PodToPlace, left_out: Iterable[str]) -> Candidate | None:
        started_ns = self._clock.monotonic_ns()
        try:
            found = decide_without(self._vectors, pod, policy.policy, self._seed, left_out)
        except BrokenInvariant:
            raise
        except Exception as error:  # noqa: BLE001 - reported; a shadow must not stop the pod's real decision
            figures = self._counts.policies.find(policy.named)
            if figures is not None:
                figures.shadow_errors += 1
            text = f"failed to decide about pod {pod.namespace}/{pod.name} by {policy.policy.name}, in shadow"
            asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})
            return None
        self._counts.shadowing.add(self._clock.monotonic_ns() - started_ns)
        return Candidate(policy, "" if found is None else found.node)


def _describe(candidate: Candidate) -> ShadowDecision:
    (named,) = candidate.policy.named
    return ShadowDecision(named.name, named.uid, named.revision, candidate.node)
