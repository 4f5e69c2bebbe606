"""Bugs by which an admission policy would hold later than a server says, or longer."""

from dataclasses import replace

import pytest

from mainstay.server.policies.policy_set import BINDINGS, POLICIES, PolicySet
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry


def keeps_the_first_version_of_a_policy(patch: pytest.MonkeyPatch) -> None:
    """It takes note of updates, and evaluates what it read first."""
    honest = PolicySet.learn

    def learn(self: PolicySet, entry: Entry) -> None:
        name = entry.key.rpartition("/")[2]
        first = self._policies.get(name)
        honest(self, entry)
        if first is not None and entry.key.startswith(POLICIES):
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
        if key.startswith(BINDINGS):
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
