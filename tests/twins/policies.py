"""Servers and schedulers that get placement policies wrong, on purpose: tests must find each."""

from collections.abc import Callable, Sequence

import pytest

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


def knows_no_ties(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mainstay.server.placement.policy_commit.overlap", lambda one, other: False)


SERVER_TWINS: Sequence[Twin] = [activates_by_what_was_read, knows_no_ties]
