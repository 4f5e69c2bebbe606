"""Nodes fall silent: one, a zone, all of them, or we do not hear. (kubernetes #24200, #28832, #77864; SPEC F2)

Some are only late, and nothing happens to their pods. Some are cut off for longer, and are released one by one. When
the control plane itself is cut off, or all servers are away for a while, no node is given up when they are back,
however late it is by then; and whatever wall clocks show, which jump by hours.
"""

from datetime import timedelta
from typing import Final

from mainstay.client.client import Client
from mainstay.scenarios._agents import CALM, SILENCE, TIMES
from mainstay.scenarios._health import WATCHERS, HealthStage
from mainstay.scenarios._stages import SERVERS
from mainstay.sim.checkers.patient import PatientEviction
from mainstay.sim.run.scenario import Scenario

FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (4, 7, 15, 30))
LONG: Final = timedelta(seconds=40)
JUMPS: Final = tuple(timedelta(seconds=seconds) for seconds in (30, -30, 3600, -3600))


class SilentNodes(HealthStage):
    turn_every = timedelta(seconds=12)

    async def prepare(self, client: Client) -> None:
        await self.ensure_pods(client)

    async def turn(self, client: Client) -> None:
        match self.choose("what", 8):
            case 0 | 1:
                self.cut([self.nodes[self.choose("which node", len(self.nodes))]], FOR[self.choose("for", len(FOR))])
            case 2:
                zone = "abc"[self.choose("which zone", 3)]
                self.cut(
                    [name for name, where in self.zones.items() if where == zone], FOR[self.choose("for", len(FOR))]
                )
            case 3:
                self.cut(self.nodes, LONG)
            case 4:
                self.cut(WATCHERS, LONG)
            case 5:
                self._stop_telling_of_leases()
            case 6:
                # No server can be reached by any program, and then all of them, by all at once.
                self.cut((*self.nodes, *WATCHERS), LONG)
            case _:
                whose = (*WATCHERS, *SERVERS, *self.nodes)
                name = whose[self.choose("whose clock", len(whose))]
                self.world.sim.get_clock(name).jump(JUMPS[self.choose("jump", len(JUMPS))])
        await self.ensure_pods(client)

    def _stop_telling_of_leases(self) -> None:
        """What the watchers listen to says nothing for a while, and no more than that. All else goes on."""
        for gate in self.world.gates.values():
            for tap in list(gate.taps.values()):
                if tap.who in WATCHERS and tap.prefix.endswith("/leases/"):
                    tap.hold()
                    self.world.faults.undo_after(LONG / 2, f"{tap.who} gets no changes of leases", tap.release)


SCENARIO: Final = Scenario(
    name="silent-nodes",
    about="Nodes, zones or the control plane itself are partitioned: no node is released too early or too fast.",
    make=SilentNodes,
    checkers=lambda: [PatientEviction(TIMES.duration)],
    faults=("crash", "crash-after", "pause", "answer-lost", "request-lost", "watch-disconnect", "server-crash"),
    lasts=timedelta(minutes=4),
    calm=CALM,
    silence=SILENCE,
    ids=("16", "F8"),
)
