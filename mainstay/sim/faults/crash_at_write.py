"""A program crashes between two of its writes: just before one reaches the server, or just after it was committed.

The program is started again after a while. What it knew is gone; what it wrote is there.
"""

from typing import TYPE_CHECKING

from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.server_proxy import Fate, LostPart
from mainstay.sim.faults import some_duration

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class CrashBefore:
    name = "crash-before"
    about = "a program crashes before its write reaches the server"

    def fate(self, world: "World", asked: RequestReceived) -> Fate:
        return _fate(world, asked, LostPart.REQUEST, self.name)


class CrashAfter:
    name = "crash-after"
    about = "a program crashes after its write is committed, before it gets the response"

    def fate(self, world: "World", asked: RequestReceived) -> Fate:
        return _fate(world, asked, LostPart.ANSWER, self.name)


def _fate(world: "World", asked: RequestReceived, lost: LostPart, name: str) -> Fate:
    program = world.programs[asked.who]
    duration = some_duration(world, name)

    def crash() -> None:
        moment = "before" if lost is LostPart.REQUEST else "after"
        world.faults.note(f"{asked.who} crashes {moment} its request #{asked.request}")
        world.faults.crash(program, duration)

    return Fate(lost, crash=crash)
