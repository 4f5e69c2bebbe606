"""A program reads its watches slowly: it lags behind, and if too much waits for it, the server cuts it off."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.faults import one_of, some_duration
from mainstay.sim.gate import Tap

if TYPE_CHECKING:
    from mainstay.sim.world import World

PACES: Final = tuple(timedelta(milliseconds=ms) for ms in (100, 500, 2000))
ROOMS_BYTES: Final = (1024 * 1024, 16 * 1024, 4 * 1024)


class SlowConsumer:
    name = "slow-consumer"
    about = "a program reads its watches slowly, and may be cut off as too slow"

    def strike(self, world: "World") -> None:
        if not (targets := world.targets()):
            return
        who = one_of(world, "fault/slow-consumer/who", targets).name
        pace = one_of(world, "fault/slow-consumer/pace", PACES)
        room = one_of(world, "fault/slow-consumer/room", ROOMS_BYTES)
        duration = some_duration(world, self.name)
        world.faults.note(f"{who} reads one piece of each watch every {pace} for {duration}")
        slowed: list[Tap] = []

        def slow_down(tap: Tap) -> None:
            if tap.who == who:
                tap.slow_down(pace, room)
                slowed.append(tap)

        def speed_up() -> None:
            world.faults.stop_changing(slow_down)
            for tap in slowed:
                tap.speed_up()

        world.faults.change_taps(slow_down)
        world.faults.undo_after(duration, f"{who} reads slowly", speed_up)
