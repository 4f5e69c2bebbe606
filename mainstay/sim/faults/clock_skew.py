"""The wall clock of a program, or of a server, is wrong for a while, by seconds to a day, and then jumps back.

Time that is measured goes on as ever: only the wall clock is wrong. No program may depend on two
machines showing the same time, or on one machine never going back.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

DISTANCES: Final = tuple(timedelta(seconds=seconds) for seconds in (2, -2, 30, -30, 600, -600, 3600, -3600, 86400))


class ClockSkew:
    name = "clock-skew"
    about = "the wall clock of a program or server jumps forward or back, and later returns"

    def strike(self, world: "World") -> None:
        names = [*(program.name for program in world.targets()), *world.servers]
        if not names:
            return
        who = victim(world, self.name, names)
        distance = choose_one(world, "fault/clock-skew/how-far", DISTANCES)
        duration = some_duration(world, self.name)
        clock = world.sim.get_clock(who)
        clock.jump(distance)
        direction = "forward" if distance > timedelta() else "back"
        world.faults.note(f"the clock of {who} jumps {direction} by {abs(distance)} for {duration}")
        world.faults.undo_after(duration, f"the clock of {who} is wrong", lambda: clock.jump(-distance))
