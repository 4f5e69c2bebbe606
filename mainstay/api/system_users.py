"""Names of the users that the parts of a cluster are. Who has which rights is the server's (server/rbac/)."""

from typing import Final

SCHEDULER: Final = "system:kube-scheduler"
CONTROLLERS: Final = "system:kube-controller-manager"
"""The process that runs the controllers. It fills their caches, and acts as the user of each."""
_NODE: Final = "system:node:"
_CONTROLLER: Final = "system:controller:"


def build_node_user(node: str) -> str:
    """The user that the agent of a node is."""
    return _NODE + node


def find_node(user: str) -> str:
    """The node that a user is named after; empty for all others. Only in the group `system:nodes` is it the agent."""
    return user.removeprefix(_NODE) if user.startswith(_NODE) else ""


def build_controller_user(controller: str) -> str:
    """The user that a controller is when it writes."""
    return _CONTROLLER + controller
