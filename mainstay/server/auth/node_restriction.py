"""What the agent of a node may change, as Kubernetes' NodeRestriction: what is its own, and of that not everything.

Two looks, because one is not enough. Before a write, at what the request names (`NodeRestriction.require_own`): the
status of a pod is written, and a pod deleted or evicted, only by the agent of its node; a token is had only for such a
pod, bound to it and its uid, so that it ends with it, and for an audience that a volume of the pod names
(`require_token_for_pod`). And when it is committed, at what it
changes (`OwnNodePoint`…), for a patch says that only then:

    Node      under the own name; no labels that steer what runs there (`node-restriction.kubernetes.io/`, and any of
              kubernetes.io and k8s.io but those that kubelets set); no taints but at creation, except that a node that
              is ready removes `node.kubernetes.io/not-ready:NoSchedule`; no owners
    Pod       bound to the node; no labels through the status; an address inside the subnet of the node
              (`spec.podCIDRs`, which stays as it is once it is set), or that of the node for a pod in its network
    Lease     under the own name, in kube-node-lease

A pod that is bound stays bound to that node for as long as it lives.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any, Final

import msgspec

from mainstay.api.errors import StatusError, StatusReason, object_details, quoted
from mainstay.api.ip_addresses import list_addresses
from mainstay.api.kind import Kind, Object
from mainstay.api.well_known_labels import NOT_READY_TAINT
from mainstay.server.auth.node_authorizer import NODE_LEASES
from mainstay.server.auth.node_index import NodeIndex
from mainstay.server.auth.tokens import AUDIENCE
from mainstay.server.request.target import RequestTarget, Verb
from mainstay.server.storage.commit_points import NOTHING, CommitPoint, Intended, TransactionParts
from mainstay.server.storage.keyspace import CORE
from mainstay.store.interface import Check, Store

_RESTRICTED: Final = "node-restriction.kubernetes.io"
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
_OF_KUBELETS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Prefixes of labels that a node may set, with what is below them."""
_KUBELET_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
_NOTHING: Final[Mapping[str, Any]] = {}


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")
    in_host_network: bool | None = msgspec.field(name="hostNetwork", default=False)


class _Pod(msgspec.Struct):
    spec: _Spec


class _Token(msgspec.Struct):
    audience: str | None = None


class _Source(msgspec.Struct):
    token: _Token | None = msgspec.field(name="serviceAccountToken", default=None)


class _Projected(msgspec.Struct):
    sources: list[_Source] | None = None


class _Volume(msgspec.Struct):
    projected: _Projected | None = None


class _SpecWithVolumes(_Spec):
    volumes: list[_Volume] | None = None


class _PodWithVolumes(msgspec.Struct):
    spec: _SpecWithVolumes


class _NodeSpec(msgspec.Struct):
    subnet: str | None = msgspec.field(name="podCIDR", default=None)
    subnets: list[str] | None = msgspec.field(name="podCIDRs", default=None)


class _Address(msgspec.Struct):
    address: str | None = None


class _NodeStatus(msgspec.Struct):
    addresses: list[_Address] | None = None


class _Node(msgspec.Struct):
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_decode_node = msgspec.json.Decoder(_Node).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode
_decode_volumes = msgspec.json.Decoder(_PodWithVolumes).decode
_decode_spec = msgspec.json.Decoder(_Spec).decode


class NodeRestriction:
    """The look before a write."""

    def __init__(self, store: Store, index: NodeIndex) -> None:
        self._store = store
        self._index = index

    async def require_own(self, node: str, target: RequestTarget) -> None:
        """Raise `StatusError` (403) if what the agent of a node writes is none of its business."""
        if target.kind.plural != "pods":
            return
        what = _POD_WRITES.get((target.verb, target.subresource))
        if what is None:
            raise _forbidden(target.kind, target.name, node, f"is not allowed to {target.verb} pods")
        text = f"can only {what} with spec.nodeName set to itself"
        await self._require_bound(node, target, target.name, text)

    async def require_token_for_pod(self, node: str, target: RequestTarget, wanted: Object) -> None:
        """Raise `StatusError` (403) unless the TokenRequest of the agent of a node is for a pod of that node."""
        reference: dict[str, Any] = (wanted.get("spec") or {}).get("boundObjectRef") or {}
        if reference.get("kind") != "Pod" or not reference.get("name"):
            raise _forbidden(target.kind, target.name, node, "requested token not bound to a pod")
        if not reference.get("uid"):
            raise _forbidden(target.kind, target.name, node, "requested token with a pod binding without a uid")
        entry = await self._store.get(f"{CORE}/pods/{target.namespace}/{reference['name']}")
        if entry is None:
            return  # That is answered by the issuer.
        spec = _decode_volumes(entry.value).spec
        if spec.node != node:
            raise _forbidden(target.kind, target.name, node, "requested token bound to a pod scheduled elsewhere")
        audiences = [str(each) for each in (wanted.get("spec") or {}).get("audiences") or (AUDIENCE,)]
        if len(audiences) > 1:
            raise _forbidden(target.kind, target.name, node, "may only request 0 or 1 audiences")
        if audiences[0] not in _list_audiences(spec):
            text = f"is not authorized to request tokens for audience {quoted(audiences[0])}"
            raise _forbidden(target.kind, target.name, node, text)

    async def _require_bound(self, node: str, target: RequestTarget, name: str, otherwise: str) -> None:
        if self._index.is_bound(node, target.namespace, name):
            return
        entry = await self._store.get(f"{CORE}/pods/{target.namespace}/{name}")
        # That one does not exist is answered by the write itself.
        if entry is not None and _decode_pod(entry.value).spec.node != node:
            raise _forbidden(target.kind, target.name, node, otherwise)


def _list_audiences(spec: _SpecWithVolumes) -> list[str]:
    """The audiences for which volumes of a pod have tokens. One without is for this server."""
    sources = [each for volume in spec.volumes or () if volume.projected for each in volume.projected.sources or ()]
    return [each.token.audience or AUDIENCE for each in sources if each.token is not None]


_POD_WRITES: Final = {
    (Verb.PATCH, "status"): "update pod status for pods",
    (Verb.UPDATE, "status"): "update pod status for pods",
    (Verb.CREATE, "eviction"): "evict pods",
    (Verb.DELETE, ""): "delete pods",
}


# The look at what is committed.


class OwnNodePoint:
    """Implements `CommitPoint`, of Nodes."""

    def applies_to(self, intended: Intended) -> bool:
        return bool(intended.context.agent_of)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        new, old, node = intended.new, intended.old, intended.context.agent_of
        name = (new or old or {})["metadata"]["name"]
        if name != node:
            raise _forbidden(intended.kind, name, node, f'is not allowed to modify node "{name}"')
        if new is not None and (why := find_forbidden_change(new, old)):
            raise _forbidden(intended.kind, name, node, why)
        return NOTHING


class OwnPodPoint:
    """Implements `CommitPoint`, of pods."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def applies_to(self, intended: Intended) -> bool:
        return bool(intended.context.agent_of)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        old, new, node = intended.old, intended.new, intended.context.agent_of
        if old is None:
            name = "" if new is None else new["metadata"]["name"]
            raise _forbidden(intended.kind, name, node, "is not allowed to create pods")
        name, spec = old["metadata"]["name"], _read_spec(old)
        if spec.node != node:
            text = "can only update pod status for pods with spec.nodeName set to itself"
            raise _forbidden(intended.kind, name, node, text)
        if new is None or intended.subresource != "status":
            return NOTHING
        if _labels(new) != _labels(old):
            raise _forbidden(intended.kind, name, node, "cannot update labels through pod status")
        given = _pod_addresses(new)
        if not given or given == _pod_addresses(old):
            return NOTHING
        entry = await self._store.get(f"{CORE}/nodes/{node}")
        if entry is None:
            raise _forbidden(intended.kind, name, node, "cannot set status.podIP: its Node does not exist")
        if why := _find_foreign(_decode_node(entry.value), given, spec):
            raise _forbidden(intended.kind, name, node, why)
        return TransactionParts(checks=[Check(entry.key, entry.revision)])


def _find_foreign(node: _Node, given: Sequence[str], pod: _Spec) -> str:
    """Why the pod may not have an address: traffic for others would go there, or that for it to others."""
    own = [each.address for each in node.status.addresses or ()]
    subnets = node.spec.subnets or ([node.spec.subnet] if node.spec.subnet else [])
    if not subnets:
        return ""  # Its network gives addresses out by itself.
    for address in given:
        if pod.in_host_network:
            if address not in own:
                return f"cannot set status.podIP to {address}: it is not an address of the node"
        elif not any(ip_address(address) in ip_network(subnet, strict=False) for subnet in subnets):
            return f"cannot set status.podIP to {address}: it is outside spec.podCIDRs of the node"
    return ""


class OwnNamePoint:
    """Implements `CommitPoint`, of kinds that have one object for each node, called after it."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def applies_to(self, intended: Intended) -> bool:
        return bool(intended.context.agent_of)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        metadata, node = (intended.new or intended.old or {})["metadata"], intended.context.agent_of
        if (metadata.get("namespace", ""), metadata["name"]) != (self._namespace, node):
            raise _forbidden(intended.kind, metadata["name"], node, "can only access one with its own name")
        return NOTHING


def build_points(store: Store) -> Mapping[tuple[str, str], Sequence[CommitPoint]]:
    return {
        ("", "Node"): (OwnNodePoint(),),
        ("", "Pod"): (OwnPodPoint(store),),
        ("coordination.k8s.io", "Lease"): (OwnNamePoint(NODE_LEASES),),
        ("storage.k8s.io", "CSINode"): (OwnNamePoint(""),),
    }


def find_forbidden_change(new: Object, old: Object | None) -> str:
    """What a node may not change about itself in this way. Empty: nothing."""
    before: Mapping[str, Any] = old or {"metadata": {}}
    changed = {name for name, _ in _labels(new).items() ^ _labels(before).items()}
    if forbidden := sorted(name for name in changed if is_forbidden_label(name)):
        what = "set the following labels" if old is None else "modify labels"
        return f"is not allowed to {what}: {', '.join(forbidden)}"
    if (new["metadata"].get("ownerReferences") or []) != (before["metadata"].get("ownerReferences") or []):
        return "is not allowed to modify ownerReferences"
    wanted, had = new.get("spec") or _NOTHING, before.get("spec") or _NOTHING
    if old is not None and _is_changed(wanted.get("taints"), had.get("taints")):
        return "is not allowed to modify taints"
    if wanted.get("configSource") and wanted["configSource"] != had.get("configSource"):
        return "is not allowed to update configSource"
    return ""


def is_forbidden_label(label: str) -> bool:
    """Whether a node must not set this on itself: others rely on it to say what may run there."""
    prefix, slash, _ = label.partition("/")
    if not slash:
        return False
    if _is_below(prefix, _RESTRICTED):
        return True
    is_of_kubernetes = any(_is_below(prefix, each) for each in _KUBERNETES)
    is_of_kubelets = label in _KUBELET_LABELS or any(_is_below(prefix, each) for each in _OF_KUBELETS)
    return is_of_kubernetes and not is_of_kubelets


def _is_below(prefix: str, domain: str) -> bool:
    return prefix == domain or prefix.endswith(f".{domain}")


def _is_changed(taints: list[Object] | None, before: list[Object] | None) -> bool:
    """But for the taint that a node gets when it is new, and removes when it is ready."""
    kept = [each for each in before or () if not _says_new(each)]
    return (taints or []) not in (before or [], kept)


def _says_new(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == NOT_READY_TAINT and taint.get("effect") == "NoSchedule"


def _labels(obj: Mapping[str, Any] | None) -> Mapping[str, str]:
    return ((obj or _NOTHING).get("metadata") or _NOTHING).get("labels") or _NOTHING


def _read_spec(pod: Object) -> _Spec:
    spec = pod["spec"]
    if isinstance(spec, msgspec.Raw):
        return _decode_spec(spec)
    return _Spec(spec.get("nodeName") or "", bool(spec.get("hostNetwork")))


def _pod_addresses(pod: Object) -> list[str]:
    status: Object = pod.get("status") or {}
    alone = status.get("podIP")
    return [*([alone] if alone else ()), *list_addresses(status, "podIP")]


def _forbidden(kind: Kind, name: str, node: str, why: str) -> StatusError:
    shown = f' "{name}"' if name else ""
    text = f'{kind.plural}{shown} is forbidden: node "{node}" {why}'
    return StatusError(403, StatusReason.FORBIDDEN, text, object_details(kind.plural, kind.group, name))
