"""The names of the kinds that controllers read and write. Shared: add to them, and never change one."""

from typing import Final

from mainstay.api.kind_name import KindName

PODS: Final = KindName("", "v1", "Pod", "pods", True)
NODES: Final = KindName("", "v1", "Node", "nodes", False)
NAMESPACES: Final = KindName("", "v1", "Namespace", "namespaces", False)
SERVICES: Final = KindName("", "v1", "Service", "services", True)
SERVICE_ACCOUNTS: Final = KindName("", "v1", "ServiceAccount", "serviceaccounts", True)
CONFIG_MAPS: Final = KindName("", "v1", "ConfigMap", "configmaps", True)
ENDPOINTS: Final = KindName("", "v1", "Endpoints", "endpoints", True)
EVENTS: Final = KindName("", "v1", "Event", "events", True)
RESOURCE_QUOTAS: Final = KindName("", "v1", "ResourceQuota", "resourcequotas", True)
REPLICASETS: Final = KindName("apps", "v1", "ReplicaSet", "replicasets", True)
DEPLOYMENTS: Final = KindName("apps", "v1", "Deployment", "deployments", True)
STATEFUL_SETS: Final = KindName("apps", "v1", "StatefulSet", "statefulsets", True)
REPLICATION_CONTROLLERS: Final = KindName("", "v1", "ReplicationController", "replicationcontrollers", True)
JOBS: Final = KindName("batch", "v1", "Job", "jobs", True)
ENDPOINT_SLICES: Final = KindName("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True)
DISRUPTION_BUDGETS: Final = KindName("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True)
LEASES: Final = KindName("coordination.k8s.io", "v1", "Lease", "leases", True)
RESERVATIONS: Final = KindName("mainstay.dev", "v1", "Reservation", "reservations", True)
ZONE_QUOTAS: Final = KindName("mainstay.dev", "v1", "ZoneQuota", "zonequotas", True)
