"""A program, or a server, stands still for a while and goes on without knowing: a stopped process, a moved machine."""

from typing import TYPE_CHECKING

from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class Pause:
    name = "pause"
    about = "a program is paused for a while"

    def strike(self, world: "World") -> None:
        if targets := world.targets():
            program = world.programs[victim(world, self.name, [each.name for each in targets])]
            duration = some_duration(world, self.name)
            world.faults.note(f"{program.name} is paused for {duration}")
            program.pause(duration)


class ServerPause:
    name = "server-pause"
    about = "an API server is paused for a while"

    def strike(self, world: "World") -> None:
        if servers := list(world.servers.values()):
            program = choose_one(world, "fault/server-pause/who", servers)
            duration = some_duration(world, self.name)
            world.faults.note(f"{program.name} is paused for {duration}")
            program.pause(duration)
