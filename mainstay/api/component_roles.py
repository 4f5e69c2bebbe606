"""What part of a control plane a process is, as its ComponentState says (`status.role`). On the wire: only add.

A rollout of a policy waits for every process that has one of these. Programs of users that run controllers of their own
publish a ComponentState without a role: they need not know placement policies.
"""

from enum import StrEnum


class ComponentRole(StrEnum):
    API_SERVER = "apiserver"
    SCHEDULER = "scheduler"
    CONTROLLERS = "controllers"
