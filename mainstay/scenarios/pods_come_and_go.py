"""Pods come and go on nodes whose agents crash at any moment; machines reboot. (SPEC F4, R4)

The same few names come again and again: politely, where a pod ends before it is removed, and by force, where the next
pod of its name is there while the first still runs. Nothing is started twice, nothing that runs well is touched, and in
the end exactly what is wanted runs.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.scenarios._agents import CALM, PODS, SILENCE, AgentStage, add_pod
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.at_most_one import AtMostOne
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("web-1", "web-2", "web-3", "web-4")
BACK_AFTER: Final = timedelta(seconds=3)


class PodsComeAndGo(AgentStage):
    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        node = self.nodes[self.choose("where", len(self.nodes))]
        match self.choose("what", 8):
            case 0:
                with suppress(NotFound):
                    await client.delete(PODS, name, NAMESPACE, grace_s=0)
                await add_pod(client, name, node)
            case 1 | 2:
                with suppress(NotFound):
                    await client.delete(PODS, name, NAMESPACE)
            case 3:
                reboot(self.world, node)
            case _:
                with suppress(AlreadyExists):
                    await add_pod(client, name, node)


def reboot(world: World, node: str) -> None:
    """The machine goes down with all that runs there, and comes back a little later."""
    program = world.programs[node]
    world.faults.note(f"the machine of {node} reboots")
    world.faults.crash(program, BACK_AFTER, silently=True)
    world.machines[node].reboot()


SCENARIO: Final = Scenario(
    name="pods-come-and-go",
    about="Pods are recreated under the same names and agents crash at any time: nothing runs twice or without need.",
    make=PodsComeAndGo,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), AtMostOne()],
    calm=CALM,
    silence=SILENCE,
    ids=("R4",),
)
