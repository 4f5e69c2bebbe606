"""What becomes of bindings: send them, act on each answer, and find out about those without one.

    BINDING ──bound──► confirmed, until the cache shows it
       │ refused: the node is left out, and the pod gets another candidate: at once, or after its backoff when that is
       │          repeated (evidence `BindConflicts`), `candidates_max` times in a row; then it is unschedulable, and
       │          tried again by itself
       │ not done: the pod backs off
       └ no answer: the same binding is sent again until there is one, or the cache shows it

What is true is decided by the server. A refusal means that it knew more than the caches. How often a binding without an
answer is repeated is a matter of time, and there is no bound to it but that: to give up would be to guess.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.client.client import Client
from mainstay.client.errors import Fenced
from mainstay.env import Clock, tasks
from mainstay.loop.evidence import EvidenceResponse, allowed
from mainstay.loop.signals import collect_bind_conflicts
from mainstay.scheduler.bind import Answer, Binder, BindRefused, Bound, NotDone, Unknown
from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.unconfirmed import UnconfirmedWatch
from mainstay.scheduler.cluster_state import ClusterState, ClusterView
from mainstay.scheduler.counts import Result, SchedulerCounts
from mainstay.scheduler.queue.pending_pods import BindAttempt, PendingPod
from mainstay.scheduler.queue.pod_states import PodState
from mainstay.scheduler.reasons import Cure
from mainstay.scheduler.record_writer import RecordWriter
from mainstay.scheduler.report import PlacedPod, PodConditionReason, PodReport, Reporter
from mainstay.scheduler.settings import CycleSettings

_logger = logging.getLogger(__name__)

_GONE: Final = (BindingCause.POD_DELETED, BindingCause.POD_GONE)
_ROOM: Final = tuple(cure for cure in Cure if cure not in (Cure.POD_PLACED, Cure.POD_LABELS))
"""What may give room to a pod that the server has refused."""


@dataclass(frozen=True, slots=True)
class ClusterWriters:
    """Through which a scheduler writes."""

    client: Client
    binder: Binder
    reporter: Reporter


class Bindings:
    """`send` never waits. `works` are to be run beside the cycle; `stop` ends what is on its way."""

    def __init__(
        self,
        clock: Clock,
        view: ClusterView,
        state: ClusterState,
        writers: ClusterWriters,
        records: RecordWriter,
        settings: CycleSettings,
        counts: SchedulerCounts,
    ) -> None:
        self._clock = clock
        self._view = view
        self._state = state
        self._binder = writers.binder
        self._reporter = writers.reporter
        self._records = records
        self._settings = settings
        self._counts = counts
        self.unconfirmed = UnconfirmedWatch(writers.client, clock, self._learn_unconfirmed, settings.unconfirmed)
        self._sending: dict[asyncio.Task[None], None] = {}
        self._has_doubts = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether as many requests are on their way as may be."""
        return len(self._sending) >= self._settings.requests_max

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """To be run together, until cancelled. Raise `Fenced` when this leader's term is over."""
        self._failure = asyncio.get_running_loop().create_future()
        return [self._settle(), self._sweep(), self.unconfirmed.run(), self._raise_failure(self._failure)]

    async def stop(self) -> None:
        for task in list(self._sending):
            await tasks.stop(task)

    def send(self, attempts: Sequence[BindAttempt]) -> None:
        task = tasks.spawn(self._send(attempts), name="bind pods")
        self._sending[task] = None
        task.add_done_callback(self._sent)

    # Answers.

    async def _send(self, attempts: Sequence[BindAttempt]) -> None:
        try:
            answers = await self._binder.bind([attempt.bind for attempt in attempts])
        except Fenced as error:
            self._fail(error)
            return
        for attempt, answer in zip(attempts, answers, strict=True):
            self._answered(attempt, answer)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._sending.pop(task, None)
        self._state.work.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _answered(self, attempt: BindAttempt, answer: Answer) -> None:
        """What became of a binding. The cache may have shown it before, and the pod be gone."""
        now_ns = self._clock.monotonic_ns()
        result = Result.ERROR
        match answer:
            case Bound(revision=revision):
                result = Result.SCHEDULED
                self._is_bound(attempt, revision, now_ns)
            case BindRefused(cause=cause):
                self._counts.refused[cause] = self._counts.refused.get(cause, 0) + 1
                figures = self._counts.policies.find(attempt.deciding.policies)
                if figures is not None:
                    figures.count_refusal(cause)
            case Unknown():
                self._counts.unknown += 1
        if self._state.pods.is_current(attempt):
            self._settle_attempt(attempt, answer, now_ns)
        self._counts.attempts[result].add(now_ns - attempt.started_ns, attempt.deciding.name)
        self._records.record_answer(attempt, answer)
        self._state.work.set()

    def _is_bound(self, attempt: BindAttempt, revision: int, now_ns: int) -> None:
        pod, bind = attempt.pod, attempt.bind
        self._view.pods.saw(revision)
        self._reporter.placed(PlacedPod(pod.key, bind.uid, bind.node, attempt.deciding.name))
        self._counts.bound += 1
        self._counts.waited(pod.attempts, now_ns - pod.added_ns, attempt.deciding.name)

    def _settle_attempt(self, attempt: BindAttempt, answer: Answer, now_ns: int) -> None:
        """Change the state of a pod that waits for this answer."""
        pod, uid, pods = attempt.pod, attempt.bind.uid, self._state.pods
        match answer:
            case Bound(revision=revision):
                pods.confirm(pod, revision)
                self._reporter.forget(uid)
            case BindRefused(cause=BindingCause.ALREADY_BOUND):
                # By another scheduler, or by our own first request. It stays assumed where it is until the cache shows
                # it.
                pods.confirm(pod, 0)
                self._reporter.forget(uid)
            case BindRefused(cause=cause) if cause in _GONE:
                # The cache will show that it is gone. Until then it looks like a pod that waits: not again at once.
                self._state.release(uid, now_ns, attempt.mark)
                self._state.queue.back_off(uid, now_ns)
            case BindRefused():
                self._state.release(uid, now_ns, attempt.mark)
                self._try_another_node(attempt, answer, now_ns)
            case NotDone(message=message):
                self._state.release(uid, now_ns, attempt.mark)
                self._state.queue.back_off(uid, now_ns)
                self._reporter.report(
                    PodReport(pod.key, uid, PodConditionReason.SCHEDULER_ERROR, f"binding failed: {message}")
                )
            case Unknown(message=message):
                pods.doubt(pod)
                self._has_doubts.set()
                self._report_doubt(attempt, message)

    def _report_doubt(self, attempt: BindAttempt, why: str) -> None:
        """It is not known whether a pod is bound: say so, unless it is known soon."""
        bind = attempt.bind
        text = f"no answer to the binding to {bind.node}, which may be done; retrying: {why}"
        self._reporter.report(
            PodReport(
                attempt.pod.key,
                bind.uid,
                PodConditionReason.BINDING_UNANSWERED,
                text,
                attempt.deciding.name,
                scheduled_at=bind.scheduled_at,
            )
        )

    def _try_another_node(self, attempt: BindAttempt, answer: BindRefused, now_ns: int) -> None:
        """If there have not been too many."""
        pod, node, uid = attempt.pod, attempt.bind.node, attempt.bind.uid
        pod.left_out[node] = None
        if answer.cause is BindingCause.HELD_BY_GHOSTS:
            self.unconfirmed.refused(node)
        if answer.cause is BindingCause.STALE:
            self._state.feed.await_change(node)
        if answer.cause is not BindingCause.OTHER and len(pod.left_out) < self._settings.candidates_max:
            may = allowed(collect_bind_conflicts(str(pod.key), len(pod.left_out), str(answer.cause)))
            if EvidenceResponse.SLOW_DOWN in may:
                # So many nodes were not what the caches show: they are behind, and get time to catch up.
                self._state.queue.back_off(uid, now_ns)
            else:
                self._state.queue.put_back(uid, now_ns)
            return
        if answer.cause is not BindingCause.OTHER:
            self.give_up_for_now(pod, answer.message, attempt.deciding.name, now_ns, str(answer.cause))
            return
        text, pod.left_out = _refused_by_server(pod.left_out, answer.message), {}
        self._state.queue.back_off(uid, now_ns)
        self._reporter.report(PodReport(pod.key, uid, PodConditionReason.SCHEDULER_ERROR, text, attempt.deciding.name))

    def give_up_for_now(self, pod: PendingPod, why: str, decision: str, now_ns: int, cause: str = "") -> str:
        """The server refuses a pod wherever it could be. What the columns say of those nodes is not true, yet: they are
        behind, or do not know of unconfirmed charges. The server is being asked for these, and then there is more to
        report. Returns the reason in words."""
        left_out, pod.left_out = pod.left_out, {}
        text = _refused_by_server(left_out, why)
        self._state.queue.park_refused(pod.uid, _ROOM, now_ns)
        if not any(self.unconfirmed.is_asking(node) for node in left_out):
            self._reporter.report(
                PodReport(pod.key, pod.uid, PodConditionReason.UNSCHEDULABLE, text, decision, cause, is_weak=True)
            )
        return text

    def _learn_unconfirmed(self, node: str, found: Sequence[Object]) -> bool:
        """The server has said which charges of a node are unconfirmed. Whether that is news."""
        columns = self._state.columns
        charges = {each["uid"]: build_unconfirmed_charge(each) for each in found}
        if columns.find_row(node) is None or charges.keys() == columns.unconfirmed_on(node).keys():
            return False
        now_ns = self._clock.monotonic_ns()
        cures = columns.unconfirmed_changed(node, charges)
        self._records.record_unconfirmed(node, found, self._view, self._state)
        if cures:
            self._state.queue.changed(cures, now_ns)
            self._state.work.set()
        return True

    # Bindings in doubt.

    async def _settle(self) -> None:
        """Send bindings without an answer again, as they were."""
        pods, shape, repeats = self._state.pods, self._settings.repeat, 1
        while True:
            await self._has_doubts.wait()
            await tasks.sleep(shape.delay(repeats, 0))
            attempts = pods.take_doubtful()
            if not pods.has_doubts:
                self._has_doubts.clear()
            if not attempts:
                continue
            answers = await self._binder.bind([attempt.bind for attempt in attempts])
            for attempt, answer in zip(attempts, answers, strict=True):
                self._answered_again(attempt, answer)
            is_answered = not all(isinstance(answer, NotDone | Unknown) for answer in answers)
            repeats = 1 if is_answered else repeats + 1

    def _answered_again(self, attempt: BindAttempt, answer: Answer) -> None:
        pods, pod = self._state.pods, attempt.pod
        if not pods.is_current(attempt):
            return  # The cache was faster.
        if isinstance(answer, NotDone):
            answer = Unknown(answer.message)  # That the repeat was not done says nothing about the first.
        if pod.state is not PodState.MISSING:
            self._answered(attempt, answer)
            return
        match answer:
            case Bound(revision=revision):
                pods.confirm(pod, revision)
            case BindRefused(cause=BindingCause.ALREADY_BOUND):
                pods.confirm(pod, 0)
            case BindRefused(message=message):
                self._records.record_lost_binding(attempt.bind, message, self._view, self._state)
                self._state.release(pod.uid, self._clock.monotonic_ns())
                self._state.queue.remove(pod.uid)
                self._state.work.set()
                self._state.feed.look_again(self._view.pods.cache, pod.key)
            case _:
                pods.doubt(pod)
                self._has_doubts.set()

    async def _sweep(self) -> None:
        feed = self._state.feed
        while True:
            await tasks.sleep(self._settings.sweep_every)
            has_gone_back, feed.has_gone_back = feed.has_gone_back, False
            missing = self._state.pods.find_missing(self._view.pods.cache.revision, has_gone_back=has_gone_back)
            if missing:
                _logger.warning("%d bound pods are missing from the cache; sending their bindings again", len(missing))
                self._has_doubts.set()

    # Failing.

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    @staticmethod
    async def _raise_failure(failure: "asyncio.Future[None]") -> None:
        await failure


def _refused_by_server(nodes: Iterable[str], why: str) -> str:
    """Sorted, so that the same refusals give the same words."""
    return f"the API server rejected the binding to {', '.join(sorted(nodes))}: {why}"
