"""A program, or a server, crashes and is started again after a while.

Either its process dies, and its peers see a reset; or its machine loses power, and they see nothing.
"""

from typing import TYPE_CHECKING

from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class Crash:
    name = "crash"
    about = "a program crashes and restarts after a while"

    def strike(self, world: "World") -> None:
        if targets := world.targets():
            program = world.programs[victim(world, self.name, [each.name for each in targets])]
            is_silent = choose_one(world, "fault/crash/silently", (False, True))
            duration = some_duration(world, self.name)
            world.faults.note(f"{program.name} crashes for {duration}{', silently' if is_silent else ''}")
            world.faults.crash(program, duration, silently=is_silent)


class ServerCrash:
    name = "server-crash"
    about = "an API server crashes and restarts after a while, without its watch history"

    def strike(self, world: "World") -> None:
        if servers := list(world.servers.values()):
            program = choose_one(world, "fault/server-crash/who", servers)
            is_silent = choose_one(world, "fault/server-crash/silently", (False, True))
            duration = some_duration(world, self.name)
            world.faults.note(f"{program.name} crashes for {duration}{', silently' if is_silent else ''}")
            world.faults.crash(program, duration, silently=is_silent)
