"""The machine of a node dies without a word, with all that runs on it, and comes back after a while under its name.

It comes back with what its agent had on disk, or as a new machine that has nothing. Containers are gone either way.
"""

from typing import TYPE_CHECKING

from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class NodeDeath:
    name = "node-death"
    about = "a node's machine dies with everything on it, and comes back after a while"

    def lacks(self, world: "World") -> str:
        return "" if world.machines else "it has no nodes"

    def strike(self, world: "World") -> None:
        nodes = [program for program in world.targets() if program.name in world.machines and program.is_running]
        if not nodes:
            return
        node = world.programs[victim(world, self.name, [each.name for each in nodes])]
        is_new = choose_one(world, "fault/node-death/comes-back-empty", (False, True))
        duration = some_duration(world, self.name)
        world.faults.note(f"the machine {node.name} dies, and comes back {'empty ' if is_new else ''}after {duration}")
        world.faults.crash(node, duration, silently=True)
        world.machines[node.name].reboot()
        if is_new:
            world.sim.get_disk(node.name).wipe()
            world.machines[node.name].images.wipe()
