"""Bugs that repair could have."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.controllers.repair import decide
from mainstay.controllers.repair.loop import RepairLoop


def believes_its_cache(patch: pytest.MonkeyPatch) -> None:
    """At once, and without another look at the store."""

    async def is_gone(self: RepairLoop, kind: Any, key: Any, uid: str) -> bool:
        return True

    patch.setattr(decide, "GONE_FOR", timedelta())
    patch.setattr(RepairLoop, "_is_gone", is_gone)


def leaves_reservations_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_orphaned", lambda snapshot: [])


def trusts_the_ledgers(patch: pytest.MonkeyPatch) -> None:
    async def recount_next(self: RepairLoop) -> None:
        pass

    patch.setattr(RepairLoop, "_recount_next", recount_next)


def trusts_the_quotas(patch: pytest.MonkeyPatch) -> None:
    async def recount_next_quotas(self: RepairLoop) -> None:
        pass

    patch.setattr(RepairLoop, "_recount_next_quotas", recount_next_quotas)
