"""The table of rooms (mainstay/registry.py) is complete: every room can be loaded, every workload kind has one."""

from mainstay.api.workloads import CONTROLLED
from mainstay.controllers.registry import CONTROLLERS
from mainstay.explain.registry import PlanRoom, WhyRoom
from mainstay.registry import REGISTRY


def test_every_room_can_be_loaded():
    for entry in REGISTRY.entries:
        assert isinstance(entry.why(), WhyRoom), entry.component
        assert entry.plan is None or isinstance(entry.plan(), PlanRoom), entry.component
        assert entry.debug is None or hasattr(entry.debug(), "rollbacks"), entry.component


def test_every_workload_kind_with_a_controller_is_explained_and_planned():
    explained = {entry.kind: entry for entry in REGISTRY.entries}

    for kind in CONTROLLED:
        assert explained[kind].why().analyser is not None, kind
        assert explained[kind].plan is not None, kind
        assert any(each.kind == kind for each in CONTROLLERS), kind
