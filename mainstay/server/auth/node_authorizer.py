"""What the agent of a node may do: read what its pods refer to, and write about itself and its pods.

As the node authorizer of Kubernetes: a Secret, ConfigMap, claim or service account only if a pod that is bound to the
node refers to it (node_index.py), pods only if they are bound to it, the Node, its lease and its CSINode only if they
are its own. By the names in the request alone; what a write may change is for node_restriction.py.

The index may not have a binding yet that the agent knows of. So a refusal that rests on the index is not final: `learn`
brings the index up to the store, and answers again.
"""

from typing import Final

import msgspec

from mainstay.api import fields
from mainstay.journal import wire
from mainstay.server.auth.authorization import (
    ALLOWED,
    NO_OPINION,
    AccessAttributes,
    AccessVerdict,
    User,
    UserRules,
    agent_in,
)
from mainstay.server.auth.node_index import NodeIndexFollower
from mainstay.server.storage.keyspace import CORE
from mainstay.store.interface import Store

NODE_LEASES: Final = "kube-node-lease"
"""The namespace of the leases of nodes."""
_DECISIONS: Final = f"{wire.PATH}decisions"
_READS: Final = ("get", "list", "watch")
_CHANGES: Final = ("patch", "update")

_REFERRED: Final = ("secrets", "configmaps", "persistentvolumeclaims", "serviceaccounts")
_OPEN: Final = ("services", "csidrivers.storage.k8s.io", "runtimeclasses.node.k8s.io")
"""What all nodes may read."""
_SELECT_OWN: Final = AccessVerdict(False, "can only list/watch pods with spec.nodeName field selector")


class NodeAuthorizer:
    """Implements `Authorizer` (authorization.py)."""

    def __init__(self) -> None:
        self.bindings = NodeIndexFollower()
        self._index = self.bindings.index

    def decide(self, user: User, action: AccessAttributes) -> AccessVerdict:
        node = agent_in(user)
        return self._decide(node, action) if node else NO_OPINION

    def find_rules(self, user: User, namespace: str) -> UserRules:
        is_agent = bool(agent_in(user))
        return UserRules(incomplete="node authorizer does not support user rule resolution" if is_agent else "")

    def can_learn(self, user: User, action: AccessAttributes) -> bool:
        """Whether a refusal may only mean that this server does not know of a pod yet."""
        if not agent_in(user) or action.group or not action.name:
            return False
        if action.resource == "pods":
            return action.verb == "get" and action.subresource in ("", "status")
        if action.subresource:
            return (action.resource, action.subresource, action.verb) == ("serviceaccounts", "token", "create")
        return action.verb in _READS and action.resource in (*_REFERRED, "persistentvolumes")

    async def learn(self, user: User, action: AccessAttributes, store: Store) -> AccessVerdict:
        """Decide with all that is in the store now. Raises `NotSettled`, `StoreError`."""
        await self.bindings.settle()
        verdict = self.decide(user, action)
        if verdict.allowed:
            return verdict
        if action.resource == "pods" and await store.get(f"{CORE}/pods/{action.namespace}/{action.name}") is None:
            return ALLOWED  # Its agent may know that a pod is gone.
        if action.resource == "persistentvolumes" and action.verb == "get":
            entry = await store.get(f"{CORE}/persistentvolumes/{action.name}")
            claim = None if entry is None else _decode_volume(entry.value).spec.claim
            if claim is not None and self._refers(
                agent_in(user), "persistentvolumeclaims", claim.namespace, claim.name
            ):
                return ALLOWED
        return verdict

    def _decide(self, node: str, action: AccessAttributes) -> AccessVerdict:
        if action.path:
            return _given(action.path == _DECISIONS and action.verb == "post")
        verb, resource, name, part = action.verb, action.resource, action.name, action.subresource
        if action.group:
            resource = f"{resource}.{action.group}"
        match resource:
            case "pods":
                return self._decide_pod(node, action)
            case "secrets" | "configmaps" if verb in _READS and not part:
                is_related = bool(name) and self._refers(node, resource, action.namespace, name)
            case "persistentvolumeclaims" | "serviceaccounts" if verb == "get" and not part:
                is_related = self._refers(node, resource, action.namespace, name)
            case "serviceaccounts" if part == "token" and verb == "create":
                is_related = self._refers(node, resource, action.namespace, name)
            case "persistentvolumes" if verb == "get" and not part:
                is_related = False  # Only the volume says which claim it is for: see `learn`.
            case "nodes":
                return _given(_may_touch_node(node, verb, name, part))
            case "csinodes.storage.k8s.io" if not part:
                return _given(name == node if verb != "create" else name in ("", node))
            case "leases.coordination.k8s.io" if not part and action.namespace == NODE_LEASES:
                return _given(name == node if verb != "create" else name in ("", node))
            case "certificatesigningrequests.certificates.k8s.io":
                return _given(verb in ("create", "get") and not part)
            case "events" | "events.events.k8s.io":
                return _given(verb == "create" or verb in _CHANGES)
            case "endpoints":
                return _given(verb == "get" and not part)
            case _:
                return _given(resource in _OPEN and verb in _READS and not part)
        return ALLOWED if is_related else _unrelated(node)

    def _decide_pod(self, node: str, action: AccessAttributes) -> AccessVerdict:
        match action.verb, action.subresource:
            case "get", "" | "status":
                is_bound = self._index.is_bound(node, action.namespace, action.name)
                return ALLOWED if is_bound else _unrelated(node)
            case "list" | "watch", "":
                if not action.selector:
                    return _SELECT_OWN
                is_own = fields.parse(action.selector).required_value("spec.nodeName") == node
                return ALLOWED if is_own else _SELECT_OWN
            case ("patch" | "update", "status") | ("delete", "") | ("create", "eviction"):
                return ALLOWED  # Of its own pods: node_restriction.py.
            case _:
                return NO_OPINION

    def _refers(self, node: str, resource: str, namespace: str, name: str) -> bool:
        return self._index.refers(node, resource, namespace, name)


def _may_touch_node(node: str, verb: str, name: str, part: str) -> bool:
    if part == "ghosts":
        return name == node and verb in ("get", "update")
    if part not in ("", "status"):
        return False
    if verb == "create":
        return name in ("", node) and not part
    return name == node and (verb in _READS or verb in _CHANGES)


def _given(is_allowed: bool) -> AccessVerdict:
    return ALLOWED if is_allowed else NO_OPINION


def _unrelated(node: str) -> AccessVerdict:
    return AccessVerdict(False, f"no relationship found between node '{node}' and this object")


class _Claim(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _VolumeSpec(msgspec.Struct):
    claim: _Claim | None = msgspec.field(name="claimRef", default=None)


class _Volume(msgspec.Struct):
    spec: _VolumeSpec


_decode_volume: Final = msgspec.json.Decoder(_Volume).decode
