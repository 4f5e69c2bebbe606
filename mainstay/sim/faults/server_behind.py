"""A server does not hear of what happens in the store for a while, and then of all of it at once.

It writes and lists as ever, for that it asks the store itself; but its watches fall behind what it answers, and behind
those of the other servers. These may crash meanwhile, and all that watched them come over: their watches are ahead of
what they find.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from mainstay.sim.faults import choose_one, some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class ServerBehind:
    name = "server-behind"
    about = "a server gets changes from the store late; the others may crash meanwhile"

    def strike(self, world: "World") -> None:
        if not world.ports:
            return
        server = choose_one(world, "fault/server-behind/who", list(world.ports))
        duration = some_duration(world, self.name)
        catch_up = world.ports[server].hold_back()
        world.faults.note(f"{server} gets changes from the store {duration} late")
        world.faults.undo_after(duration, f"{server} is behind", catch_up)
        if choose_one(world, "fault/server-behind/others-crash", (False, True)):
            world.after(duration / 2, lambda: _others_crash(world, server, duration / 2))


def _others_crash(world: "World", server: str, duration: timedelta) -> None:
    port = world.ports.get(server)
    if port is None or port.is_current.is_set():
        return  # It has caught up already: all is healed.
    for name, other in world.servers.items():
        if name != server:
            world.faults.note(f"{name} crashes for {duration}")
            world.faults.crash(other, duration)
