"""Each allowed fault is on in about half of the runs, and then strikes now and then: a few faults that meet each other
find more than all of them at once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class RandomFaults:
    name = "random"
    about = "about half of the faults, at random times"

    def disturb(self, world: "World", allowed: tuple[str, ...]) -> None:
        world.faults.start(allowed)
