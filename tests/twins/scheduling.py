"""Bugs that a scheduler at work could have."""

from collections.abc import Callable, Iterable, Sequence

import pytest

from mainstay.scheduler import cycle
from mainstay.scheduler.binding import Answer, Bind, Binder, NotDone, Unknown
from mainstay.scheduler.cycle import Cycle
from mainstay.scheduler.decide import decide
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Cure, Placed
from mainstay.scheduler.scheduling_queue import SchedulingQueue, State
from mainstay.scheduler.vectors import Vectors

Twin = Callable[[pytest.MonkeyPatch], None]


def loses_what_comes_before_the_parking(patch: pytest.MonkeyPatch) -> None:
    honest = SchedulingQueue.park

    def park(self: SchedulingQueue, uid: str, cures: Sequence[Cure], mark: int, now_ns: int) -> State | None:
        return honest(self, uid, cures, self.mark, now_ns)

    patch.setattr(SchedulingQueue, "park", park)


def takes_no_answer_for_a_no(patch: pytest.MonkeyPatch) -> None:
    """Frees the room of a binding that may yet be done."""
    honest = Cycle._answered

    def answered(self: Cycle, attempt: cycle._Attempt, answer: Answer) -> None:
        honest(self, attempt, NotDone(answer.message) if isinstance(answer, Unknown) else answer)

    patch.setattr(Cycle, "_answered", answered)


def tries_the_same_node_again(patch: pytest.MonkeyPatch) -> None:
    def decide_again(
        vectors: Vectors, pod: PodToPlace, policy: Policy, seed: str, without: Iterable[str]
    ) -> Placed | None:
        found = decide(vectors, pod, policy, seed)
        return found if isinstance(found, Placed) else None

    patch.setattr(cycle, "decide_without", decide_again)


def gives_up_repeating(patch: pytest.MonkeyPatch) -> None:
    """Never asks what became of a binding, so its pod waits for ever if it was not done."""
    honest = Binder.bind
    sent: dict[str, None] = {}

    async def bind(self: Binder, binds: Sequence[Bind]) -> list[Answer]:
        if all(each.operation in sent for each in binds):
            return [Unknown("not sent again")] * len(binds)
        sent.update(dict.fromkeys(each.operation for each in binds))
        return await honest(self, binds)

    patch.setattr(Binder, "bind", bind)
