"""The scheduler at work: take pods from the queue, decide for each, bind them together, learn what came of it.

    queue ─► decide, assume (a step without awaiting) ─► one request with all of them ─► confirm, or release and retry
      ▲                                                   several on their way at once        │
      └──────────────────────── unschedulable, backing off, or another candidate ◄────────────┘

Deciding never waits for binding: a pod that is decided for counts on its node at once, and the next ones are decided
with that in mind. What one pod goes through is in queue/pod_states.py.

While the scheduler is held (loop/holds.py) it decides about no pod, and pods wait in the queue. It still finds out what
came of bindings that were sent before.

A bug in one decision is reported with its pod, which backs off; the others go on. A broken invariant is about what they
share, and ends the cycle.

Not here: what makes up the knowledge (cluster_state.py, cache/feed.py), what becomes of bindings (bindings.py), what is
recorded (record_writer.py), which process leads (component.py), how reasons reach users (report.py).
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from mainstay.api.times import format_micro_time
from mainstay.client.intent import Intent
from mainstay.env import Env, tasks
from mainstay.env.invariants import BrokenInvariant
from mainstay.journal.record import moment
from mainstay.loop.holds import OPEN, Gate
from mainstay.scheduler.bind import BATCH_MAX, Bind, SeenRevisions, find_seen
from mainstay.scheduler.bindings import Bindings, ClusterWriters
from mainstay.scheduler.cluster_state import ClusterState, ClusterView
from mainstay.scheduler.counts import Result, SchedulerCounts
from mainstay.scheduler.decide import decide, decide_without
from mainstay.scheduler.messages import render_message
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.queue.pending_pods import BindAttempt, PendingPod
from mainstay.scheduler.reasons import Cure, Decision, Placed, Unschedulable
from mainstay.scheduler.recheck import decide_from_objects
from mainstay.scheduler.record import Deciding
from mainstay.scheduler.record_writer import RecordWriter
from mainstay.scheduler.report import PodConditionReason, PodReport
from mainstay.scheduler.settings import CycleSettings
from mainstay.scheduler.shadow import ShadowDecider

_logger = logging.getLogger(__name__)

_NO_TIME: Final = timedelta(0)
_ALL_NODES_LEFT_OUT: Final = Unschedulable(0, ())


class Cycle:
    """One scheduler's knowledge and work, for one term of office. `feed` it from the beginning; then `run`."""

    def __init__(
        self,
        env: Env,
        view: ClusterView,
        writers: ClusterWriters,
        records: RecordWriter,
        decider: str,
        settings: CycleSettings | None = None,
        counts: SchedulerCounts | None = None,
        gate: Gate = OPEN,
    ) -> None:
        """While the gate is shut nothing is decided; call `look_again` when it opens. `decider` is who decides: the
        same for all candidates of an election, each its own for schedulers that share pods."""
        self._settings = settings or CycleSettings()
        self._clock = env.clock
        self._view = view
        self._records = records
        self._reporter = writers.reporter
        self._gate = gate
        self._intent = Intent(decider)
        self.counts = counts or SchedulerCounts()
        self.state = ClusterState(
            env.clock,
            view.names,
            self._settings.queue,
            settled=self._reporter.forget,
            check_one_in=self._settings.check_one_in,
        )
        self._shadow = ShadowDecider(env.clock, self.state.vectors, self.counts, records.seed)
        self.bindings = Bindings(env.clock, view, self.state, writers, records, self._settings, self.counts)

    async def run(self) -> None:
        """Until cancelled. Raises `Fenced` when this leader's term is over."""
        try:
            await tasks.together([self._cycle(), *self.bindings.works()], name="scheduling")
        finally:
            await self.bindings.stop()

    def look_again(self) -> None:
        """The gate was opened, or shut."""
        self.state.work.set()

    async def _cycle(self) -> None:
        while True:
            now_ns = self._clock.monotonic_ns()
            is_free = self._gate.held is None and not self.bindings.is_full
            if is_free and self.state.queue.has_active(now_ns):
                self._step(now_ns)
                self.state.check_sample()
                await tasks.sleep(_NO_TIME)  # Changes come in between.
            else:
                await self._wait(now_ns, is_free=is_free)

    async def _wait(self, now_ns: int, *, is_free: bool) -> None:
        work = self.state.work
        work.clear()
        due_ns = self.state.queue.next_due_ns
        if due_ns is None or not is_free:
            await work.wait()
            return
        try:
            # A little more than that, because what is due may not be seen to be due a moment too early.
            async with tasks.timeout(timedelta(microseconds=max(due_ns - now_ns, 0) // 1000 + 1)):
                await work.wait()
        except TimeoutError:
            pass

    def _step(self, now_ns: int) -> None:
        """Decide for the next pods, all on the same view."""
        queue, pods, counts = self.state.queue, self.state.pods, self.counts
        taken = queue.take(min(self._settings.batch_max, BATCH_MAX), now_ns)
        if not taken:
            return
        mark, policies = queue.new_mark(), self._view.policies()
        setting = self._records.build_setting(self._view, self.state)
        observed = find_seen(setting.view)
        chosen_at = format_micro_time(moment(setting.now))
        attempts: list[BindAttempt] = []
        refused: list[tuple[PendingPod, Deciding, Unschedulable]] = []
        for pod in taken:
            chosen = policies.choose(pod.pod)
            deciding = self._records.build_deciding(setting, pod, chosen.named, len(pods.assumed), now_ns)
            figures = counts.policies.find(chosen.named)
            candidates = self._shadow.decide(policies, pod.pod, chosen, deciding) if policies.shadowed else ()
            started_ns = self._clock.monotonic_ns()
            try:
                decision = self._decide_and_place(pod, chosen.policy, deciding.number)
            except BrokenInvariant:
                raise
            except Exception as error:  # noqa: BLE001 - reported; one pod's bug must not stop the others
                self._fail(pod, deciding, error, now_ns)
                continue
            ended_ns = self._clock.monotonic_ns()
            counts.deciding.add(ended_ns - started_ns)
            if candidates:
                deciding = self._shadow.compare(candidates, decision, deciding)
            if figures is not None:
                figures.decided += 1
                figures.placed += isinstance(decision, Placed)
                figures.unschedulable += isinstance(decision, Unschedulable)
            if isinstance(decision, Placed):
                bind = self._bind(pod, deciding, decision.node, observed, chosen_at)
                attempt = BindAttempt(pod, deciding, bind, decision.score, mark, started_ns)
                self.state.assume(attempt)
                self._records.note_sent(attempt)
                attempts.append(attempt)
            else:
                counts.attempts[Result.UNSCHEDULABLE].add(ended_ns - started_ns, deciding.name)
                refused.append((pod, deciding, decision))
        if attempts:
            # What was just placed may be a cure for what was refused beside it.
            queue.changed((Cure.POD_PLACED,), now_ns)
            self.bindings.send(attempts)
        for pod, deciding, no in refused:
            self._refuse(pod, deciding, no, mark, now_ns)

    # One pod.

    def _decide_and_place(self, pod: PendingPod, policy: Policy, number: int) -> Decision:
        decision = self._decide(pod, policy)
        if self._settings.recheck_one_in and number % self._settings.recheck_one_in == 0:
            self._recheck(pod, policy, decision)
        if isinstance(decision, Placed):
            self.state.columns.assume(pod.pod, decision.node)
        return decision

    def _decide(self, pod: PendingPod, policy: Policy) -> Decision:
        vectors, seed = self.state.vectors, self._records.seed
        if not pod.left_out:
            return decide(vectors, pod.pod, policy, seed)
        found = decide_without(vectors, pod.pod, policy, seed, pod.left_out)
        return _ALL_NODES_LEFT_OUT if found is None else found

    def _recheck(self, pod: PendingPod, policy: Policy, decision: Decision) -> None:
        """See recheck.py."""
        objects = self._view.objects(self._settings.recheck_objects_max)
        if objects is None:
            return
        state, seed = self.state, self._records.seed
        again = decide_from_objects(objects, state.columns, state.pods.assumed, pod.pod, policy, seed, pod.left_out)
        self.counts.rechecked += 1
        if (again or _ALL_NODES_LEFT_OUT) != decision:
            self.counts.disagreements += 1
            _logger.error("%s: decided %s from columns, but %s from objects", pod.key, decision, again)

    def _bind(
        self, pending: PendingPod, deciding: Deciding, node: str, observed: SeenRevisions, chosen_at: str
    ) -> Bind:
        pod = pending.pod
        return Bind(
            pod.namespace,
            pod.name,
            pod.uid,
            node,
            observed,
            self._name_operation(pod, node),
            deciding.name,
            f"pods/{pod.namespace}/{pod.name}@{pending.revision}",
            pod.pod_class.reservation,
            pod.pod_class.is_exclusive,
            chosen_at,
        )

    def _name_operation(self, pod: PodToPlace, node: str) -> str:
        """The same pod on the same node is the same intent, also if it is decided on again after a crash."""
        if not self._settings.operations:
            return ""
        wanted = f"{node}\0{pod.pod_class.reservation}".encode()
        return self._intent.operation("POST", f"{pod.uid}/binding", "", wanted, is_conditional=True)

    def _refuse(self, pod: PendingPod, deciding: Deciding, no: Unschedulable, mark: int, now_ns: int) -> None:
        if no is _ALL_NODES_LEFT_OUT:
            text = self.bindings.give_up_for_now(pod, "no other node fits", deciding.name, now_ns)
            self._records.record_failure(deciding, "NoOtherNode", text)
            return
        pod.left_out = {}
        self.state.queue.park(pod.uid, no.cures, mark, now_ns)
        self._reporter.report(
            PodReport(pod.key, pod.uid, PodConditionReason.UNSCHEDULABLE, render_message(no), deciding.name, no.cause)
        )
        self._records.record_refusal(deciding, no)

    def _fail(self, pod: PendingPod, deciding: Deciding, error: Exception, now_ns: int) -> None:
        self.counts.bugs += 1
        self.counts.attempts[Result.ERROR].add(0, deciding.name)
        self.state.columns.forget(pod.uid)
        self.state.queue.back_off(pod.uid, now_ns)
        text = f"{type(error).__name__}: {error}"
        self._reporter.report(PodReport(pod.key, pod.uid, PodConditionReason.SCHEDULER_ERROR, text, deciding.name))
        self._records.record_failure(deciding, "InternalError", text)
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"failed to schedule pod {pod.key}", "exception": error}
        )
