"""Watches come back late: hundreds of changes behind, or where what the server remembers just ends.

One follower after the other is partitioned for about as long as servers remember large changes for sure. Some of
the changes are large, so that windows are short; some come in bursts, so that a watch has more to catch up with than
is sent at once. Who comes back reads slowly at first, and is cut off again before it has caught up. No change is lost
by that: what a watch cannot deliver it says (410), and no bookmark is ahead of the changes before it.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.scenarios._followers import FOLLOWERS, FollowerStage
from mainstay.scenarios._stages import NAMESPACE, SERVERS, SILENCE
from mainstay.sim.active_faults import Release, release_all
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

LARGE, SMALL = "large", "small"
LARGE_BYTES: Final = 300 * 1024
"""Two changes of such an object are more than a window keeps for longer than `FRESH_FOR` (server/watch/feed.py)."""
SMALL_BYTES: Final = 1500
BURST: Final = 230
"""More than `AT_ONCE_CHANGES`, and together more than one piece (server/watch/session.py)."""
BURSTS_MAX: Final = 2
SHORT: Final = timedelta(seconds=20)
LONG: Final = tuple(timedelta(seconds=seconds) for seconds in (76, 84, 92))
SLOW_FOR: Final = timedelta(seconds=12)
PACE: Final = timedelta(seconds=2)
ROOM_BYTES: Final = 16 * 1024 * 1024


class WatchesBehind(FollowerStage):
    turn_every = timedelta(seconds=7)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._bursts = 0
        self._is_away = False

    async def turn(self, client: Client) -> None:
        is_long = True
        if not self._is_away and not self._is_over:  # The last turn comes when all is healed.
            is_long = self.choose("long", 2) == 1
            away = LONG[self.choose("how long", len(LONG))] if is_long else SHORT
            self._send_away(FOLLOWERS[self.choose("who", len(FOLLOWERS))], away)
        if is_long or self._bursts == BURSTS_MAX:
            await self._write(client, LARGE, LARGE_BYTES)
        else:
            self._bursts += 1
            for _ in range(BURST):
                await self._write(client, SMALL, SMALL_BYTES)

    async def _write(self, client: Client, name: str, size: int) -> None:
        self._changes += 1
        data = {"changes": str(self._changes), "filler": "x" * size}
        try:
            await client.patch(CONFIG_MAPS, name, NAMESPACE, {"data": data})
        except NotFound:
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data})

    def _send_away(self, who: str, duration: timedelta) -> None:
        world = self.world
        join = release_all(world.sim.network.cut(who, server) for server in SERVERS)
        slowed: list[Release] = []

        def slow_down(tap: WatchProxy) -> None:
            if tap.who == who:
                slowed.append(tap.slow_down(PACE, ROOM_BYTES))

        def speed_up() -> None:
            self._is_away = False
            world.faults.stop_changing(slow_down)
            for let_go in slowed:
                let_go()

        self._is_away = True
        world.faults.note(f"{who} is partitioned from all servers for {duration}, and then reads slowly")
        world.faults.change_taps(slow_down)
        world.faults.undo_after(duration, f"cut of {who}", join)
        world.faults.undo_after(duration + SLOW_FOR, f"{who} reads slowly", speed_up)


SCENARIO: Final = Scenario(
    name="watches-behind",
    about="Watches resume far behind or at the edge of what servers remember: no change is lost, no bookmark is early.",
    make=WatchesBehind,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("watch-disconnect", "server-crash"),
    lasts=timedelta(minutes=5),
    calm=timedelta(minutes=10),
    silence=SILENCE,
    ids=("W1",),
)
