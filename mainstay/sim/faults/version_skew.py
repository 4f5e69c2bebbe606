"""A program is replaced by another version of itself for a while, and then is what it was again: an upgrade that is
rolled back. Only programs that were given versions (`World.add_program`). Each on its own, so several may run side by
side; what one version has begun, the other has to go on with.
"""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.program_lifecycle import ProgramStep
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.program_lifecycle import Program
    from mainstay.sim.cluster.world import World


class VersionSkew:
    name = "version-skew"
    about = "a program runs as another version for a while"

    def lacks(self, world: "World") -> str:
        has_versions = any(program.versions for program in world.targets())
        return "" if has_versions else "no program has other versions (`versions` of `World.add_program`)"

    def strike(self, world: "World") -> None:
        programs = [each for each in world.targets() if each.versions and each.is_running and not each.version]
        if not programs:
            return
        program = world.programs[victim(world, self.name, [each.name for each in programs])]
        version = choose_one(world, f"fault/version-skew/{program.name}/version", list(program.versions))
        duration = some_duration(world, self.name)
        world.faults.note(f"{program.name} is restarted as its version {version}, for {duration}")
        world.faults.spawn(_restart_as(program, version), f"{program.name} as {version}")
        world.faults.undo_after(
            duration,
            f"{program.name} runs as {version}",
            lambda: world.faults.spawn(_restart_as(program, ""), f"{program.name} as usual"),
        )


async def _restart_as(program: "Program", version: str) -> None:
    program.version = version
    if program.is_running:
        await program.stop()
    if program.ended is ProgramStep.STOPPED:
        program.start()
