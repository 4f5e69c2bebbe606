"""Bugs by which an admission policy would hold later than a server says, or longer, or be named wrongly."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.journal.record import AppliedPolicy
from mainstay.server.decisions.write_notes import WriteRequest
from mainstay.server.policies import mutating_policies, policy_set
from mainstay.server.policies.admission_policies import AdmissionPolicies
from mainstay.server.policies.match_rules import PolicyWrite
from mainstay.server.policies.mutating_policies import MutatingPolicies, MutationRun
from mainstay.server.policies.policy_set import BoundPolicy, PolicySet
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry


def keeps_the_first_version_of_a_policy(patch: pytest.MonkeyPatch) -> None:
    """It takes note of updates, and evaluates what it read first."""
    honest = PolicySet.learn

    def learn(self: PolicySet, entry: Entry) -> None:
        name = entry.key.rpartition("/")[2]
        first = self._policies.get(name)
        honest(self, entry)
        if first is not None and entry.key.startswith(self.policies_prefix):
            self._policies[name] = replace(self._policies[name], spec=first.spec, match=first.match)

    patch.setattr(PolicySet, "learn", learn)


def never_binds_a_policy_again(patch: pytest.MonkeyPatch) -> None:
    """A binding that was deleted and made again is not taken in."""
    forgotten: set[tuple[int, str]] = set()
    learn, forget = PolicySet.learn, PolicySet.forget

    def learn_new(self: PolicySet, entry: Entry) -> None:
        if (id(self), entry.key) not in forgotten:
            learn(self, entry)

    def forget_for_good(self: PolicySet, key: str) -> None:
        if key.startswith(self.bindings_prefix):
            forgotten.add((id(self), key))
        forget(self, key)

    patch.setattr(PolicySet, "learn", learn_new)
    patch.setattr(PolicySet, "forget", forget_for_good)


def says_that_it_has_seen_what_is_committed(patch: pytest.MonkeyPatch) -> None:
    """Whatever is committed, it says that it has seen it."""
    patch.setattr(PrefixFollower, "reached", 10**9)


def remembers_which_policies_there_were(patch: pytest.MonkeyPatch) -> None:
    """What was found for a resource is not searched again after a change."""
    honest = PolicySet._changed

    def changed(self: PolicySet) -> None:
        kept = dict(self._found)
        honest(self)
        self._found.update({key: found for key, found in kept.items() if found})

    patch.setattr(PolicySet, "_changed", changed)


def names_the_first_version_that_changed_a_write(patch: pytest.MonkeyPatch) -> None:
    """It changes what is written by the newest version, and names the one that it knew first."""
    first: dict[str, AppliedPolicy] = {}

    def list_applied(bound: Iterable[BoundPolicy]) -> Iterator[AppliedPolicy]:
        for each in policy_set.list_applied(bound):
            yield first.setdefault(each.name, each)

    patch.setattr(mutating_policies, "list_applied", list_applied)


def validates_what_was_sent(patch: pytest.MonkeyPatch) -> None:
    """Policies that validate see the object as it was before others have changed it."""
    mutate, review = MutatingPolicies.mutate, AdmissionPolicies.review
    sent: dict[int, PolicyWrite] = {}

    async def remember(self: MutatingPolicies, write: PolicyWrite, asked: WriteRequest, **rest: Any) -> Object:
        sent[id(asked)] = write
        return await mutate(self, write, asked, **rest)

    async def review_too_early(
        self: AdmissionPolicies, write: PolicyWrite, asked: WriteRequest, *rest: Any, **more: Any
    ) -> None:
        await review(self, sent.pop(id(asked), write), asked, *rest, **more)

    patch.setattr(MutatingPolicies, "mutate", remember)
    patch.setattr(AdmissionPolicies, "review", review_too_early)


def runs_a_policy_again_for_its_own_change(patch: pytest.MonkeyPatch) -> None:
    """A policy that has changed an object is invoked again, as if another had."""
    honest = MutationRun.go_through

    async def go_through(self: MutationRun, bound: Sequence[BoundPolicy]) -> None:
        await honest(self, bound)
        self.reinvoked |= {(policy.name, binding.name) for policy, binding in self.changed_by}

    patch.setattr(MutationRun, "go_through", go_through)
