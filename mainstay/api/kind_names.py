"""The name of every built-in kind, once. A declaration (mainstay/api/kinds) begins with its name from here.

Clients, caches and controllers need only the name, so this module stays cheap to import. Shared: add to it, and never
change one.
"""

from typing import Final

from mainstay.api.kind_name import KindName

NAMESPACES: Final = KindName("", "v1", "Namespace", "namespaces", False)
CONFIG_MAPS: Final = KindName("", "v1", "ConfigMap", "configmaps", True)
SECRETS: Final = KindName("", "v1", "Secret", "secrets", True)
SERVICE_ACCOUNTS: Final = KindName("", "v1", "ServiceAccount", "serviceaccounts", True)
NODES: Final = KindName("", "v1", "Node", "nodes", False)
RUNTIME_CLASSES: Final = KindName("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False)
PODS: Final = KindName("", "v1", "Pod", "pods", True)
POD_TEMPLATES: Final = KindName("", "v1", "PodTemplate", "podtemplates", True)
RESOURCE_QUOTAS: Final = KindName("", "v1", "ResourceQuota", "resourcequotas", True)
LIMIT_RANGES: Final = KindName("", "v1", "LimitRange", "limitranges", True)
SERVICES: Final = KindName("", "v1", "Service", "services", True)
ENDPOINTS: Final = KindName("", "v1", "Endpoints", "endpoints", True)
ENDPOINT_SLICES: Final = KindName("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True)
PERSISTENT_VOLUMES: Final = KindName("", "v1", "PersistentVolume", "persistentvolumes", False)
PERSISTENT_VOLUME_CLAIMS: Final = KindName("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True)
STORAGE_CLASSES: Final = KindName("storage.k8s.io", "v1", "StorageClass", "storageclasses", False)
CSI_NODES: Final = KindName("storage.k8s.io", "v1", "CSINode", "csinodes", False)
CSI_DRIVERS: Final = KindName("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False)
CSI_STORAGE_CAPACITIES: Final = KindName("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True)
VOLUME_ATTACHMENTS: Final = KindName("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False)
VOLUME_ATTRIBUTES_CLASSES: Final = KindName(
    "storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", False
)
DEPLOYMENTS: Final = KindName("apps", "v1", "Deployment", "deployments", True)
REPLICASETS: Final = KindName("apps", "v1", "ReplicaSet", "replicasets", True)
STATEFUL_SETS: Final = KindName("apps", "v1", "StatefulSet", "statefulsets", True)
DAEMON_SETS: Final = KindName("apps", "v1", "DaemonSet", "daemonsets", True)
CONTROLLER_REVISIONS: Final = KindName("apps", "v1", "ControllerRevision", "controllerrevisions", True)
REPLICATION_CONTROLLERS: Final = KindName("", "v1", "ReplicationController", "replicationcontrollers", True)
JOBS: Final = KindName("batch", "v1", "Job", "jobs", True)
CRON_JOBS: Final = KindName("batch", "v1", "CronJob", "cronjobs", True)
AUTOSCALERS: Final = KindName("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True)
AUTOSCALERS_V1: Final = KindName("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True)
DISRUPTION_BUDGETS: Final = KindName("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True)
EVENTS: Final = KindName("", "v1", "Event", "events", True)
EVENTS_K8S_IO: Final = KindName("events.k8s.io", "v1", "Event", "events", True)
LEASES: Final = KindName("coordination.k8s.io", "v1", "Lease", "leases", True)
PRIORITY_CLASSES: Final = KindName("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False)
FLOW_SCHEMAS: Final = KindName("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", False)
PRIORITY_LEVELS: Final = KindName(
    "flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", False
)
ROLES: Final = KindName("rbac.authorization.k8s.io", "v1", "Role", "roles", True)
CLUSTER_ROLES: Final = KindName("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False)
ROLE_BINDINGS: Final = KindName("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True)
CLUSTER_ROLE_BINDINGS: Final = KindName(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False
)
SIGNING_REQUESTS: Final = KindName(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False
)
INGRESSES: Final = KindName("networking.k8s.io", "v1", "Ingress", "ingresses", True)
INGRESS_CLASSES: Final = KindName("networking.k8s.io", "v1", "IngressClass", "ingressclasses", False)
NETWORK_POLICIES: Final = KindName("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True)
DEVICE_CLASSES: Final = KindName("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False)
RESOURCE_CLAIMS: Final = KindName("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True)
RESOURCE_CLAIM_TEMPLATES: Final = KindName(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True
)
RESOURCE_SLICES: Final = KindName("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False)
MUTATING_ADMISSION_POLICIES: Final = KindName(
    "admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", False
)
MUTATING_ADMISSION_POLICY_BINDINGS: Final = KindName(
    "admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", False
)
VALIDATING_ADMISSION_POLICIES: Final = KindName(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False
)
VALIDATING_ADMISSION_POLICY_BINDINGS: Final = KindName(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False
)
DEFINITIONS: Final = KindName(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
RESERVATIONS: Final = KindName("mainstay.dev", "v1", "Reservation", "reservations", True)
ZONE_QUOTAS: Final = KindName("mainstay.dev", "v1", "ZoneQuota", "zonequotas", True)
PLACEMENT_POLICIES: Final = KindName("mainstay.dev", "v1", "PlacementPolicy", "placementpolicies", False)
POLICY_ROLLOUTS: Final = KindName("mainstay.dev", "v1", "PolicyRollout", "policyrollouts", False)
CREDENTIALS: Final = KindName("mainstay.dev", "v1", "Credential", "credentials", False)
COMPONENT_STATES: Final = KindName("mainstay.dev", "v1", "ComponentState", "componentstates", False)
HOLDS: Final = KindName("mainstay.dev", "v1", "Hold", "holds", False)
SERVICE_LEVEL_OBJECTIVES: Final = KindName(
    "mainstay.dev", "v1", "ServiceLevelObjective", "servicelevelobjectives", True
)
CONTROLLER_SETTINGS: Final = KindName("mainstay.dev", "v1", "ControllerSettings", "controllersettings", False)
SAMPLING_POLICIES: Final = KindName("mainstay.dev", "v1", "SamplingPolicy", "samplingpolicies", False)
DECISIONS: Final = KindName("mainstay.dev", "v1", "Decision", "decisions", True)
POD_BINDINGS: Final = KindName("", "v1", "Binding", "bindings", True)
BINDINGS: Final = KindName("mainstay.dev", "v1", "Binding", "bindings", False)
TOKEN_REVIEWS: Final = KindName("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False)
SELF_SUBJECT_REVIEWS: Final = KindName("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False)
LOCAL_SUBJECT_ACCESS_REVIEWS: Final = KindName(
    "authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = KindName(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False
)
SELF_SUBJECT_RULES_REVIEWS: Final = KindName(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False
)
SUBJECT_ACCESS_REVIEWS: Final = KindName(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False
)
