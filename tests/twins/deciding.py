"""Bugs that columns, and what is kept beside them, could have."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mainstay.scheduler.cache.change_log import ChangeLog
from mainstay.scheduler.cache.charge import CachedCharge, WorkloadPods
from mainstay.scheduler.cache.class_vectors import ClassVectors
from mainstay.scheduler.cache.domains import Domains
from mainstay.scheduler.cache.match_counts import MatchCount
from mainstay.scheduler.decide import choose
from mainstay.scheduler.scores import balance

Twin = Callable[[pytest.MonkeyPatch], None]


def forgets_to_catch_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassVectors, "_room_changed", lambda self, rows: None)


def looks_at_the_first_change_only(patch: pytest.MonkeyPatch) -> None:
    honest = ChangeLog.since

    def since(self: ChangeLog, position: int) -> list[int] | None:
        rows = honest(self, position)
        return rows and rows[:1]

    patch.setattr(ChangeLog, "since", since)


def keeps_the_scale_of_preferences(patch: pytest.MonkeyPatch) -> None:
    honest = ClassVectors._scale

    def scale(self: ClassVectors, mask: Any) -> None:
        if not self._preferred_most and not self._disliked_most:
            honest(self, mask)

    patch.setattr(ClassVectors, "_scale", scale)


def does_not_move_domains_with_their_nodes(patch: pytest.MonkeyPatch) -> None:
    honest = ClassVectors._make_domains

    def make_domains(self: ClassVectors) -> None:
        if not self._domains or self._domains[0]._places is not self._ring.places:
            honest(self)

    patch.setattr(ClassVectors, "_make_domains", make_domains)


def counts_pods_that_are_about_to_end(patch: pytest.MonkeyPatch) -> None:
    def matches(self: MatchCount, charge: CachedCharge) -> bool:
        if isinstance(self.selector, WorkloadPods):
            return charge.workload == self.selector.uid
        return charge.namespace == self.namespace and self.selector.matches(charge.labels)

    patch.setattr(MatchCount, "matches", matches)


def takes_the_first_row_for_the_best(patch: pytest.MonkeyPatch) -> None:
    """Ties end in whatever came first."""
    patch.setattr("mainstay.scheduler.decide.choose", lambda totals, start: choose(totals, 0))


def never_lowers_a_domain(patch: pytest.MonkeyPatch) -> None:
    honest = Domains.row_changed

    def row_changed(self: Domains, row: int) -> None:
        pods = self.pods.copy()
        honest(self, row)
        self.pods = np.maximum(pods, self.pods)

    patch.setattr(Domains, "row_changed", row_changed)


def rounds_otherwise_for_one_node(patch: pytest.MonkeyPatch) -> None:
    honest = balance.of_row
    patch.setattr(balance, "of_row", lambda *given: honest(*given) + 1)


TWINS: dict[str, Twin] = {
    each.__name__: each
    for each in (
        forgets_to_catch_up,
        looks_at_the_first_change_only,
        keeps_the_scale_of_preferences,
        does_not_move_domains_with_their_nodes,
        counts_pods_that_are_about_to_end,
        takes_the_first_row_for_the_best,
        never_lowers_a_domain,
        rounds_otherwise_for_one_node,
    )
}
