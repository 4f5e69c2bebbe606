"""A write is lost on its way to the server: it has not happened, and its sender cannot know."""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.server_proxy import Fate, LostPart
from mainstay.sim.faults import choose_one

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class RequestLost:
    name = "request-lost"
    about = "a write does not reach the server: the connection breaks or times out"

    def fate(self, world: "World", asked: RequestReceived) -> Fate:
        is_silent = choose_one(world, f"fault/{self.name}/silently", (False, True))
        world.faults.note(f"request #{asked.request} of {asked.who} is lost")
        return Fate(LostPart.REQUEST, is_silent)
