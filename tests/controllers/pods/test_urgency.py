"""Repair of what users depend on goes before clean-up."""

import pytest

from mainstay.controllers.pods.urgency import rank_workload
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
