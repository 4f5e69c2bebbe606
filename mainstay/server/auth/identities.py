"""Who the components of a cluster are. Each has the rights of its bootstrap role (rbac/bootstrap_policy.py) alone.

Only the administrator is in `system:masters`. Each controller writes as a user of its own, which the process that runs
them impersonates. They are users and no service accounts, as they are in Kubernetes: a service account can be had by
all who may run a pod in its namespace.
"""

from typing import Final

from mainstay.api import system_users
from mainstay.api.controller_names import WITH_QUEUE, WITHOUT_QUEUE
from mainstay.server.auth.authorization import MASTERS, NODES, User

ADMINISTRATOR: Final = User("kubernetes-admin", (MASTERS,))
SCHEDULER: Final = User(system_users.SCHEDULER, ())
CONTROLLERS: Final = User(system_users.CONTROLLERS, ())

FILES: Final = {"admin": ADMINISTRATOR, "scheduler": SCHEDULER, "controllers": CONTROLLERS}
"""For whom a server makes credentials in its data directory, by how the names of these files begin."""


def build_node_user(node: str) -> User:
    """The user that the agent of a node is."""
    return User(system_users.build_node_user(node), (NODES,))


def build_controller_user(controller: str) -> User:
    """The user that a controller is when it writes."""
    return User(system_users.build_controller_user(controller), ())


CONTROLLER_USERS: Final = tuple(build_controller_user(name) for name in sorted(WITH_QUEUE | WITHOUT_QUEUE))
