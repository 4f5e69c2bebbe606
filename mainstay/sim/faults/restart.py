"""A program is stopped in order and started again at once, as in an upgrade. It may finish what it is doing."""

from typing import TYPE_CHECKING

from mainstay.sim.faults import victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.program_lifecycle import Program
    from mainstay.sim.cluster.world import World


class Restart:
    name = "restart"
    about = "a program is stopped gracefully and started again"

    def strike(self, world: "World") -> None:
        if targets := [each for each in world.targets() if each.is_running]:
            program = world.programs[victim(world, self.name, [each.name for each in targets])]
            world.faults.note(f"{program.name} is restarted")
            world.faults.spawn(_restart(program), f"restart {program.name}")


async def _restart(program: "Program") -> None:
    await program.stop()
    if not program.is_running:
        program.start()
