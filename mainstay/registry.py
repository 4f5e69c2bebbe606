"""The table of this build: what the frames of `explain` are given by the commands, the simulator and the tests.

DECIDERS    how each component decides, for replay
"""

from typing import Final

from mainstay.controllers.registry import DECIDERS as CONTROLLER_DECIDERS
from mainstay.explain.placement import PLACEMENTS, is_placement, rebuild_placement
from mainstay.explain.replay import AnyName, Deciders

DECIDERS: Final = Deciders(CONTROLLER_DECIDERS, [AnyName(is_placement, PLACEMENTS, rebuild_placement)])
