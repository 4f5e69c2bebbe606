"""A write is committed, and its answer is lost: it has happened, and its sender cannot know."""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.server_proxy import Fate, LostPart
from mainstay.sim.faults import choose_one

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class AnswerLost:
    name = "answer-lost"
    about = "a write is committed but its response is lost: the connection breaks or times out"

    def fate(self, world: "World", asked: RequestReceived) -> Fate:
        is_silent = choose_one(world, f"fault/{self.name}/silently", (False, True))
        world.faults.note(f"the response to request #{asked.request} of {asked.who} is lost")
        return Fate(LostPart.ANSWER, is_silent)
