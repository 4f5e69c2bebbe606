"""A program crashes and is started again on a past: all servers show it the state as of before some of the last changes
that it had been told of, and catch up after a while. It goes back in time, and then forward again. Only for plans.

What is asked of the store itself, one by one or as a list that must be current, is as ever; so this is not seen by
any program that asks for that.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.active_faults import Release
from mainstay.sim.cluster.history import WatchDelivered
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.faults import choose_one
from mainstay.store.errors import Compacted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

BACK: Final = (1, 2, 3, 5, 8, 13)
"""How many of the last changes that it was told of it does not see at first."""
DEAD: Final = timedelta(milliseconds=200)
BEHIND: Final = timedelta(seconds=10)


class OldState:
    name = "old-state"
    about = "a program crashes before a change is delivered to it, and restarts on an older state"

    def touch(self, world: "World", tap: WatchProxy) -> None:
        back = choose_one(world, f"fault/{self.name}/back", BACK)
        revision = _before(world, tap.who, back)
        world.faults.note(f"{tap.who} crashes, and restarts on the state of revision {revision}")
        store = world.store
        try:
            hold = store.hold(max(revision, 1))
        except Compacted as error:
            hold = store.hold(error.compacted)
        held: list[Release] = [port.hold_back(states_at=hold.revision) for port in world.ports.values()]

        def stay(each: WatchProxy) -> None:
            # What the servers had heard of by now they would tell right after the state.
            if each.who == tap.who:
                held.append(each.stay_at(hold.revision))

        def catch_up() -> None:
            hold.release()
            world.faults.stop_changing(stay)
            for let_go in held:
                let_go()

        world.faults.change_taps(stay)
        world.faults.undo_after(BEHIND, f"the past of {tap.who}", catch_up)
        world.faults.crash(world.programs[tap.who], DEAD)


def _before(world: "World", who: str, back: int) -> int:
    """The revision just before the last so many changes that a program was told of."""
    found: dict[int, None] = {}
    for event in reversed(world.history.events):
        if isinstance(event, WatchDelivered) and event.who == who and event.key:
            found[event.revision] = None
            if len(found) == back:
                break
    return min(found, default=1) - 1
