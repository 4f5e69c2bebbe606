"""Packets between a program and the servers are lost by chance for a while. TCP repeats them, so all comes late.

A segment that is lost is repeated after 200 ms, then after twice as long, and so on; what was sent after it waits. The
first packet of a new connection is repeated after a second.
"""

from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import one_of, some_duration

if TYPE_CHECKING:
    from mainstay.sim.world import World

PROBABILITIES: Final = (0.05, 0.2, 0.5)


class Loss:
    name = "loss"
    about = "packets between a program and the servers are lost by chance, and come late"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()):
            return
        who = one_of(world, "fault/loss/who", targets).name
        probability = one_of(world, "fault/loss/how-many", PROBABILITIES)
        duration = some_duration(world, self.name)
        _set(world, who, probability)
        world.faults.note(f"{probability:.0%} of the packets between {who} and the servers are lost for {duration}")
        world.faults.undo_after(duration, f"loss of {who}", lambda: _set(world, who, 0))


def _set(world: "World", who: str, probability: float) -> None:
    for server in world.servers:
        world.sim.network.set_loss(who, server, probability)
