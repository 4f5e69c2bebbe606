"""The rows of small kinds that hold something or set a limit: namespaces, data, quotas, classes, leases."""

from collections.abc import Callable

from mainstay.api.kind import Object
from mainstay.api.tables.fields import condition, mapping, text
from mainstay.api.tables.table import (
    AGE,
    DEFAULT,
    NAME,
    count_at,
    filled,
    flag_at,
    of,
    of_field,
    pod_columns,
    table,
    text_at,
    whole_at,
)
from mainstay.api.tables.texts import container_images, container_names, labels, quantity


def _quotas(*, limits: bool) -> Callable[[Object], str]:
    def write(quota: Object) -> str:
        used, hard = mapping(quota, "status.used"), mapping(quota, "status.hard")
        names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {quantity(used.get(name))}/{quantity(hard[name])}" for name in names)

    return write


def _health(component: Object) -> str:
    healthy = condition(component, "Healthy", "conditions")
    if healthy is None:
        return "Unknown"
    return "Healthy" if healthy.get("status") == "True" else "Unhealthy"


def _of_health(named: str) -> Callable[[Object], str]:
    return lambda component: text(condition(component, "Healthy", "conditions"), named)


_REPLICATION_CONTROLLER = table(
    NAME,
    filled("Desired", whole_at("spec.replicas", 1), "How many pods it should have.", holds="integer"),
    filled("Current", whole_at("status.replicas"), "How many it has.", holds="integer"),
    filled("Ready", whole_at("status.readyReplicas"), "How many of these are ready.", holds="integer"),
    AGE,
    *pod_columns("spec.template"),
    filled("Selector", of_field("spec.selector", labels), "Which pods belong to it.", wide=True),
)

TABLES = {
    ("", "Namespace"): table(NAME, filled("Status", text_at("status.phase"), "Active or Terminating."), AGE),
    ("", "ConfigMap"): table(NAME, filled("Data", count_at("data", "binaryData"), "How many entries it has."), AGE),
    ("", "Secret"): table(
        NAME,
        filled("Type", text_at("type"), "What it is meant for."),
        filled("Data", count_at("data"), "How many entries it has."),
        AGE,
    ),
    ("", "ServiceAccount"): table(NAME, AGE),
    ("", "LimitRange"): DEFAULT,
    ("", "ResourceQuota"): table(
        NAME,
        filled("Request", of(_quotas(limits=False)), "Used, of what is allowed: requests and objects."),
        filled("Limit", of(_quotas(limits=True)), "Used, of what is allowed: limits."),
        AGE,
    ),
    ("", "PodTemplate"): table(
        NAME,
        filled("Containers", of_field("template", container_names), "The containers in the template."),
        filled("Images", of_field("template", container_images), "The images of these containers."),
        filled("Pod Labels", of_field("template.metadata.labels", labels), "The labels that pods get."),
    ),
    ("", "ReplicationController"): _REPLICATION_CONTROLLER,
    ("", "ComponentStatus"): table(
        NAME,
        filled("Status", of(_health), "Whether the component is healthy."),
        filled("Message", of(_of_health("message")), "What it says about that."),
        filled("Error", of(_of_health("error")), "What went wrong asking it."),
    ),
    ("coordination.k8s.io", "Lease"): table(
        NAME, filled("Holder", text_at("spec.holderIdentity"), "Who holds it."), AGE
    ),
    ("coordination.k8s.io", "LeaseCandidate"): table(
        NAME,
        filled("LeaseName", text_at("spec.leaseName"), "The lease it would hold."),
        filled("BinaryVersion", text_at("spec.binaryVersion"), "The version of its program."),
        filled("EmulationVersion", text_at("spec.emulationVersion"), "The version it behaves as."),
        AGE,
    ),
    ("scheduling.k8s.io", "PriorityClass"): table(
        NAME,
        filled("Value", whole_at("value"), "The priority of its pods.", holds="integer"),
        filled("Global-Default", flag_at("globalDefault"), "Whether pods without a class get it.", holds="boolean"),
        AGE,
        filled("PreemptionPolicy", text_at("preemptionPolicy"), "Whether its pods may take the room of others."),
    ),
    ("node.k8s.io", "RuntimeClass"): table(
        NAME, filled("Handler", text_at("handler"), "What runs the containers of its pods."), AGE
    ),
}
