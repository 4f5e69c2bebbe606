"""Restores that let clients go on with a past that never was."""

import pytest

from mainstay.env import Clock
from mainstay.sim.cluster import world
from mainstay.store.epoch_jump import jump_after


def continues_where_the_backup_ends(patch: pytest.MonkeyPatch) -> None:
    """As a copy of the files does."""

    def find_next_revision(highest: int, clock: Clock) -> int:
        return highest

    patch.setattr(world, "find_next_revision", find_next_revision)


def jumps_to_the_same_revision_each_time(patch: pytest.MonkeyPatch) -> None:
    """A billion ahead of the backup, whenever it is restored."""

    def find_next_revision(highest: int, clock: Clock) -> int:
        return jump_after(highest)

    patch.setattr(world, "find_next_revision", find_next_revision)
