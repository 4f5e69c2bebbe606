"""Fields of ours in the messages of Kubernetes, written as those are (schema.py). On the wire they are in no message.

`status.progress` is how far a workload has come (progress.py). `cause` of a condition is a code for what Kubernetes'
reason leaves open: that is always `FailedCreate`, and only the message tells whether it is for a quota.
`missing` is what a container waits for that does not exist: `Secret/db`, `ConfigMap/settings/level` (a key in it).
`scheduledAt` of the conditions `PodScheduled` and `SchedulingRetrying` of a pod is when its scheduler chose the node.
`replicaSet` of a Deployment's condition is the set whose rollout it tells of.
Clients that do not know them leave them alone.
"""

from typing import Final

PACKAGES: Final = {
    "mainstay.v1": """
Progress observedGeneration!:1:int64 desired!:2:int32 admitted!:3:int32 pending!:4:int32 bound!:5:int32
 starting!:6:int32 ready!:7:int32 serving!:8:int32 succeeded!:9:int32 pendingReasons:10:*ProgressReason
 lastAction!:11:ProgressAction lastError!:12:ProgressError deadline!:13:ProgressDeadline
 limitedBy!:14:ProgressLimit verdict:15
ProgressAction action:1 object:2 outcome:3 at:4
ProgressDeadline state:1 at:2
ProgressError reason:1 message:2 at:3
ProgressLimit stage:1 component:2 reason:3 message:4 count:5:int32 cause:6
ProgressReason reason:1 count:2:int32 message:3
""",
}
ADDED: Final = {
    "k8s.io.api.apps.v1": {
        "DeploymentCondition": "cause:0 replicaSet:0",
        "DeploymentStatus": "progress!:0:mainstay.v1.Progress",
        "ReplicaSetCondition": "cause:0",
        "ReplicaSetStatus": "progress!:0:mainstay.v1.Progress",
    },
    "k8s.io.api.batch.v1": {"JobStatus": "progress!:0:mainstay.v1.Progress"},
    "k8s.io.api.core.v1": {"ContainerStateWaiting": "missing:0", "PodCondition": "cause:0 scheduledAt:0"},
}
"""By package and message: the fields that it has besides its own."""
