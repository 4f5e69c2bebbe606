"""The row of a node."""

from collections.abc import Callable

from mainstay.api.kind import Object
from mainstay.api.tables.fields import flag, mapping, objects, text
from mainstay.api.tables.table import AGE, NAME, filled, of, table, text_at
from mainstay.api.tables.texts import NONE, UNKNOWN

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _status(node: Object) -> str:
    status = "Unknown"
    for condition in objects(node, "status.conditions"):
        if condition.get("type") == "Ready":
            status = "Ready" if condition.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if flag(node, "spec.unschedulable") else status


def _roles(node: Object) -> str:
    roles: dict[str, None] = {}
    for key, value in mapping(node, "metadata.labels").items():
        if key.startswith(_ROLE_PREFIX):
            roles[key.removeprefix(_ROLE_PREFIX)] = None
        elif key == _ROLE_LABEL and isinstance(value, str):
            roles[value] = None
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(named: str) -> Callable[[Object], str]:
    def first(node: Object) -> str:
        found = (text(each, "address") for each in objects(node, "status.addresses") if each.get("type") == named)
        return next(found, NONE)

    return first


TABLES = {
    ("", "Node"): table(
        NAME,
        filled("Status", of(_status), "Whether it is ready, and takes new pods."),
        filled("Roles", of(_roles), "The roles that its labels give it."),
        AGE,
        filled("Version", text_at("status.nodeInfo.kubeletVersion"), "The version of its agent."),
        filled("Internal-IP", of(_address("InternalIP")), "Its address inside the cluster.", wide=True),
        filled("External-IP", of(_address("ExternalIP")), "Its address from outside.", wide=True),
        filled("OS-Image", text_at("status.nodeInfo.osImage", UNKNOWN), "Its operating system.", wide=True),
        filled("Kernel-Version", text_at("status.nodeInfo.kernelVersion", UNKNOWN), "Its kernel.", wide=True),
        filled(
            "Container-Runtime",
            text_at("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
            "What runs its containers.",
            wide=True,
        ),
    )
}
