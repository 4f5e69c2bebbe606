"""How a strategic merge patch treats the fields of built-in kinds: the facts that Kubernetes has in its struct tags.

A list of objects merges by a key if it is here with one; a list of plain values merges as a set if it is here without
one. All other lists are replaced as a whole. Objects merge unless they are here to be replaced. `retainKeys` tells
clients that make patches to say which fields shall remain; the server follows the patch.

One line below is one message: `Container env:name ports:containerPort`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class MergeRule:
    key: str = ""
    """What the elements of a list are told apart by. Empty: they are plain values, and the list is a set."""
    merges: bool = True
    retains_keys: bool = False

    @property
    def strategy(self) -> str:
        """As OpenAPI documents have it in `x-kubernetes-patch-strategy`."""
        if self.merges:
            return "merge,retainKeys" if self.retains_keys else "merge"
        return "retainKeys" if self.retains_keys else "replace"


# A field is followed by its key, if it has one. `+` is merge and retainKeys; `=` is an object that is replaced, `~` one
# that only has retainKeys.
_TEXT: Final = """
k8s.io.apimachinery.pkg.apis.meta.v1
  ObjectMeta ownerReferences:uid finalizers

k8s.io.api.core.v1
  PodSpec containers:name initContainers:name ephemeralContainers:name volumes+:name imagePullSecrets:name
  PodSpec hostAliases:ip topologySpreadConstraints:topologyKey schedulingGates:name resourceClaims+:name
  PodStatus conditions:type podIPs:ip hostIPs:ip resourceClaimStatuses+:name
  Container env:name ports:containerPort volumeMounts:mountPath volumeDevices:devicePath
  EphemeralContainer env:name ports:containerPort volumeMounts:mountPath volumeDevices:devicePath
  EphemeralContainerCommon env:name ports:containerPort volumeMounts:mountPath volumeDevices:devicePath
  ContainerStatus volumeMounts:mountPath allocatedResourcesStatus:name
  ServiceSpec ports:port
  ServiceStatus conditions:type
  ServiceAccount secrets:name
  NodeSpec podCIDRs
  NodeStatus conditions:type addresses:type
  NamespaceStatus conditions:type
  PersistentVolumeClaimStatus conditions:type
  ReplicationControllerStatus conditions:type
  ComponentStatus conditions:type

k8s.io.api.apps.v1
  DeploymentSpec strategy~
  DeploymentStatus conditions:type
  ReplicaSetStatus conditions:type
  DaemonSetStatus conditions:type
  StatefulSetStatus conditions:type

k8s.io.api.batch.v1
  JobStatus conditions:type

k8s.io.api.autoscaling.v2
  HorizontalPodAutoscalerStatus conditions:type

k8s.io.api.policy.v1
  PodDisruptionBudgetSpec selector=
  PodDisruptionBudgetStatus conditions:type

k8s.io.api.networking.v1
  ServiceCIDRStatus conditions:type

k8s.io.api.storage.v1
  CSINodeSpec drivers:name

k8s.io.api.resource.v1
  ResourceClaimStatus reservedFor:uid

k8s.io.api.flowcontrol.v1
  FlowSchemaStatus conditions:type
  PriorityLevelConfigurationStatus conditions:type

k8s.io.api.admissionregistration.v1
  MutatingWebhookConfiguration webhooks:name
  MutatingWebhook matchConditions:name
  ValidatingWebhookConfiguration webhooks:name
  ValidatingWebhook matchConditions:name
  ValidatingAdmissionPolicySpec matchConditions:name variables:name
  MutatingAdmissionPolicySpec matchConditions:name

k8s.io.kube_aggregator.pkg.apis.apiregistration.v1
  APIServiceStatus conditions:type
"""


def _rule(entry: str) -> tuple[str, MergeRule]:
    field, _, key = entry.partition(":")
    name = field.rstrip("+=~")
    mark = field.removeprefix(name)
    return name, MergeRule(key, merges=mark not in ("=", "~"), retains_keys=mark in ("+", "~"))


def _read(text: str) -> Mapping[tuple[str, str], MergeRule]:
    rules: dict[tuple[str, str], MergeRule] = {}
    package = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            package = line
            continue
        message, *entries = line.split()
        for entry in entries:
            field, rule = _rule(entry)
            rules[f"{package}.{message}", field] = rule
    return MappingProxyType(rules)


MERGE_RULES: Final = _read(_TEXT)
"""By message and field."""


def merge_rule(message: str, field: str) -> MergeRule | None:
    """How this field of this message is merged. None: a list is replaced, an object merged."""
    return MERGE_RULES.get((message, field))
