"""The core of a cluster over a store on a disk, whose machine loses power, and whose disk is full or fails.

As core-world, and with that all which can go wrong there: servers come back one after the other and find what they had
acknowledged, and a client that a dead server has told of something finds it there.
"""

from dataclasses import replace
from typing import Final

from mainstay.scenarios import core_world
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario


class DiskWorld(core_world.CoreWorld):
    def __init__(self, world: World) -> None:
        world.store_on_disk()
        super().__init__(world)


SCENARIO: Final[Scenario] = replace(
    core_world.SCENARIO,
    name="disk-world",
    about="As core-world, over a store whose disk loses power, is full, or fails.",
    make=DiskWorld,
    ids=("T1", "T2"),
)
