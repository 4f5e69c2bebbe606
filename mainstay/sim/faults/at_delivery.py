"""A program crashes, or stands still, just before a watch tells it of a change.

Only for plans: by chance, a program that crashes or is paused now and then is so at such moments often enough.
"""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults import some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class CrashAtDelivery:
    name = "crash-at-delivery"
    about = "a program crashes just before a watch delivers a change to it"

    def touch(self, world: "World", tap: WatchProxy) -> None:
        duration = some_duration(world, self.name)
        world.faults.note(f"{tap.who} crashes for {duration} before watch #{tap.watch} delivers a change to it")
        world.faults.crash(world.programs[tap.who], duration)


class PauseAtDelivery:
    name = "pause-at-delivery"
    about = "a program is paused just before a watch delivers a change to it"

    def touch(self, world: "World", tap: WatchProxy) -> None:
        duration = some_duration(world, self.name)
        world.faults.note(f"{tap.who} is paused for {duration} before watch #{tap.watch} delivers a change to it")
        world.programs[tap.who].pause(duration)
