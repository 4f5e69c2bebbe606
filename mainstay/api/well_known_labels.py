"""Labels and taint keys whose meaning Kubernetes fixes."""

from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"
OS: Final = "kubernetes.io/os"
ARCHITECTURE: Final = "kubernetes.io/arch"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
HASH_LABEL: Final = "pod-template-hash"
"""On a pod and its ReplicaSet: which template of the Deployment they were made from."""
SERVICE_NAME: Final = "kubernetes.io/service-name"
JOB_NAME: Final = "batch.kubernetes.io/job-name"

NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
