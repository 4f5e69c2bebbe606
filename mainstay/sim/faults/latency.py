"""Everything between a program and the servers takes longer for a while, and not always equally long."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.active_faults import release_all
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

LATENCIES: Final = tuple(timedelta(milliseconds=ms) for ms in (5, 50, 300, 2000))


class Latency:
    name = "latency"
    about = "the network of one program is slow, with jitter"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()):
            return
        who = victim(world, self.name, [each.name for each in targets])
        latency = choose_one(world, "fault/latency/how-long", LATENCIES)
        network = world.sim.network
        hurry = release_all([network.slow_down(who, server, latency, jitter=latency) for server in world.servers])
        duration = some_duration(world, "latency")
        world.faults.note(f"messages between {who} and the servers take {latency} for {duration}")
        world.faults.undo_after(duration, f"latency of {who}", hurry)
