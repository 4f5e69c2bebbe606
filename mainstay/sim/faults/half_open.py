"""The connections of a program are dead, and neither end knows, or only one does. New connections work.

So it is when something on the way has forgotten the connections that go through it: a firewall that was restarted, an
address translation that has expired. It is never undone. A client that waits on such a connection waits for a quarter
of an hour, until TCP gives up, or finds out by itself."""

from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

TOLD: Final = ("the program", "neither", "the server")


class HalfOpen:
    name = "half-open"
    about = "the connections of a program die, and one end or neither notices; new connections work"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()) or not world.servers:
            return
        who = victim(world, self.name, [each.name for each in targets])
        told = choose_one(world, "fault/half-open/told", TOLD)
        world.faults.note(f"all connections of {who} die, and {told} notices")
        for server in world.servers:
            telling = {"the program": who, "neither": None, "the server": server}[told]
            world.sim.network.lose_connections(who, server, telling=telling)
