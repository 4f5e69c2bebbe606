"""The numbers of a scheduler, by the names that Kubernetes gives them."""

from datetime import timedelta

from prometheus_client.parser import text_string_to_metric_families

from mainstay.env import tasks
from mainstay.loop.histogram import Histogram
from mainstay.scheduler.metrics import SchedulerMetrics
from tests.scheduler.running import a_scheduler


async def test_pods_and_attempts_are_counted(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        await running.add_pod("fits", cpu="1")
        await running.bound("fits")
        await running.add_pod("does-not", cpu="2")
        await running.add_pod("held", schedulingGates=[{"name": "example.com/quota"}])
        await tasks.sleep(timedelta(seconds=5))

        families = text_string_to_metric_families(SchedulerMetrics(running.scheduler).render().decode())
        found = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

        def attempts(result: str) -> float:
            labels = (("profile", "default-scheduler"), ("result", result))
            return found["scheduler_schedule_attempts_total", *labels]

        assert (attempts("scheduled"), attempts("unschedulable")) == (1, 1)
        pending = {
            queue: found["scheduler_pending_pods", ("queue", queue)]
            for queue in ("active", "backoff", "unschedulable", "gated")
        }
        assert pending == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1}
        assert found["scheduler_pod_scheduling_sli_duration_seconds_count", ("attempts", "1")] == 1
        assert found["scheduler_queue_incoming_pods_total", ("event", "PodAdd"), ("queue", "active")] == 2
        assert found["mainstay_cache_objects", ("kind", "pods")] == 3


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram((0.001, 0.01))
    for milliseconds in (1, 5, 50):
        histogram.add(milliseconds * 1_000_000)

    assert histogram.cumulated() == [("0.001", 1.0), ("0.01", 2.0), ("+Inf", 3.0)]
