"""A server has too much to do for a while: it turns requests away, and says when to come back (429), or just that it
cannot (503). Reads and new watches too. What it has turned away has not happened."""

from typing import TYPE_CHECKING, Final

from mainstay.api.errors import StatusError, StatusReason
from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.faults import choose_one, some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

PROBABILITIES: Final = (0.25, 0.5, 1.0)
WAITS_S: Final = (1, 5)


class Overloaded:
    name = "overloaded"
    about = "a server rejects requests for a while, and says when to retry"

    def strike(self, world: "World") -> None:
        if not world.servers:
            return
        server = choose_one(world, "fault/overloaded/who", list(world.servers))
        probability = choose_one(world, "fault/overloaded/how-often", PROBABILITIES)
        wait_s = choose_one(world, "fault/overloaded/come-back", WAITS_S)
        is_clear = choose_one(world, "fault/overloaded/answer", (True, False))
        duration = some_duration(world, self.name)
        label = f"fault/overloaded/{server}"

        def refuse(asked: RequestReceived) -> StatusError | None:
            if asked.server != server or not world.sim.choices.occurs(f"{label}/{asked.who}", probability):
                return None
            if is_clear:
                return StatusError(429, StatusReason.TOO_MANY_REQUESTS, "too many requests", retry_after_s=wait_s)
            return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, "the server is overloaded")

        world.faults.refusing.append(refuse)
        world.faults.note(f"{server} rejects {probability:.0%} of all requests for {duration}")
        world.faults.undo_after(duration, f"{server} is overloaded", lambda: world.faults.refusing.remove(refuse))
