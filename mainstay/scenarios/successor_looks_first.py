"""A leader takes over with caches that do not show yet what the last one did.

Two candidates make the pods of jobs, each under names of its own, so that nothing but its caches tells a new leader
what is there already. Leaders are lost often, and watches are late.
"""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from mainstay.api.kind_names import JOBS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.loop.decision import Create, Decision
from mainstay.loop.view import View
from mainstay.scenarios._batch import BatchController, BatchMemory, a_job, as_many_pods_as_wanted
from mainstay.scenarios._stages import SILENCE, UserStage
from mainstay.scenarios.one_pod_too_many import SOON, OnePodTooMany
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.cluster.program_lifecycle import Program
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

CANDIDATES: Final = ("controller-1", "controller-2")
LATE: Final = timedelta(seconds=5)


class OwnNames(BatchController):
    """Names what it makes after itself, too."""

    def decide(self, view: View, key: ObjectKey, memory: BatchMemory | None) -> Decision:
        decision = super().decide(view, key, memory)
        actions = []
        for action in decision.actions:
            if isinstance(action, Create):
                metadata = action.object["metadata"]
                stem, _, number = metadata["name"].rpartition("-")
                metadata["name"] = f"{stem}-{view.seed[:4]}-{number}"
            actions.append(action)
        return replace(decision, actions=tuple(actions))


class SuccessorLooksFirst(OnePodTooMany):
    """In each turn a job gets its pods, and then the leader goes while the other one has not heard of them yet."""

    turn_every = timedelta(seconds=8)

    def __init__(self, world: World) -> None:
        UserStage.__init__(self, world)
        self.add_controller(OwnNames(), *CANDIDATES)
        self._made = 0

    async def turn(self, client: Client) -> None:
        self._made += 1
        for candidate in CANDIDATES:
            if self.components[candidate].term is None:
                self._keep_in_the_dark(candidate)
        await client.create(JOBS, a_job(f"job-{self._made}", 1 + self.choose("completions", 3)))
        await tasks.sleep(SOON * (1 + self.choose("wait", 4)))
        for candidate in CANDIDATES:
            program = self.world.programs[candidate]
            if self.components[candidate].term is not None and program.is_running:
                await program.stop()
                # Not at once, or it would be its own successor.
                self.world.after(LATE, partial(_start_again, program))

    def _keep_in_the_dark(self, candidate: str) -> None:
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == candidate and tap.prefix == "core/pods/":
                    tap.hold()
                    self.world.after(LATE, tap.release)


def _start_again(program: Program) -> None:
    if not program.is_running:  # A fault may have done so before.
        program.start()


SCENARIO: Final = Scenario(
    name="successor-looks-first",
    about="Leaders change while watches lag: a new leader does not repeat what the last one did.",
    make=SuccessorLooksFirst,
    checkers=lambda: [AcknowledgedWrites(), as_many_pods_as_wanted()],
    faults=("watch-delay", "watch-disconnect", "crash", "restart"),
    silence=SILENCE,
    ids=("7",),
)
