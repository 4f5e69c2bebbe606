"""A program hears nothing of a kind for as long as a user says, also by watches that it opens meanwhile."""

from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.cluster.world import World


class HeldWatch:
    """The watches of one program on one prefix of the store. A tap counts its holds, so each is held once."""

    def __init__(self, world: World, who: str, prefix: str) -> None:
        self._world = world
        self._who = who
        self._prefix = prefix
        self._held: list[WatchProxy] = []

    def hold(self) -> int:
        """Hold those that are open and not held yet. Returns how many are held now."""
        taps = [tap for tap in self._taps() if tap.who == self._who and tap.prefix == self._prefix]
        for tap in taps:
            if not any(tap is held for held in self._held):
                tap.hold()
                self._held.append(tap)
        return len(taps)

    def release(self) -> None:
        for tap in self._taps():
            if any(tap is held for held in self._held):
                tap.release()
        self._held.clear()

    def _taps(self) -> list[WatchProxy]:
        return [tap for gate in self._world.gates.values() for tap in gate.taps.values()]
