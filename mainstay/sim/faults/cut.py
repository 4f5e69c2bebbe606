"""Nothing gets through between a program and one server, or all of them, for a while; or nothing in one direction.

When only what a program sends is lost, its requests never arrive. When only what it is sent is lost, its writes happen
without notice; its watches fall silent in both cases.
"""

from typing import TYPE_CHECKING

from mainstay.sim.active_faults import release_all
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class Cut:
    name = "cut"
    about = "a program is partitioned from one server, or from all of them"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()) or not world.servers:
            return
        who = victim(world, self.name, [each.name for each in targets])
        servers = choose_one(world, "fault/cut/from", _groups(world))
        heal = release_all([world.sim.network.cut(who, server) for server in servers])
        duration = some_duration(world, self.name)
        world.faults.note(f"{who} is partitioned from {', '.join(servers)} for {duration}")
        world.faults.undo_after(duration, f"cut of {who}", heal)


class OneWayCut:
    name = "one-way-cut"
    about = "messages between a program and one or all servers are lost in one direction"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()) or not world.servers:
            return
        who = victim(world, self.name, [each.name for each in targets])
        servers = choose_one(world, "fault/one-way-cut/from", _groups(world))
        is_inward = choose_one(world, "fault/one-way-cut/direction", (False, True))
        ways = [(server, who) if is_inward else (who, server) for server in servers]
        heal = release_all([world.sim.network.cut(source, target, one_way=True) for source, target in ways])
        duration = some_duration(world, self.name)
        lost = "is sent" if is_inward else "sends"
        world.faults.note(f"everything that {who} {lost} is lost ({', '.join(servers)}) for {duration}")
        world.faults.undo_after(duration, f"one-way cut of {who}", heal)


def _groups(world: "World") -> list[tuple[str, ...]]:
    """Each server, and all of them."""
    each: list[tuple[str, ...]] = [(server,) for server in world.servers]
    return each if len(each) == 1 else [*each, tuple(world.servers)]
