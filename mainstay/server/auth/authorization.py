"""Who is asking, and may they?

Until roles are evaluated: members of `system:masters` have full access; nodes (`system:node:NAME` in `system:nodes`)
may what an agent needs; authenticated users may ask about themselves; others, and anonymous ones, may look at health
and version.
"""

from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.errors import StatusError, StatusReason, object_details, qualified
from mainstay.server.request.target import RequestTarget

MASTERS: Final = "system:masters"
NODES: Final = "system:nodes"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MONITORING: Final = "system:monitoring"
NODE_LEASES: Final = "kube-node-lease"
"""The namespace of the leases of nodes."""
_AGENT: Final = "system:node:"

# What an agent does: it reads what is bound to it and what that needs, and writes about itself and its pods.
_NODE_READS: Final = frozenset(
    {"nodes", "pods", "services", "endpoints", "endpointslices", "configmaps", "secrets", "serviceaccounts", "leases"}
    | {"persistentvolumeclaims", "persistentvolumes", "csidrivers", "csinodes", "runtimeclasses", "namespaces"}
)
_SEEN_ONE_BY_ONE: Final = frozenset({"secrets"})  # A user who may list them has them all.
_NODE_CHANGES: Final = ("create", "patch", "update")


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What else is known of them, by name, such as the pod that a service account's token is bound to."""

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    def info(self) -> dict[str, Any]:
        """As reviews and the audit log show it."""
        shown: dict[str, Any] = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {name: list(values) for name, values in self.extra}
        return shown


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class AccessAttributes:
    """What a user would like to do, in the words of an access review."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    subresource: str

    @classmethod
    def of(cls, target: RequestTarget) -> "AccessAttributes":
        kind = target.kind
        return cls(str(target.verb), kind.group, kind.plural, target.namespace, target.name, target.subresource)


def may(user: User, action: AccessAttributes) -> bool:
    if user.is_master:
        return True
    node = agent_in(user)
    if node:
        return _node_may(node, action)
    return action.resource in ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews") and (
        AUTHENTICATED in user.groups
    )


def agent_in(user: User) -> str:
    """The node whose agent this user is; empty for all other users."""
    is_agent = user.name.startswith(_AGENT) and NODES in user.groups
    return user.name.removeprefix(_AGENT) if is_agent else ""


def _node_may(node: str, action: AccessAttributes) -> bool:
    """By name alone. Whether a pod is bound to that node, and the like, is for node_restriction.py."""
    if action.subresource == "ghosts":
        return action.name == node
    if action.verb in ("get", "list", "watch"):
        if action.resource in _SEEN_ONE_BY_ONE and action.verb != "get":
            return False
        # Not the log of a pod, or a command in it: to get these is to do something.
        return action.resource in _NODE_READS and action.subresource in ("", "status")
    match action.resource:
        case "pods":
            is_status = action.subresource == "status" and action.verb in ("patch", "update")
            return is_status or (action.verb == "delete" and not action.subresource)
        case "nodes" | "csinodes":
            return action.verb in _NODE_CHANGES and action.name in ("", node)
        case "leases":
            is_own = action.namespace == NODE_LEASES and action.name in ("", node)
            return is_own and action.verb in (*_NODE_CHANGES, "delete")
        case "serviceaccounts":
            return action.subresource == "token" and action.verb == "create"
        case "events" | "componentstates":
            return action.verb in _NODE_CHANGES
        case _:
            return False


def require(user: User, target: RequestTarget) -> None:
    """Raise unless the user may do this."""
    if user.is_master:  # The hot path: nothing else has to be looked at.
        return
    action = AccessAttributes.of(target)
    if may(user, action):
        return
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    where = f' in the namespace "{action.namespace}"' if action.namespace else " at the cluster scope"
    shown = f' "{action.name}"' if action.name else ""
    raise StatusError(
        403,
        StatusReason.FORBIDDEN,
        f'{qualified(action.resource, action.group)}{shown} is forbidden: User "{user.name}" cannot {action.verb}'
        f' resource "{resource}" in API group "{action.group}"{where}',
        object_details(action.resource, action.group, action.name),
    )
