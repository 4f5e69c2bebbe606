"""Bugs in which a decision acts on a view that is too old for it."""

from dataclasses import replace
from typing import Any

import pytest

from mainstay.client.call import WriteOptions
from mainstay.loop import act, controller_loop
from mainstay.loop.act import OwnWrite
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Delete, Patch
from mainstay.loop.freshness import Freshness


def does_not_read_before_it_acts(patch: pytest.MonkeyPatch) -> None:
    async def require_fresh(*_: Any) -> None:
        pass

    patch.setattr(ControllerLoop, "_require_fresh", require_fresh)


def sends_no_version(patch: pytest.MonkeyPatch) -> None:
    """What is declared `SeenVersion` is changed as it is by now."""
    honest = act.act

    async def without(action: Any, client: Any, write: WriteOptions) -> OwnWrite:
        if isinstance(action, Patch | Delete) and action.freshness is Freshness.SEEN_VERSION:
            action = replace(action, resource_version="", freshness=Freshness.MAY_BE_STALE)
            write = replace(write, must_be_conditional=False)
        return await honest(action, client, write)

    patch.setattr(controller_loop, "act", without)
