"""The scheduler's numbers, under Kubernetes' names where it has them: dashboards and alerts made for it go on working.

`profile` is the name that pods call the scheduler by: the first of ours. What comes with any component (caches, client,
leadership) is there as well.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from mainstay.loop.metrics import ComponentMetrics
from mainstay.scheduler.component import Scheduler
from mainstay.scheduler.queue.pod_states import PodState

_SHOWN = (PodState.ACTIVE, PodState.BACKING_OFF, PodState.UNSCHEDULABLE, PodState.GATED)


class SchedulerMetrics(ComponentMetrics):
    """`render` gives all of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        yield from self._attempts()
        yield from self._pending()
        yield from self._bindings()
        yield from self._policies()
        yield from super().collect()

    def _attempts(self) -> Iterator[Metric]:
        counts, profile = self._scheduler.counts, self._scheduler.settings.names[0]
        attempts = CounterMetricFamily(
            "scheduler_schedule_attempts", "Attempts to schedule pods, by result.", labels=("profile", "result")
        )
        durations = HistogramMetricFamily(
            "scheduler_scheduling_attempt_duration_seconds",
            "Deciding and binding, by result.",
            labels=("profile", "result"),
        )
        for result, histogram in counts.attempts.items():
            attempts.add_metric((profile, result), histogram.count)
            durations.add_metric((profile, result), histogram.cumulated(), histogram.total_s)
        yield attempts
        yield durations
        deciding = HistogramMetricFamily("scheduler_scheduling_algorithm_duration_seconds", "Deciding for one pod.")
        deciding.add_metric((), counts.deciding.cumulated(), counts.deciding.total_s)
        yield deciding
        waits = HistogramMetricFamily(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from entering the queue to being bound, by the number of attempts.",
            labels=("attempts",),
        )
        for attempts_made, histogram in sorted(counts.waits.items()):
            waits.add_metric((str(attempts_made),), histogram.cumulated(), histogram.total_s)
        yield waits

    def _pending(self) -> Iterator[Metric]:
        cycle = self._scheduler.cycle
        pending = GaugeMetricFamily("scheduler_pending_pods", "Pods without a node, by queue.", labels=("queue",))
        incoming = CounterMetricFamily(
            "scheduler_queue_incoming_pods", "Pods added to a queue, by event.", labels=("queue", "event")
        )
        sizes = GaugeMetricFamily(
            "scheduler_cache_size", "Objects in the scheduler's cache, by type.", labels=("type",)
        )
        if cycle is not None:
            known = cycle.state
            for state in _SHOWN:
                pending.add_metric((state,), known.pods.count(state))
            for (event, state), count in sorted(known.queue.incoming.counts.items()):
                incoming.add_metric((state, event), count)
            sizes.add_metric(("nodes",), len(known.columns.ring))
            sizes.add_metric(("assumed_pods",), len(known.pods.assumed))
            sizes.add_metric(("haunted_nodes",), len(cycle.bindings.unconfirmed))
        yield from (pending, incoming, sizes)

    def _policies(self) -> Iterator[Metric]:
        counts = self._scheduler.counts
        decisions = CounterMetricFamily(
            "mainstay_scheduler_policy_decisions",
            "Decisions by placement policy, since the scheduler has its revision.",
            labels=("policy", "result"),
        )
        refused = CounterMetricFamily(
            "mainstay_scheduler_policy_bindings_refused",
            "Bindings that the API server rejected, by placement policy.",
            labels=("policy",),
        )
        shadows = CounterMetricFamily(
            "mainstay_scheduler_shadow_decisions",
            "Decisions by placement policies in shadow, compared with those by the policy that applied.",
            labels=("policy", "result"),
        )
        for each in counts.policies.all():
            decisions.add_metric((each.policy, "placed"), each.placed)
            decisions.add_metric((each.policy, "unschedulable"), each.unschedulable)
            refused.add_metric((each.policy,), each.refused_at_commit)
            if each.shadowed or each.shadow_errors:
                shadows.add_metric((each.policy, "same"), each.shadowed - each.shadow_different)
                shadows.add_metric((each.policy, "different"), each.shadow_different - each.shadow_unplaced)
                shadows.add_metric((each.policy, "unplaced"), each.shadow_unplaced)
                shadows.add_metric((each.policy, "error"), each.shadow_errors)
        yield from (decisions, refused, shadows)
        durations = HistogramMetricFamily(
            "mainstay_scheduler_shadow_duration_seconds", "Deciding for one pod by a placement policy in shadow."
        )
        durations.add_metric((), counts.shadowing.cumulated(), counts.shadowing.total_s)
        yield durations

    def _bindings(self) -> Iterator[Metric]:
        counts = self._scheduler.counts
        refused = CounterMetricFamily(
            "mainstay_scheduler_bindings_refused", "Bindings that the API server rejected, by cause.", labels=("cause",)
        )
        for cause, count in sorted(counts.refused.items()):
            refused.add_metric((cause,), count)
        yield refused
        yield CounterMetricFamily("mainstay_scheduler_bindings_unknown", "Bindings without an answer.", counts.unknown)
        yield CounterMetricFamily("mainstay_scheduler_bugs", "Decisions that raised.", counts.bugs)
        rechecks = CounterMetricFamily(
            "mainstay_scheduler_rechecks", "Decisions repeated from the view, to compare.", labels=("result",)
        )
        rechecks.add_metric(("same",), counts.rechecked - counts.disagreements)
        rechecks.add_metric(("different",), counts.disagreements)
        yield rechecks
