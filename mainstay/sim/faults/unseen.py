"""A program never sees a state that lasted only for a while: the watch that would tell of it falls silent, and when the
object has changed again, the watch ends and the server does not know any more what was before.

So a client that lists again finds the later state, and nothing of the one between. Only for plans.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.cluster.watch_lines import decode_line

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


AT_MOST: Final = timedelta(seconds=30)
SOON: Final = timedelta(milliseconds=50)  # By then the server has read of it, too.


class UnseenState:
    name = "unseen"
    about = "a program misses a change until the object has changed again, and then sees only the later one"

    def touch(self, world: "World", tap: WatchProxy) -> None:
        metadata = decode_line(tap.coming.splitlines()[0]).object.metadata
        key = metadata.key_under(tap.prefix)
        world.faults.note(f"watch #{tap.watch} of {tap.who} is silent until {key} changes again")
        tap.hold()
        keeping = _Keeping(world, tap, key, int(metadata.resource_version))
        world.history.subscribe(keeping.saw)
        world.faults.undo_after(AT_MOST, f"silence of watch #{tap.watch}", keeping.end)


class _Keeping:
    """Ends a silent watch when its object has changed again."""

    def __init__(self, world: "World", tap: WatchProxy, key: str, revision: int) -> None:
        self._world = world
        self._tap = tap
        self._key = key
        self._revision = revision
        self._is_over = False

    def saw(self, event: Event) -> None:
        if self._is_over or not isinstance(event, RevisionCommitted):
            return
        if event.key == self._key and event.revision > self._revision:
            self._is_over = True
            self._world.faults.later(SOON, self._forget)

    def end(self) -> None:
        """It has not changed, or all is healed: what was kept back is told after all, if the watch is still there."""
        self._is_over = True
        self._tap.release()

    def _forget(self) -> None:
        self._world.faults.note(
            f"watch #{self._tap.watch} of {self._tap.who} ends, and its pending changes are dropped"
        )
        self._tap.cut()
        self._world.faults.spawn(self._lose_history(), "history lost")

    async def _lose_history(self) -> None:
        revision = await self._world.compact()
        port = self._world.ports.get(self._tap.server)
        if port is not None:
            port.fall_behind(revision)
