"""A program hears late of one kind, and at once of all others: what happened first is told last.

All its watches of that kind are held back, also those that it begins meanwhile. Between kinds no order was ever
promised; a pod may be seen before its node, and a node gone before its pods.
"""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class Reorder:
    name = "reorder"
    about = "a program gets changes of one kind late, and those of all others at once"

    def strike(self, world: "World") -> None:
        watched = {
            program.name: sorted({tap.prefix for gate in world.gates.values() for tap in gate.find_taps(program.name)})
            for program in world.targets()
        }
        if not (targets := [name for name, prefixes in watched.items() if len(prefixes) > 1]):
            return
        who = victim(world, self.name, targets)
        prefix = choose_one(world, f"fault/reorder/{who}/kind", watched[who])
        duration = some_duration(world, self.name)
        world.faults.note(f"{who} gets changes of {prefix.rstrip('/')} {duration} late, and all others at once")
        held: list[WatchProxy] = []

        def hold(tap: WatchProxy) -> None:
            if (tap.who, tap.prefix) == (who, prefix):
                tap.hold()
                held.append(tap)

        def release() -> None:
            world.faults.stop_changing(hold)
            for tap in held:
                tap.release()

        world.faults.change_taps(hold)
        world.faults.undo_after(duration, f"late changes of {prefix.rstrip('/')} for {who}", release)
