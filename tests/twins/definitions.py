"""Bugs that following definitions could have."""

import itertools
from collections.abc import Callable

import pytest

from mainstay.server.crd import definitions
from mainstay.server.crd.definitions import DefinitionPlan, Definitions, DefinitionView

Twin = Callable[[pytest.MonkeyPatch], None]


def writes_whenever_it_looks(patch: pytest.MonkeyPatch) -> None:
    honest = definitions.decide
    looks = itertools.count()

    def decide(view: DefinitionView) -> DefinitionPlan:
        plan = honest(view)
        if plan.wanted is not None:
            plan.wanted["status"] = {**plan.wanted["status"], "looks": next(looks)}
        return plan

    patch.setattr(definitions, "decide", decide)


def gives_names_without_asking_who_else_does(patch: pytest.MonkeyPatch) -> None:
    honest = definitions._names_key
    patch.setattr(definitions, "_names_key", lambda key: f"{honest(key)}/{key}")


def lets_go_before_the_objects_are_gone(patch: pytest.MonkeyPatch) -> None:
    async def clear(self: Definitions, prefix: str, *, without: str = "") -> bool:
        return False

    patch.setattr(Definitions, "_clear", clear)
    honest = definitions.decide
    patch.setattr(
        definitions, "decide", lambda view: honest(DefinitionView(view.crd, view.others, view.builtin, False, view.now))
    )
