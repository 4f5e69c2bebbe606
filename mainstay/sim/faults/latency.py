"""Everything between a program and the servers takes longer for a while, and not always equally long."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import one_of, some_duration
from mainstay.sim.links import LATENCY_NS_BETWEEN_HOSTS

if TYPE_CHECKING:
    from mainstay.sim.world import World

LATENCIES: Final = tuple(timedelta(milliseconds=ms) for ms in (5, 50, 300, 2000))
_USUAL: Final = timedelta(microseconds=LATENCY_NS_BETWEEN_HOSTS // 1000)


class Latency:
    name = "latency"
    about = "the network of one program is slow, and uneven"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()):
            return
        who = one_of(world, "fault/latency/who", targets).name
        latency = one_of(world, "fault/latency/how-long", LATENCIES)
        for server in world.servers:
            world.sim.network.set_latency(who, server, latency, jitter=latency)
        duration = some_duration(world, "latency")
        world.faults.note(f"messages between {who} and the servers take {latency} for {duration}")
        world.faults.undo_after(duration, f"latency of {who}", lambda: _undo(world, who))


def _undo(world: "World", who: str) -> None:
    for server in world.servers:
        world.sim.network.set_latency(who, server, _USUAL)
