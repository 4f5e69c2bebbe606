"""Objects as an API server sends them, for tests of caches."""

from typing import Any

import msgspec

from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import CachedObject


def a_pod(name: str, revision: int = 1, *, uid: str = "", namespace: str = "default", **more: Any) -> dict[str, Any]:
    """`labels` and `owners` go into the metadata, `node` and whatever else into the spec."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    metadata["resourceVersion"] = str(revision)
    if "labels" in more:
        metadata["labels"] = more.pop("labels")
    if "owners" in more:
        metadata["ownerReferences"] = [{"uid": owner, "kind": "ReplicaSet"} for owner in more.pop("owners")]
    if "node" in more:
        more["nodeName"] = more.pop("node")
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": more}


def raw(obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode(obj)


def an_entry(name: str, revision: int = 1, *, uid: str = "") -> CachedObject:
    """A pod as a cache without indexes keeps it."""
    pod = a_pod(name, revision, uid=uid)
    return CachedObject(key(name), pod["metadata"]["uid"], revision, raw(pod))


def key(name: str, namespace: str = "default") -> ObjectKey:
    return ObjectKey(namespace, name)
