"""Packets between a program and the servers are lost by chance for a while. TCP repeats them, so all comes late.

A segment that is lost is repeated after 200 ms, then after twice as long, and so on; what was sent after it waits. The
first packet of a new connection is repeated after a second.
"""

from typing import TYPE_CHECKING, Final

from mainstay.sim.active_faults import release_all
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

PROBABILITIES: Final = (0.05, 0.2, 0.5)


class Loss:
    name = "loss"
    about = "packets between a program and the servers are lost at random, and arrive late"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()):
            return
        who = victim(world, self.name, [each.name for each in targets])
        probability = choose_one(world, "fault/loss/how-many", PROBABILITIES)
        duration = some_duration(world, self.name)
        lose = world.sim.network.lose_packets
        lose_none = release_all([lose(who, server, probability) for server in world.servers])
        world.faults.note(f"{probability:.0%} of the packets between {who} and the servers are lost for {duration}")
        world.faults.undo_after(duration, f"loss of {who}", lose_none)
