"""What a cycle writes into the journal: its decisions, what became of them, and what it remembers, in one sequence.

Decisions and the answers to them share one sequence of numbers, because a decision depends on which of the earlier ones
were still assumed (record.py has what a record contains). `next_number` is to be called for each of them, whether or
not there is a recorder: the numbers also name the decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mainstay.api.kind import Object
from mainstay.env import Env
from mainstay.journal.record import AppliedPolicy, micros
from mainstay.loop.record import Origin, Recorder
from mainstay.scheduler import record as recording
from mainstay.scheduler.bind import Answer, Bind
from mainstay.scheduler.cluster_state import ClusterState, ClusterView
from mainstay.scheduler.queue.pending_pods import BindAttempt, PendingPod
from mainstay.scheduler.reasons import Unschedulable
from mainstay.scheduler.record import Deciding, Sent, Setting


@dataclass(frozen=True, slots=True)
class Author:
    """How records name the scheduler that decides."""

    origin: Origin
    cycle: str = ""
    """New for each cycle of one component: decisions are named by it."""


class RecordWriter:
    def __init__(self, env: Env, author: Author, recorder: Recorder | None = None) -> None:
        self._clock = env.clock
        self._author = author
        self._recorder = recorder
        self._prefix = f"{author.origin.component}-{author.cycle or env.chance.uid('scheduler', 0)}"
        self.seed = env.chance.uid("scheduler seed", 0)
        """By which equally good nodes are chosen from."""
        self.number = 0
        """Of the latest decision or answer."""
        self._unreported: dict[int, Sent] = {}
        """By number, the placements that are in no record yet."""
        self._unconfirmed_at: dict[str, int] = {}
        """By node, the number of the record of its unconfirmed charges."""

    def next_number(self) -> int:
        self.number += 1
        return self.number

    # What a record starts from.

    def build_setting(self, view: ClusterView, state: ClusterState) -> Setting:
        """What is the same for all decisions of one step: nothing is forgotten within it."""
        columns = state.columns
        unconfirmed = columns.unconfirmed_nodes if columns.has_unconfirmed else []
        self._unconfirmed_at = {node: self._unconfirmed_at[node] for node in unconfirmed}
        since = min([self.number + 1, *self._unconfirmed_at.values()])
        if (oldest := state.pods.oldest_assumed) is not None and oldest.attempt is not None:
            since = min(since, oldest.attempt.deciding.number)
        return Setting(
            self._author.origin,
            self._now(),
            view.seen(),
            self.seed,
            since,
            len(unconfirmed),
        )

    def build_deciding(
        self, setting: Setting, queued: PendingPod, policies: tuple[AppliedPolicy, ...], assumed: int, now_ns: int
    ) -> Deciding:
        """The next decision, about one pod, by these policies."""
        pod = queued.pod
        self.number = number = self.number + 1
        return Deciding(
            setting,
            f"{self._prefix}.{number}",
            number,
            pod.namespace,
            pod.name,
            pod.uid,
            queued.revision,
            queued.attempts,
            (now_ns - queued.queued_ns) // 1000,
            queued.woken_by,
            queued.wakes,
            tuple(queued.left_out),
            assumed,
            policies,
        )

    # Records.

    def note_sent(self, attempt: BindAttempt) -> None:
        """A binding is sent. Its record comes with the answer; refusals before that mention it."""
        bind, number = attempt.bind, attempt.deciding.number
        self._unreported[number] = Sent(number, bind.uid, bind.node, attempt.pod.revision)

    def record_answer(self, attempt: BindAttempt, answer: Answer) -> None:
        self._unreported.pop(attempt.deciding.number, None)
        number = self.next_number()
        if self._recorder is not None:
            node, score = attempt.bind.node, attempt.score
            self._recorder(recording.placement(attempt.deciding, node, score, answer, number, self._now()))

    def record_refusal(self, deciding: Deciding, no: Unschedulable) -> None:
        if self._recorder is not None:
            numbers = list(self._unreported)[: recording.SENT_OF_A_RECORD]
            sent = [self._unreported.pop(number) for number in numbers]
            self._recorder(recording.refusal(deciding, no, self._now(), sent))

    def record_failure(self, deciding: Deciding, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder(recording.failure(deciding, reason, message, self._now()))

    def record_lost_binding(self, bind: Bind, message: str, view: ClusterView, state: ClusterState) -> None:
        """A pod that was bound is not any more, because the store has gone back."""
        setting, number = self.build_setting(view, state), self.next_number()
        if self._recorder is not None:
            name = f"{self._prefix}.{number}"
            self._recorder(recording.forgotten(setting, name, number, bind, message, self._now()))

    def record_unconfirmed(self, node: str, found: Sequence[Object], view: ClusterView, state: ClusterState) -> None:
        """The server has said which charges of a node are unconfirmed, and the columns have them."""
        number = self._unconfirmed_at[node] = self.next_number()
        if self._recorder is not None:
            setting, name = self.build_setting(view, state), f"{self._prefix}.{number}"
            for made in recording.unconfirmed(setting, name, number, node, found, self._now()):
                self._recorder(made)

    def _now(self) -> int:
        return micros(self._clock.wall())
