"""The scheduler at work: take pods from the queue, decide for each, bind them together, learn what came of it.

    queue ─► decide, assume (a step without awaiting) ─► one request with all of them ─► confirm, or forget and again
      ▲                                                   several on their way at once        │
      └──────────────────────── parked, backing off, or a fresh candidate ◄───────────────────┘

Deciding never waits for binding: a pod that is decided for counts on its node at once, and the next ones are decided
with that in mind. What is true is decided by the server. A refusal means that it knew more than the caches: the node is
left out, and the pod gets a fresh candidate at once, `candidates_max` times in a row; then it backs off.

While somebody holds the scheduler (loop/holds.py) it decides for nobody, and pods wait in the queue. It still
finds out what came of bindings that were sent before.

A binding without an answer stays assumed, and is sent again as it was until there is one, or the cache shows it; see
scheduler/cache/assumed.py. How often is a matter of time, and there is no bound to it but that: to give up would be to
guess.

Not here: what makes up the knowledge (scheduler/cache/feed.py), who leads (component.py), how reasons reach users
(report.py).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import Fenced
from mainstay.client.informer import Informer
from mainstay.env import Env, tasks
from mainstay.journal import record
from mainstay.journal.record import DecisionRecord, Seen, micros
from mainstay.loop.holds import OPEN, Gate
from mainstay.scheduler import record as recording
from mainstay.scheduler.bind import BATCH_MAX, Answer, Bind, Binder, Bound, NotDone, Refused, Unknown
from mainstay.scheduler.cache.assumed import Assumed
from mainstay.scheduler.cache.charge import charge_of_ghost
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.feed import Feed
from mainstay.scheduler.cache.ghosts import GhostSettings, GhostWatch
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.counts import Counts, Result
from mainstay.scheduler.decide import decide
from mainstay.scheduler.messages import message_of
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.queue.scheduling_queue import QueuedPod, QueueSettings, SchedulingQueue
from mainstay.scheduler.reasons import Cure, Decision, Placed, Unschedulable
from mainstay.scheduler.recheck import decided_anew
from mainstay.scheduler.record import Deciding, Sent, Setting
from mainstay.scheduler.report import Placement, Reason, Report, Reporter
from mainstay.scheduler.second_choice import decide_without
from mainstay.scheduler.what_if import Objects

_logger = logging.getLogger(__name__)

_NO_TIME: Final = timedelta(0)
_ALL_NODES_LEFT_OUT: Final = Unschedulable(0, ())
_GONE: Final = (BindingCause.POD_DELETED, BindingCause.POD_GONE)
_ROOM: Final = tuple(cure for cure in Cure if cure not in (Cure.POD_PLACED, Cure.POD_LABELS))
"""What may give room to a pod that the server has refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSettings:
    batch_max: int = 200
    """How many pods are decided in one step, and bound with one request. A step takes a few milliseconds."""
    requests_max: int = 4
    """How many requests are on their way at once. While all are, pods gather for the next one."""
    candidates_max: int = 5
    """How often a pod whose binding was refused gets another candidate at once."""
    operations: bool = True
    """Give each binding an id, so that a repeat finds the first outcome. A repeated binding is harmless without one
    too: it is refused, because the pod is bound."""
    repeat_first: timedelta = timedelta(seconds=1)
    repeat_max: timedelta = timedelta(seconds=10)
    """When a binding without an answer is sent again."""
    sweep_every: timedelta = timedelta(seconds=30)
    recheck_one_in: int = 10_000
    """One in so many decisions is made a second time, from the caches alone; 0: none."""
    recheck_objects_max: int = 5_000
    """Not if there are more: it takes a moment, in which nothing else is done."""
    ghosts: GhostSettings = field(default_factory=GhostSettings)
    queue: QueueSettings = field(default_factory=QueueSettings)


@dataclass(frozen=True, slots=True)
class CurrentPolicy:
    """What decisions go by now, and how records name it."""

    policy: Policy
    named: tuple[record.Policy, ...] = ()


class _Attempt:
    """A pod that was decided for, until it is known what came of it."""

    __slots__ = ("bind", "deciding", "mark", "queued", "score", "started_ns")

    def __init__(
        self, queued: QueuedPod, deciding: Deciding, bind: Bind, score: int, mark: int, started_ns: int
    ) -> None:
        self.queued = queued
        self.deciding = deciding
        self.bind = bind
        self.score = score
        self.mark = mark
        self.started_ns = started_ns


class Cycle:
    """One scheduler's knowledge and work, for one term of office. `feed` it from the beginning; then `run`."""

    def __init__(
        self,
        env: Env,
        pods: Informer,
        seen: Callable[[], tuple[Seen, ...]],
        client: Client,
        binder: Binder,
        reporter: Reporter,
        *,
        component: str,
        names: Sequence[str],
        policy: Callable[[], CurrentPolicy],
        objects: Callable[[int], Objects | None],
        settings: CycleSettings | None = None,
        recorder: Callable[[DecisionRecord], None] | None = None,
        counts: Counts | None = None,
        build: str = "",
        term: str = "",
        identity: str = "",
        gate: Gate = OPEN,
    ) -> None:
        """While the gate is shut nothing is decided; tell `look_again` when it opens.

        `seen` names the view: how far each cache is. `objects` gives all of it, or None if it is more than so many.
        `identity` must be new for each cycle, decisions are named by it."""
        self._settings = settings or CycleSettings()
        self._clock = env.clock
        self._pods = pods
        self._seen = seen
        self._binder = binder
        self._reporter = reporter
        self._component = component
        self._policy = policy
        self._objects = objects
        self._recorder = recorder
        self.counts = counts or Counts()
        self._build = build
        self._term = term
        self._gate = gate
        self._identity = identity or env.chance.uid("scheduler", 0)
        self._seed = env.chance.uid("scheduler seed", 0)
        self._number = 0
        self.columns = NodeColumns()
        self.queue = SchedulingQueue(self._settings.queue)
        self.assumed = Assumed()
        self.ghosts = GhostWatch(client, env.clock, self._learned_of_ghosts, self._settings.ghosts)
        self._vectors = Vectors(self.columns)
        self._haunted_at: dict[str, int] = {}
        """By node, the number of the record of its ghosts."""
        self._untold: dict[int, Sent] = {}
        """By number, the placements that no record has told of yet."""
        self._left_out: dict[str, dict[str, None]] = {}
        """By uid, the nodes where the binding of a pod was refused."""
        self._unsettled: dict[str, _Attempt] = {}
        """Whose binding got no answer."""
        self._sending: dict[asyncio.Task[None], None] = {}
        self._has_work = asyncio.Event()
        self._has_unknown = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None
        self.feed = Feed(
            self.columns,
            self.queue,
            self.assumed,
            env.clock,
            names,
            wake=self._has_work.set,
            settled=self._settled,
        )

    async def run(self) -> None:
        """Until cancelled. Raises `Fenced` when this leader's term is over."""
        self._failure = asyncio.get_running_loop().create_future()
        try:
            await tasks.together(
                [self._cycle(), self._settle(), self._sweep(), self.ghosts.run(), self._hear_of(self._failure)],
                name="scheduling",
            )
        finally:
            for task in list(self._sending):
                await tasks.stop(task)

    # Deciding.

    async def _cycle(self) -> None:
        while True:
            now_ns = self._clock.monotonic_ns()
            is_free = self._gate.held is None and len(self._sending) < self._settings.requests_max
            if is_free and self.queue.has_active(now_ns):
                self._step(now_ns)
                await tasks.sleep(_NO_TIME)  # Changes come in between.
            else:
                await self._wait(now_ns, is_free=is_free)

    def look_again(self) -> None:
        """The gate was opened, or shut."""
        self._has_work.set()

    async def _wait(self, now_ns: int, *, is_free: bool) -> None:
        self._has_work.clear()
        due_ns = self.queue.next_due_ns
        if due_ns is None or not is_free:
            await self._has_work.wait()
            return
        try:
            # A little more than that, because what is due may not be seen to be due a moment too early.
            async with tasks.timeout(timedelta(microseconds=max(due_ns - now_ns, 0) // 1000 + 1)):
                await self._has_work.wait()
        except TimeoutError:
            pass

    def _step(self, now_ns: int) -> None:
        """Decide for the next pods, all on the same view."""
        taken = self.queue.take(min(self._settings.batch_max, BATCH_MAX), now_ns)
        if not taken:
            return
        mark, current = self.queue.new_mark(), self._policy()
        setting = self._setting(current)
        observed = self._pods.cache.revision
        attempts: list[_Attempt] = []
        refused: list[tuple[QueuedPod, Deciding, Unschedulable]] = []
        for queued in taken:
            self._number += 1
            deciding = self._deciding(setting, queued, now_ns)
            started_ns = self._clock.monotonic_ns()
            try:
                decision = self._decide(queued, current.policy)
                if self._settings.recheck_one_in and self._number % self._settings.recheck_one_in == 0:
                    self._recheck(queued, current.policy, decision)
                if isinstance(decision, Placed):
                    self.columns.assume(queued.pod, decision.node)
            except Exception as error:  # noqa: BLE001 - reported; one pod's bug must not stop the others
                self._failed_to_decide(queued, deciding, error, now_ns)
                continue
            ended_ns = self._clock.monotonic_ns()
            self.counts.deciding.add(ended_ns - started_ns)
            match decision:
                case Placed(node=node, score=score):
                    bind = self._bind(queued, deciding, node, observed)
                    self.assumed.send(bind)
                    attempts.append(_Attempt(queued, deciding, bind, score, mark, started_ns))
                    self._untold[self._number] = Sent(self._number, bind.uid, node, queued.revision)
                case Unschedulable():
                    self.counts.attempts[Result.UNSCHEDULABLE].add(ended_ns - started_ns, deciding.name)
                    refused.append((queued, deciding, decision))
        if attempts:
            # What was just placed may be a cure for what was refused beside it.
            self.queue.changed((Cure.POD_PLACED,), now_ns)
            task = tasks.spawn(self._send(attempts), name="bind pods")
            self._sending[task] = None
            task.add_done_callback(self._sent)
        for queued, deciding, no in refused:
            self._refused(queued, deciding, no, mark, now_ns)

    def _decide(self, queued: QueuedPod, policy: Policy) -> Decision:
        left_out = self._left_out.get(queued.pod.uid)
        if not left_out:
            return decide(self._vectors, queued.pod, policy, self._seed)
        found = decide_without(self._vectors, queued.pod, policy, self._seed, left_out)
        return _ALL_NODES_LEFT_OUT if found is None else found

    def _recheck(self, queued: QueuedPod, policy: Policy, decision: Decision) -> None:
        """See recheck.py."""
        objects = self._objects(self._settings.recheck_objects_max)
        if objects is None:
            return
        left_out = self._left_out.get(queued.pod.uid, {})
        again = decided_anew(objects, self.columns, self.assumed, queued.pod, policy, self._seed, left_out)
        self.counts.rechecked += 1
        if (again or _ALL_NODES_LEFT_OUT) != decision:
            self.counts.disagreements += 1
            _logger.error("%s: the columns lead to %s, and the objects alone to %s", queued.key, decision, again)

    def _refused(self, queued: QueuedPod, deciding: Deciding, no: Unschedulable, mark: int, now_ns: int) -> None:
        uid = queued.pod.uid
        left_out = self._left_out.pop(uid, None)
        if no is _ALL_NODES_LEFT_OUT:
            text = _refused_by_server(left_out or {}, "no other node can take it now")
            self._give_up_for_now(queued, left_out or {}, text, deciding.name, now_ns)
            self._record(recording.failure(deciding, "NoOtherNode", text, self._now()))
            return
        self.queue.park(uid, no.cures, mark, now_ns)
        self._reporter.report(Report(queued.key, uid, Reason.UNSCHEDULABLE, message_of(no), deciding.name))
        if self._recorder is not None:
            told = list(self._untold)[: recording.SENT_OF_A_RECORD]
            sent = [self._untold.pop(number) for number in told]
            self._record(recording.refusal(deciding, no, self._now(), sent))

    def _failed_to_decide(self, queued: QueuedPod, deciding: Deciding, error: Exception, now_ns: int) -> None:
        self.counts.bugs += 1
        self.counts.attempts[Result.ERROR].add(0, deciding.name)
        self.columns.forget(queued.pod.uid)
        self.queue.back_off(queued.pod.uid, now_ns)
        text = f"{type(error).__name__}: {error}"
        self._reporter.report(Report(queued.key, queued.pod.uid, Reason.SCHEDULER_ERROR, text, deciding.name))
        self._record(recording.failure(deciding, "InternalError", text, self._now()))
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the scheduler cannot decide about {queued.key}", "exception": error}
        )

    def _setting(self, current: CurrentPolicy) -> Setting:
        haunted = self.columns.haunted_nodes if self.columns.has_ghosts else []
        self._haunted_at = {node: self._haunted_at[node] for node in haunted}
        # Nothing is forgotten within a step, so this holds for all of its decisions.
        since = min([self._number + 1, *self._haunted_at.values()])
        if (oldest := self.assumed.oldest) is not None:
            since = min(since, int(oldest.decision.rpartition(".")[2]))
        return Setting(
            self._component,
            self._build,
            self._term,
            self._now(),
            self._seen(),
            self._seed,
            current.named,
            since,
            len(haunted),
        )

    def _deciding(self, setting: Setting, queued: QueuedPod, now_ns: int) -> Deciding:
        pod = queued.pod
        left_out = self._left_out.get(pod.uid)
        return Deciding(
            setting,
            f"{self._component}-{self._identity}.{self._number}",
            self._number,
            pod.namespace,
            pod.name,
            pod.uid,
            queued.revision,
            queued.attempts,
            (now_ns - queued.queued_ns) // 1000,
            queued.woken_by,
            queued.wakes,
            tuple(left_out) if left_out else (),
            len(self.assumed),
        )

    def _bind(self, queued: QueuedPod, deciding: Deciding, node: str, observed: int) -> Bind:
        pod = queued.pod
        return Bind(
            pod.namespace,
            pod.name,
            pod.uid,
            node,
            observed,
            deciding.name if self._settings.operations else "",
            deciding.name,
            f"pods/{pod.namespace}/{pod.name}@{queued.revision}",
            pod.pod_class.reservation,
        )

    # Binding.

    async def _send(self, attempts: Sequence[_Attempt]) -> None:
        try:
            answers = await self._binder.bind([attempt.bind for attempt in attempts])
        except Fenced as error:
            self._fail(error)
            return
        for attempt, answer in zip(attempts, answers, strict=True):
            self._answered(attempt, answer)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._sending.pop(task, None)
        self._has_work.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _answered(self, attempt: _Attempt, answer: Answer) -> None:
        """What became of a binding. The cache may have shown it before, and the pod be gone."""
        now_ns = self._clock.monotonic_ns()
        self._number += 1
        queued, uid = attempt.queued, attempt.bind.uid
        self._untold.pop(attempt.deciding.number, None)
        result = Result.ERROR
        match answer:
            case Bound(revision=revision):
                result = Result.SCHEDULED
                self._is_bound(attempt, revision, now_ns)
            case Refused(cause=BindingCause.ALREADY_BOUND):
                # By somebody else, or by our own first request. It stays where it is assumed until the cache shows it.
                self.assumed.bound(uid, 0)
                self._leave(uid)
            case Refused(cause=cause) if cause in _GONE:
                # The cache will show that it is gone. Until then it looks like a pod that waits: not again at once.
                self._forget(uid, now_ns, attempt.mark)
                self.queue.back_off(uid, now_ns)
            case Refused():
                self._forget(uid, now_ns, attempt.mark)
                self._again(attempt, answer, now_ns)
            case NotDone(message=message):
                self._forget(uid, now_ns, attempt.mark)
                self.queue.back_off(uid, now_ns)
                self._reporter.report(
                    Report(queued.key, uid, Reason.SCHEDULER_ERROR, f"it could not be bound: {message}")
                )
            case Unknown(message=message):
                self.counts.unknown += 1
                self.assumed.unknown(uid)
                if uid in self.assumed:
                    self._unsettled[uid] = attempt
                    self._has_unknown.set()
                    self._retrying(attempt, message)
        if isinstance(answer, Refused):
            self.counts.refused[answer.cause] = self.counts.refused.get(answer.cause, 0) + 1
        self.counts.attempts[result].add(now_ns - attempt.started_ns, attempt.deciding.name)
        if self._recorder is not None:
            node = attempt.bind.node
            self._record(recording.placement(attempt.deciding, node, attempt.score, answer, self._number, self._now()))
        self._has_work.set()

    def _is_bound(self, attempt: _Attempt, revision: int, now_ns: int) -> None:
        queued, uid = attempt.queued, attempt.bind.uid
        self._pods.saw(revision)
        self._reporter.placed(Placement(queued.key, uid, attempt.bind.node, attempt.deciding.name))
        self.assumed.bound(uid, revision)
        self.counts.bound += 1
        self.counts.waited(queued.attempts, now_ns - queued.added_ns, attempt.deciding.name)
        self._leave(uid)

    def _retrying(self, attempt: _Attempt, why: str) -> None:
        """Nobody knows whether a pod is bound: say so, unless it is known soon."""
        bind = attempt.bind
        text = f"its binding to {bind.node} may or may not have been done, and is asked for again: {why}"
        report = Report(attempt.queued.key, bind.uid, Reason.BINDING_UNANSWERED, text, attempt.deciding.name)
        self._reporter.report(report)

    def _again(self, attempt: _Attempt, answer: Refused, now_ns: int) -> None:
        """Another candidate, if there have not been too many."""
        uid = attempt.bind.uid
        if uid not in self.queue:
            self._left_out.pop(uid, None)
            return
        left_out = self._left_out.setdefault(uid, {})
        left_out[attempt.bind.node] = None
        if answer.cause is BindingCause.HELD_BY_GHOSTS:
            self.ghosts.refused(attempt.bind.node)
        if answer.cause is not BindingCause.OTHER and len(left_out) < self._settings.candidates_max:
            self.queue.put_back(uid, now_ns)
            return
        del self._left_out[uid]
        text = _refused_by_server(left_out, answer.message)
        if answer.cause is not BindingCause.OTHER:
            self._give_up_for_now(attempt.queued, left_out, text, attempt.deciding.name, now_ns)
            return
        self.queue.back_off(uid, now_ns)
        self._reporter.report(Report(attempt.queued.key, uid, Reason.SCHEDULER_ERROR, text, attempt.deciding.name))

    def _give_up_for_now(
        self, queued: QueuedPod, left_out: Iterable[str], text: str, decision: str, now_ns: int
    ) -> None:
        """The server does not take it where we would put it. What the columns say of those nodes is not true, yet: they
        are behind, or do not know of ghosts. These are being asked for, and then there is more to say about it."""
        self.queue.park_refused(queued.pod.uid, _ROOM, now_ns)
        if any(self.ghosts.is_asking(node) for node in left_out):
            return
        report = Report(queued.key, queued.pod.uid, Reason.UNSCHEDULABLE, text, decision, is_weak=True)
        self._reporter.report(report)

    def _learned_of_ghosts(self, node: str, found: Sequence[Object]) -> bool:
        """The server has said which ghosts a node has. Whether that is news."""
        charges = {each["uid"]: charge_of_ghost(each) for each in found}
        if self.columns.row_of(node) is None or charges.keys() == self.columns.ghosts_on(node).keys():
            return False
        now_ns = self._clock.monotonic_ns()
        cures = self.columns.ghosts_changed(node, charges)
        self._number += 1
        self._haunted_at[node] = self._number
        if self._recorder is not None:
            setting = self._setting(self._policy())
            name = f"{self._component}-{self._identity}.{self._number}"
            for made in recording.ghosts(setting, name, self._number, node, found, self._now()):
                self._record(made)
        if cures:
            self.queue.changed(cures, now_ns)
            self._has_work.set()
        return True

    def _forget(self, uid: str, now_ns: int, since: int = 0) -> None:
        """A pod is not on its node after all. `since` is the mark of the decision by which it was assumed to be."""
        self.assumed.drop(uid)
        self._unsettled.pop(uid, None)
        cures = self.columns.forget(uid)
        if cures:
            self.queue.changed(cures, now_ns, since=since)

    def _leave(self, uid: str) -> None:
        """Nothing more is to be decided about a pod."""
        self.queue.remove(uid)
        self._settled(uid)

    def _settled(self, uid: str) -> None:
        self._left_out.pop(uid, None)
        self._unsettled.pop(uid, None)
        self._reporter.forget(uid)

    # What became of bindings without an answer.

    async def _settle(self) -> None:
        delay = self._settings.repeat_first
        while True:
            await self._has_unknown.wait()
            await tasks.sleep(delay)
            binds = self.assumed.to_repeat()
            if not self.assumed.has_unknown:
                self._has_unknown.clear()
            if not binds:
                continue
            answers = await self._binder.bind(binds)
            for bind, answer in zip(binds, answers, strict=True):
                self._answered_again(bind, answer)
            is_answered = not all(isinstance(answer, NotDone | Unknown) for answer in answers)
            delay = self._settings.repeat_first if is_answered else min(2 * delay, self._settings.repeat_max)

    def _answered_again(self, bind: Bind, answer: Answer) -> None:
        if bind.uid not in self.assumed:
            return  # The cache was faster.
        if isinstance(answer, NotDone):
            answer = Unknown(answer.message)  # That the repeat was not done says nothing about the first.
        attempt = self._unsettled.get(bind.uid)
        if attempt is not None:
            self._answered(attempt, answer)
            return
        # It was said to be bound, and then was not shown.
        match answer:
            case Bound(revision=revision):
                self.assumed.bound(bind.uid, revision)
            case Refused(cause=BindingCause.ALREADY_BOUND):
                self.assumed.bound(bind.uid, 0)
            case Refused(message=message):
                setting = self._setting(self._policy())
                self._number += 1
                name = f"{self._component}-{self._identity}.{self._number}"
                self._record(recording.forgotten(setting, name, self._number, bind, message, self._now()))
                self._forget(bind.uid, self._clock.monotonic_ns())
                self._has_work.set()
                self.feed.look_again(self._pods.cache, ObjectKey(bind.namespace, bind.name))
            case _:
                self.assumed.unknown(bind.uid)
                self._has_unknown.set()

    async def _sweep(self) -> None:
        while True:
            await tasks.sleep(self._settings.sweep_every)
            has_gone_back, self.feed.has_gone_back = self.feed.has_gone_back, False
            missed = self.assumed.missed(self._pods.cache.revision, has_gone_back=has_gone_back)
            if missed:
                _logger.warning("%d pods were bound, and the cache does not show it", len(missed))
                self._has_unknown.set()

    # Small things.

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    @staticmethod
    async def _hear_of(failure: "asyncio.Future[None]") -> None:
        await failure

    def _record(self, made: DecisionRecord) -> None:
        if self._recorder is not None:
            self._recorder(made)

    def _now(self) -> int:
        return micros(self._clock.wall())


def _refused_by_server(nodes: Iterable[str], why: str) -> str:
    """Sorted, so that the same refusals give the same words."""
    return f"the server refused to bind it to {', '.join(sorted(nodes))}: {why}"
