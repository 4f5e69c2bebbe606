"""Repair of what users depend on goes before clean-up."""

import pytest

from mainstay.api.controller_names import WITH_QUEUE
from mainstay.controllers.job.controller import Jobs
from mainstay.controllers.pods.urgency import rank_workload
from mainstay.controllers.registry import CONTROLLERS, LOOPS
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.loop.queue.items import Priority


@pytest.mark.parametrize(
    ("workload", "priority"),
    [
        ({"spec": {"replicas": 3}, "status": {"availableReplicas": 2}}, Priority.HIGH),
        ({"spec": {"replicas": 3}, "status": {"availableReplicas": 3}}, Priority.NORMAL),
        ({"spec": {}, "status": {}}, Priority.HIGH),
        ({"spec": {"replicas": 0}, "status": {"availableReplicas": 3}}, Priority.BACKGROUND),
        ({"spec": {"replicas": 3}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, Priority.BACKGROUND),
    ],
)
def test_a_workload_that_lacks_available_pods_goes_first_and_one_that_goes_comes_last(workload, priority):
    assert rank_workload({"metadata": {}, **workload}) is priority


def test_sets_and_jobs_say_how_urgent_they_are():
    ended = {"metadata": {}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}

    assert ReplicaSets().priority({"metadata": {}, "spec": {"replicas": 2}}) is Priority.HIGH
    assert Jobs().priority({"metadata": {}, "status": {}}) is Priority.NORMAL
    assert Jobs().priority(ended) is Priority.BACKGROUND


def test_the_api_knows_the_names_of_all_queues():
    periodic = {"node-health", "repair", "pod-garbage"}
    looping = {each.name for each in LOOPS} - periodic

    assert {each.name for each in CONTROLLERS} | looping <= WITH_QUEUE
    assert not periodic & WITH_QUEUE
