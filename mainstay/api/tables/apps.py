"""The rows of what keeps pods running."""

from mainstay.api.kind import Object
from mainstay.api.tables.fields import objects, text, whole
from mainstay.api.tables.table import (
    AGE,
    NAME,
    filled,
    of,
    of_field,
    pod_columns,
    progress_columns,
    selector_column,
    table,
    whole_at,
)
from mainstay.api.tables.texts import NONE, labels, selector

_REPLICAS_DEFAULT = 1


def _ready(found: Object) -> str:
    return f"{whole(found, 'status.readyReplicas')}/{whole(found, 'spec.replicas', _REPLICAS_DEFAULT)}"


def _controller(revision: Object) -> str:
    """The owner that controls it, such as `statefulset.apps/web`."""
    owners = objects(revision, "metadata.ownerReferences")
    owner = next((each for each in owners if each.get("controller") is True), None)
    if owner is None:
        return NONE
    group, slash, _ = text(owner, "apiVersion").rpartition("/")
    kind = text(owner, "kind") + (f".{group}" if slash else "")
    return f"{kind.lower()}/{text(owner, 'name')}"


_READY = filled("Ready", of(_ready), "How many pods are ready, of how many it should have.")
_PODS = pod_columns("spec.template")

TABLES = {
    ("apps", "Deployment"): table(
        NAME,
        _READY,
        filled("Up-to-date", whole_at("status.updatedReplicas"), "How many pods have the newest template."),
        filled("Available", whole_at("status.availableReplicas"), "How many have been ready long enough."),
        AGE,
        *_PODS,
        filled(
            "Selector",
            of_field("spec.selector", lambda found: selector(found, empty="", broken="<invalid>")),
            "Which pods belong to it.",
            wide=True,
        ),
        *progress_columns(),
    ),
    ("apps", "ReplicaSet"): table(
        NAME,
        filled("Desired", whole_at("spec.replicas", _REPLICAS_DEFAULT), "How many pods it needs.", holds="integer"),
        filled("Current", whole_at("status.replicas"), "How many it has.", holds="integer"),
        filled("Ready", whole_at("status.readyReplicas"), "How many of these are ready.", holds="integer"),
        AGE,
        *_PODS,
        selector_column("spec.selector"),
        *progress_columns(),
    ),
    ("apps", "StatefulSet"): table(NAME, _READY, AGE, *_PODS),
    ("apps", "DaemonSet"): table(
        NAME,
        filled("Desired", whole_at("status.desiredNumberScheduled"), "How many nodes should run it.", holds="integer"),
        filled("Current", whole_at("status.currentNumberScheduled"), "How many of these have a pod.", holds="integer"),
        filled("Ready", whole_at("status.numberReady"), "How many of these are ready.", holds="integer"),
        filled(
            "Up-to-date",
            whole_at("status.updatedNumberScheduled"),
            "How many pods have the newest template.",
            holds="integer",
        ),
        filled("Available", whole_at("status.numberAvailable"), "How many are ready long enough.", holds="integer"),
        filled("Node Selector", of_field("spec.template.spec.nodeSelector", labels), "The nodes it is meant for."),
        AGE,
        *_PODS,
        selector_column("spec.selector"),
    ),
    ("apps", "ControllerRevision"): table(
        NAME,
        filled("Controller", of(_controller), "What it is a revision of."),
        filled("Revision", whole_at("revision"), "Its number."),
        AGE,
    ),
}
