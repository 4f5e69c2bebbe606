"""Servers and schedulers that get placement policies wrong, on purpose: tests must find each."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from mainstay.api.kind import Object
from mainstay.api.owners import find_controller
from mainstay.api.policy_scope import is_active
from mainstay.journal.record import DecisionRecord
from mainstay.scheduler.active_policies import ActivePolicies, ChosenPolicy
from mainstay.scheduler.cache.feed import CacheFeed
from mainstay.scheduler.comparison.fold import _CycleFold
from mainstay.scheduler.comparison.history import ViewCursor
from mainstay.scheduler.component import Scheduler
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.record import Deciding
from mainstay.scheduler.shadow import Candidate, ShadowDecider
from mainstay.server.placement.policy_commit import PolicyPoint
from mainstay.server.storage.commit_points import Intended, TransactionParts

Twin = Callable[[pytest.MonkeyPatch], None]


def activates_by_what_was_read(patch: pytest.MonkeyPatch) -> None:
    """Ties are looked for, and the commit does not check that no other policy became active meanwhile."""
    honest = PolicyPoint.parts_for

    async def parts_for(self: PolicyPoint, intended: Intended) -> TransactionParts:
        await honest(self, intended)
        return TransactionParts()

    patch.setattr(PolicyPoint, "parts_for", parts_for)


def looks_for_ties_only_when_a_policy_becomes_active(patch: pytest.MonkeyPatch) -> None:
    """Not when the limit of one that is active goes."""
    honest = PolicyPoint.applies_to

    def applies_to(self: PolicyPoint, intended: Intended) -> bool:
        return honest(self, intended) and not (intended.old is not None and is_active(intended.old))

    patch.setattr(PolicyPoint, "applies_to", applies_to)


def knows_no_ties(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mainstay.server.placement.policy_commit.overlap", lambda one, other: False)


SERVER_TWINS: Sequence[Twin] = [
    activates_by_what_was_read,
    knows_no_ties,
    looks_for_ties_only_when_a_policy_becomes_active,
]


# In the scheduler.


def divides_workloads_by_pod(patch: pytest.MonkeyPatch) -> None:
    """Pods of one workload go by two policies."""
    patch.setattr("mainstay.scheduler.pod_class.find_workload", lambda pod: pod["metadata"]["name"])


def takes_each_revision_for_a_workload(patch: pytest.MonkeyPatch) -> None:
    def find_workload(pod: Object) -> str:
        owner = find_controller(pod)
        return "" if owner is None else f"{pod['metadata']['namespace']}/{owner['kind']}/{owner['name']}"

    patch.setattr("mainstay.scheduler.pod_class.find_workload", find_workload)


def assumes_what_a_shadow_would_choose(patch: pytest.MonkeyPatch) -> None:
    """The pod counts on that node when it is really decided about."""
    honest = ShadowDecider.decide

    def decide(
        self: ShadowDecider, policies: ActivePolicies, pod: PodToPlace, chosen: ChosenPolicy, deciding: Deciding
    ) -> list[Candidate]:
        found = honest(self, policies, pod, chosen, deciding)
        for each in found:
            if each.node:
                self._vectors.columns.assume(pod, each.node)
        return found

    patch.setattr(ShadowDecider, "decide", decide)


def goes_by_policies_in_shadow(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "mainstay.scheduler.active_policies.is_active", lambda policy: is_active(policy) or "shadow" in policy["spec"]
    )


def does_not_look_at_limits(patch: pytest.MonkeyPatch) -> None:
    """Whoever is in the scope of a canary goes by it."""
    patch.setattr("mainstay.api.policy_scope.has_workload", lambda share, workload: True)


def keeps_the_first_policies_that_it_saw(patch: pytest.MonkeyPatch) -> None:
    honest = Scheduler.current_policies

    def current_policies(self: Scheduler) -> ActivePolicies:
        return honest(self) if self._policies_seen is None else self._policies_seen[1]

    patch.setattr(Scheduler, "current_policies", current_policies)


def goes_by_one_policy_for_all_pods_of_a_step(patch: pytest.MonkeyPatch) -> None:
    """That of whichever scope comes first."""

    def choose(self: ActivePolicies, pod: PodToPlace) -> ChosenPolicy:
        return self.scoped[0][1] if self.scoped else self.base

    patch.setattr(ActivePolicies, "choose", choose)


def forgets_the_bound_on_skews(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mainstay.scheduler.decide.class_under", lambda pod, policy: pod.pod_class)


def does_not_wake_pods_when_policies_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CacheFeed, "policy_changed", lambda self, change: None)


# In the replay of recorded policies.


def replays_without_assumed_pods(patch: pytest.MonkeyPatch) -> None:
    """They are remembered, so that their number comes out, and take no room."""
    honest = _CycleFold._take

    async def take(
        self: _CycleFold, number: int, record: DecisionRecord, before: int, pod: PodToPlace | None = None
    ) -> None:
        await honest(self, number, record, before, pod)
        self._columns.forget(record.subject.uid)

    patch.setattr(_CycleFold, "_take", take)


def replays_changes_one_revision_early(patch: pytest.MonkeyPatch) -> None:
    honest = ViewCursor.advance

    def advance(self: ViewCursor, view: Mapping[str, int]) -> None:
        honest(self, {kind: revision + 1 for kind, revision in view.items()})

    patch.setattr(ViewCursor, "advance", advance)


REPLAY_TWINS: Sequence[Twin] = [replays_without_assumed_pods, replays_changes_one_revision_early]
