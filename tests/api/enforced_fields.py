"""Which module acts on which field of the kinds that Mainstay enforces, and which one on each kind as a whole.

test_unenforced.py walks the schema with this list: a field must be here, or in the table of what is accepted and not
enforced (mainstay/api/unenforced.py). Modules are below mainstay/, and must name the field.

    message, without its package       module: fields
"""

from collections.abc import Mapping

INFORMATION = ""
"""The module of what is stored for people and programs to read: it promises nothing that could be enforced."""

ENFORCED: Mapping[str, Mapping[str, str]] = {
    "Pod": {"api/kinds/pods.py": "spec"},
    "PodSpec": {
        "agent/pod/volumes.py": "volumes securityContext",
        "agent/pod/attempts.py": "initContainers containers restartPolicy",
        "api/kinds/pods.py": "ephemeralContainers",  # Refused.
        "agent/pod/lifecycle.py": "terminationGracePeriodSeconds activeDeadlineSeconds",
        "api/node_terms.py": "nodeSelector affinity",
        "server/storage/account_admission.py": "serviceAccountName serviceAccount automountServiceAccountToken",
        "server/storage/admission.py": "priorityClassName priority",
        "scheduler/pod_class.py": "nodeName tolerations topologySpreadConstraints",
        "agent/pod/worker.py": "hostNetwork",
        "agent/pod/security.py": "hostPID hostIPC hostUsers",
        "scheduler/cache/feed.py": "schedulerName schedulingGates",
        "agent/pod/conditions.py": "readinessGates",
        "api/pod_resources.py": "overhead resources",
        "agent/pod/admit.py": "os",
    },
    "Volume": {"agent/pod/volumes.py": "name hostPath emptyDir secret downwardAPI configMap projected"},
    "HostPathVolumeSource": {"agent/pod/volumes.py": "path type"},
    "EmptyDirVolumeSource": {},
    "SecretVolumeSource": {"agent/pod/volumes.py": "secretName items defaultMode optional"},
    "ConfigMapVolumeSource": {"agent/pod/volumes.py": "name items defaultMode optional"},
    "KeyToPath": {"agent/pod/volumes.py": "key path mode"},
    "DownwardAPIVolumeSource": {"agent/pod/volumes.py": "items defaultMode"},
    "DownwardAPIVolumeFile": {"agent/pod/volumes.py": "path fieldRef resourceFieldRef mode"},
    "ObjectFieldSelector": {"agent/pod/volumes.py": "fieldPath", INFORMATION: "apiVersion"},
    "ResourceFieldSelector": {"agent/pod/downward.py": "containerName resource divisor"},
    "ProjectedVolumeSource": {"agent/pod/volumes.py": "sources defaultMode"},
    "VolumeProjection": {"agent/pod/volumes.py": "secret downwardAPI configMap serviceAccountToken"},
    "SecretProjection": {"agent/pod/volumes.py": "name items optional"},
    "ConfigMapProjection": {"agent/pod/volumes.py": "name items optional"},
    "DownwardAPIProjection": {"agent/pod/volumes.py": "items"},
    "ServiceAccountTokenProjection": {
        "agent/pod/tokens.py": "audience expirationSeconds",
        "agent/pod/volumes.py": "path",
    },
    "Container": {
        "agent/pod/container_spec.py": "name command args workingDir resources volumeMounts terminationMessagePath "
        "terminationMessagePolicy securityContext stdin tty",
        "agent/pod/attempts.py": "restartPolicy lifecycle",
        "agent/pod/environment.py": "envFrom env",
        "agent/pod/handlers.py": "ports",
        "agent/pod/lifecycle.py": "livenessProbe startupProbe",
        "agent/pod/container_status.py": "readinessProbe",
    },
    "PodSecurityContext": {
        "agent/pod/security.py": "runAsUser runAsGroup supplementalGroups seccompProfile",
        "agent/pod/container_spec.py": "runAsNonRoot",
        "agent/pod/volumes.py": "fsGroup",
        # Containers have no groups of an image, volumes are new, and there is no SELinux.
        INFORMATION: "supplementalGroupsPolicy fsGroupChangePolicy seLinuxChangePolicy",
    },
    "SecurityContext": {
        "agent/pod/security.py": "capabilities privileged readOnlyRootFilesystem allowPrivilegeEscalation "
        "seccompProfile runAsUser runAsGroup",
        "agent/pod/container_spec.py": "runAsNonRoot",
    },
    "Capabilities": {"agent/pod/security.py": "add drop"},
    "SeccompProfile": {"agent/pod/security.py": "type"},
    "ContainerPort": {"agent/pod/handlers.py": "name containerPort", "api/pod_resources.py": "protocol hostIP"},
    "EnvFromSource": {"agent/pod/environment.py": "prefix configMapRef secretRef"},
    "ConfigMapEnvSource": {"agent/pod/environment.py": "name optional"},
    "SecretEnvSource": {"agent/pod/environment.py": "name optional"},
    "EnvVar": {"agent/pod/environment.py": "name value valueFrom"},
    "EnvVarSource": {"agent/pod/environment.py": "fieldRef resourceFieldRef configMapKeyRef secretKeyRef"},
    "ConfigMapKeySelector": {"agent/pod/environment.py": "name key optional"},
    "SecretKeySelector": {"agent/pod/environment.py": "name key optional"},
    "ResourceRequirements": {"agent/pod/container_spec.py": "requests limits", "api/pod_resources.py": "requests"},
    "VolumeMount": {"agent/pod/container_spec.py": "name readOnly mountPath subPath subPathExpr"},
    "Probe": {
        "agent/pod/handlers.py": "exec httpGet tcpSocket",
        "agent/pod/probe_results.py": "initialDelaySeconds timeoutSeconds periodSeconds successThreshold "
        "failureThreshold",
        "agent/pod/lifecycle.py": "terminationGracePeriodSeconds",
    },
    "ExecAction": {"agent/pod/handlers.py": "command"},
    "HTTPGetAction": {"agent/pod/handlers.py": "path port host scheme httpHeaders"},
    "HTTPHeader": {"agent/pod/handlers.py": "name value"},
    "TCPSocketAction": {"agent/pod/handlers.py": "port host"},
    "Lifecycle": {"agent/pod/lifecycle.py": "postStart preStop"},
    "LifecycleHandler": {"agent/pod/handlers.py": "exec httpGet tcpSocket sleep"},
    "SleepAction": {"agent/pod/handlers.py": "seconds"},
    "Affinity": {"api/node_terms.py": "nodeAffinity"},
    "NodeAffinity": {
        "api/node_terms.py": "requiredDuringSchedulingIgnoredDuringExecution "
        "preferredDuringSchedulingIgnoredDuringExecution"
    },
    "NodeSelector": {"api/node_terms.py": "nodeSelectorTerms"},
    "NodeSelectorTerm": {"api/node_terms.py": "matchExpressions matchFields"},
    "NodeSelectorRequirement": {"api/node_terms.py": "key operator values"},
    "PreferredSchedulingTerm": {"api/node_terms.py": "weight preference"},
    "Toleration": {"api/taints.py": "key operator value effect tolerationSeconds"},
    "PodReadinessGate": {"agent/pod/conditions.py": "conditionType"},
    "TopologySpreadConstraint": {
        "scheduler/pod_class.py": "maxSkew topologyKey whenUnsatisfiable labelSelector minDomains nodeAffinityPolicy "
        "nodeTaintsPolicy matchLabelKeys"
    },
    "PodOS": {"agent/pod/admit.py": "name"},
    "PodSchedulingGate": {INFORMATION: "name"},
    # Services.
    "Service": {"server/services/addresses.py": "spec"},
    "ServiceSpec": {
        "controllers/endpoints/routes.py": "ports publishNotReadyAddresses ipFamilies",
        "controllers/endpoints/selectors.py": "selector",
        "server/services/addresses.py": "clusterIP clusterIPs ipFamilyPolicy allocateLoadBalancerNodePorts",
    },
    "ServicePort": {
        "controllers/endpoints/routes.py": "name protocol port targetPort appProtocol",
        "server/services/addresses.py": "nodePort",
    },
    # Workloads.
    "Deployment": {"controllers/deployment/controller.py": "spec"},
    "DeploymentSpec": {
        "controllers/deployment/revisions.py": "replicas selector template minReadySeconds revisionHistoryLimit",
        "controllers/deployment/controller.py": "strategy paused",
        "controllers/deployment/status.py": "progressDeadlineSeconds",
    },
    "DeploymentStrategy": {"controllers/deployment/rolling.py": "type rollingUpdate"},
    "RollingUpdateDeployment": {"controllers/deployment/rolling.py": "maxUnavailable maxSurge"},
    "ReplicaSet": {"controllers/replicaset/controller.py": "spec"},
    "ReplicaSetSpec": {
        "controllers/replicaset/controller.py": "replicas minReadySeconds template",
        "controllers/pods/adoption.py": "selector",
    },
    "Job": {"controllers/job/controller.py": "spec"},
    "JobSpec": {
        "controllers/job/controller.py": "parallelism completions ttlSecondsAfterFinished managedBy",
        "controllers/job/failures.py": "activeDeadlineSeconds successPolicy backoffLimit backoffLimitPerIndex "
        "maxFailedIndexes suspend",
        "controllers/job/failure_policy.py": "podFailurePolicy",
        "controllers/job/indexes.py": "completionMode",
        "controllers/job/pods.py": "template podReplacementPolicy",
        "controllers/pods/adoption.py": "selector",
        "api/kinds/batch.py": "manualSelector",
    },
    "PodFailurePolicy": {"controllers/job/failure_policy.py": "rules"},
    "PodFailurePolicyRule": {"controllers/job/failure_policy.py": "action onExitCodes onPodConditions"},
    "PodFailurePolicyOnExitCodesRequirement": {"controllers/job/failure_policy.py": "containerName operator values"},
    "PodFailurePolicyOnPodConditionsPattern": {"controllers/job/failure_policy.py": "type status"},
    "SuccessPolicy": {"controllers/job/indexes.py": "rules"},
    "SuccessPolicyRule": {"controllers/job/indexes.py": "succeededIndexes succeededCount"},
    # Budgets and quotas.
    "PodDisruptionBudget": {"controllers/budget/controller.py": "spec"},
    "PodDisruptionBudgetSpec": {
        "controllers/budget/controller.py": "minAvailable selector maxUnavailable",
        "server/placement/eviction.py": "unhealthyPodEvictionPolicy",
    },
    "ResourceQuota": {"server/quota/resource_quota.py": "spec"},
    "ResourceQuotaSpec": {"server/quota/resource_quota.py": "hard", "api/quota_usage.py": "scopes scopeSelector"},
    "ScopeSelector": {"api/quota_usage.py": "matchExpressions"},
    "ScopedResourceSelectorRequirement": {"api/quota_usage.py": "scopeName operator values"},
    # Nodes and namespaces.
    "Node": {"server/placement/ledger/nodes.py": "spec"},
    "NodeSpec": {
        "server/placement/ledger/nodes.py": "unschedulable",
        "api/taints.py": "taints",
        INFORMATION: "podCIDR podCIDRs providerID",
    },
    "Taint": {"api/taints.py": "key value effect", INFORMATION: "timeAdded"},
    "Namespace": {"server/storage/writes.py": "spec"},
    "NamespaceSpec": {"server/storage/writes.py": "finalizers"},
    # Others.
    "Secret": {"api/kinds/core.py": "immutable stringData", "agent/pod/environment.py": "data"},
    "ConfigMap": {"api/kinds/core.py": "immutable", "agent/pod/volumes.py": "data binaryData"},
    "ServiceAccount": {"server/storage/account_admission.py": "secrets automountServiceAccountToken"},
    "PriorityClass": {"server/storage/priority_classes.py": "value globalDefault", INFORMATION: "description"},
    "Lease": {"loop/lease.py": "spec"},
    "LeaseSpec": {"loop/lease.py": "holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions"},
    "Endpoints": {},
    "EndpointSlice": {"controllers/endpoints/slices.py": "addressType endpoints ports"},
    "Endpoint": {
        "controllers/endpoints/routes.py": "addresses conditions hostname targetRef nodeName zone",
        INFORMATION: "deprecatedTopology",
    },
    "EndpointConditions": {"controllers/endpoints/routes.py": "ready serving terminating"},
    "EndpointPort": {"controllers/endpoints/routes.py": "name protocol port appProtocol"},
}

WHOLE = frozenset({"ObjectMeta", "LabelSelector", "EphemeralContainer", "PodTemplateSpec", "ObjectReference"})
"""Messages that are acted on as a whole, or that have a test of their own."""

KINDS: Mapping[str, str] = {
    "namespaces": "controllers/namespace/loop.py",
    "configmaps": "agent/pod/environment.py",
    "secrets": "agent/pod/environment.py",
    "serviceaccounts": "controllers/service_account/controller.py",
    "nodes": "controllers/node_health/loop.py",
    "pods": "scheduler/cycle.py",
    "podtemplates": INFORMATION,
    "resourcequotas": "server/quota/resource_quota.py",
    "services": "controllers/endpoints/slices.py",
    "endpoints": "controllers/endpoints/endpoints.py",
    "endpointslices.discovery.k8s.io": "controllers/endpoints/slices.py",
    "deployments.apps": "controllers/deployment/controller.py",
    "replicasets.apps": "controllers/replicaset/controller.py",
    "horizontalpodautoscalers.autoscaling": "controllers/autoscaler/loop.py",
    "controllerrevisions.apps": INFORMATION,
    "jobs.batch": "controllers/job/controller.py",
    "poddisruptionbudgets.policy": "controllers/budget/controller.py",
    "events": INFORMATION,
    "events.events.k8s.io": INFORMATION,
    "leases.coordination.k8s.io": "loop/lease.py",
    "priorityclasses.scheduling.k8s.io": "server/storage/priority_classes.py",
    "roles.rbac.authorization.k8s.io": "server/rbac/service.py",
    "clusterroles.rbac.authorization.k8s.io": "server/rbac/service.py",
    "rolebindings.rbac.authorization.k8s.io": "server/rbac/service.py",
    "clusterrolebindings.rbac.authorization.k8s.io": "server/rbac/service.py",
    "customresourcedefinitions.apiextensions.k8s.io": "server/crd/definitions.py",
    "mutatingadmissionpolicies.admissionregistration.k8s.io": "server/policies/mutation.py",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": "server/policies/mutating_policies.py",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "server/policies/evaluation.py",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "server/policies/admission_policies.py",
    "flowschemas.flowcontrol.apiserver.k8s.io": "server/flow/schemas.py",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "server/flow/configuration.py",
    "certificatesigningrequests.certificates.k8s.io": "server/auth/signing_point.py",
    "credentials.mainstay.dev": "server/auth/revocation.py",
    "reservations.mainstay.dev": "server/placement/reservations.py",
    "zonequotas.mainstay.dev": "server/quota/zone_quota.py",
    "placementpolicies.mainstay.dev": "scheduler/policy.py",
    "policyrollouts.mainstay.dev": "controllers/policy_rollout/controller.py",
    "componentstates.mainstay.dev": INFORMATION,
    "controllersettings.mainstay.dev": "loop/queue_settings.py",
    "holds.mainstay.dev": "loop/holds.py",
    "servicelevelobjectives.mainstay.dev": "controllers/objectives/controller.py",
    "samplingpolicies.mainstay.dev": "server/decisions/sampling_rules.py",
}
"""The module that acts on a kind."""
