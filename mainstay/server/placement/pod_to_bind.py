"""A pod as a binding needs it: looked into as little as possible, and put on its node by putting bytes together.

To read a pod makes hundreds of small objects, nearly all of which a binding neither looks at nor changes. What it does
look at in the spec follows from the bytes of the spec, and many pods have the same: it is remembered. What it changes
is the generation, `spec.nodeName`, and conditions: `PodScheduled` is what says that a pod is bound, and a scheduler's
`SchedulingRetrying` ends with that:

    {"metadata":{…,"generation":2,…},"spec":{"nodeName":"node-c12",…},"status":{…,"conditions":[…]}}

Pods with something unusual about them, and bindings that bring labels or annotations along, go the long way: read,
changed, and written as a whole. Both ways lead to the same pod.
"""

import re
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.memo import Memo
from mainstay.api.pod_resources import count_requests, is_over, list_host_ports
from mainstay.api.stages import SCHEDULING_RETRYING
from mainstay.server.placement.ledger.charge import Charge, port_text
from mainstay.server.placement.ledger.room import bears_cordon
from mainstay.server.storage.stored import stored
from mainstay.store.interface import Entry

OWN: Final = "mainstay.dev/"  # How annotations and labels begin that are not copied from a binding to its pod.

# Within the metadata nothing else is called so and has a number: labels and annotations are texts.
_GENERATION: Final = re.compile(rb'"generation":([0-9]+)')
_NODE_NAME: Final = b'"nodeName"'
_NO_TEXTS: Final[dict[str, str]] = {}

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    metadata: msgspec.Raw
    spec: msgspec.Raw
    status: Object = {}


class _Metadata(msgspec.Struct):
    uid: str
    deletionTimestamp: str = ""  # noqa: N815 - as it is called in an object
    annotations: dict[str, str] | None = None


class _Needs(msgspec.Struct, frozen=True):
    """What follows from a spec."""

    node: str
    amounts: dict[str, int]
    ports: tuple[str, ...]
    bears_cordon: bool


_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_needs: Memo[_Needs] = Memo()


class PodToBind:
    """One pod, as it lies in the store."""

    __slots__ = ("_entry", "_metadata", "_needs", "_parts")

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._parts = _decode_parts(entry.value)
        self._metadata = _decode_metadata(self._parts.metadata)
        self._needs = _find_needs(self._parts)

    @property
    def uid(self) -> str:
        return self._metadata.uid

    @property
    def node(self) -> str:
        """Where it is already; empty if it is on no node."""
        return self._needs.node

    @property
    def is_being_deleted(self) -> bool:
        return bool(self._metadata.deletionTimestamp)

    @property
    def is_over(self) -> bool:
        return is_over({"status": self._parts.status})

    @property
    def bears_cordon(self) -> bool:
        return self._needs.bears_cordon

    def annotation(self, name: str) -> str:
        return (self._metadata.annotations or _NO_TEXTS).get(name, "")

    def whole(self) -> Object:
        """All of it, to look into."""
        pod: Object = _decode(self._entry.value)
        return pod

    def charge_on(self, namespace: str, name: str, node: str) -> Charge:
        return Charge(self.uid, f"{namespace}/{name}", node, self._needs.amounts, self._needs.ports)

    def bound(
        self, node: str, now: str, annotations: dict[str, str], labels: dict[str, str], scheduled_at: str = ""
    ) -> bytes:
        """The pod on a node, as it is to be stored. `scheduled_at` is when the node was chosen, if that is known."""
        spec = bytes(self._parts.spec)
        if annotations or labels or _NODE_NAME in spec or len(spec) < len(b'{"a":1}'):
            return stored(put_on(self.whole(), node, now, annotations, labels, scheduled_at))
        metadata = _GENERATION.sub(_one_more, bytes(self._parts.metadata), count=1)
        status = _encode(_scheduled(self._parts.status, now, scheduled_at))
        return b'{"metadata":%b,"spec":{"nodeName":%b,%b,"status":%b}' % (metadata, _encode(node), spec[1:], status)


def put_on(
    pod: Object, node: str, now: str, annotations: dict[str, str], labels: dict[str, str], scheduled_at: str = ""
) -> Object:
    """The pod on a node. The given one is changed."""
    metadata = pod["metadata"]
    pod["spec"]["nodeName"] = node
    if "generation" in metadata:
        metadata["generation"] += 1
    for field, given in (("annotations", annotations), ("labels", labels)):
        copied = {key: value for key, value in given.items() if not key.startswith(OWN)}
        if copied:
            metadata[field] = {**(metadata.get(field) or _NO_TEXTS), **copied}
    pod["status"] = _scheduled(pod.get("status") or {}, now, scheduled_at)
    return pod


def _scheduled(status: Object, now: str, scheduled_at: str) -> Object:
    others = [
        _settled(each, now) if each.get("type") == SCHEDULING_RETRYING else each
        for each in status.get("conditions") or ()
        if each.get("type") != "PodScheduled"
    ]
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    if scheduled_at:
        condition["scheduledAt"] = scheduled_at
    return {**status, "conditions": [*others, condition]}


def _settled(retrying: Object, now: str) -> Object:
    if retrying.get("status") != "True":
        return retrying
    return {"type": SCHEDULING_RETRYING, "status": "False", "reason": "Bound", "lastTransitionTime": now}


def _find_needs(parts: _Parts) -> _Needs:
    status = parts.status
    if "containerStatuses" in status or "initContainerStatuses" in status:
        return _compute_needs(parts)  # What a pod needs while it is resized is not said by its spec alone.
    key = bytes(parts.spec)
    found = _needs.get(key)
    if found is None:
        found = _compute_needs(parts)
        _needs.put(key, found)
    return found


def _compute_needs(parts: _Parts) -> _Needs:
    spec: dict[str, Any] = _decode(parts.spec)
    pod = {"spec": spec, "status": parts.status}
    amounts = {resource: amount for resource, amount in count_requests(pod).items() if amount}
    ports = tuple(port_text(port) for port in list_host_ports(pod))
    return _Needs(spec.get("nodeName") or "", amounts, ports, bears_cordon(pod))


def _one_more(found: "re.Match[bytes]") -> bytes:
    return b'"generation":%d' % (int(found[1]) + 1)
