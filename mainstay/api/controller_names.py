"""The controllers of Mainstay, by name. A ControllerSettings object can be about those that have a work queue.

The API cannot ask the controllers: it does not import them, and they run in other processes. A test sees to it that all
of the table of controllers (controllers/registry.py) are here. A controller of a user's own may have any other name.
"""

from typing import Final

WITH_QUEUE: Final = frozenset(
    {
        "deployment",
        "deployment-progress",
        "disruption-budget",
        "endpoint-slice",
        "endpoints",
        "holds",
        "horizontal-pod-autoscaler",
        "job",
        "job-progress",
        "namespace",
        "owner-cleanup",
        "policy-rollout",
        "replicaset",
        "replicaset-progress",
        "root-ca",
        "service-level-objective",
        "serviceaccount",
        "serving",
    }
)

WITHOUT_QUEUE: Final = frozenset({"node-health", "pod-garbage", "repair"})
"""Those that look at everything periodically."""
