"""Planted bugs in what servers answer for each other (tests/server/decisions/test_peers.py)."""

from collections.abc import Sequence
from typing import Any

import pytest

from mainstay.journal import joint_journal
from mainstay.journal.scan import Damage


def answers_as_complete_without_the_peer(patch: pytest.MonkeyPatch) -> None:
    """Merges the answers, and says nothing of who gave none."""

    def together(answers: Sequence[Any], silent: Sequence[Damage]) -> tuple[Damage, ...]:
        return ()

    patch.setattr(joint_journal, "_together", together)
