"""Agents write only about what is theirs: their node, its lease, and the pods that are bound to it.

What can be told by the name in a request is decided in authorization.py. The rest is here, and needs a look at the pod,
or at what is sent:

- the status of a pod is written, and a pod removed, only by the agent of the node it is bound to;
- a token of a service account is had only for such a pod, bound to it, so that it ends with it;
- a Node and a Lease are made only under the own name.

A pod that is bound stays bound to that node for as long as it lives, so what is found here still holds when the write
happens; unless it is another pod of the same name by then. Agents name the uid, too.
"""

from typing import Any, Final

import msgspec

from mainstay.api import schema
from mainstay.api.decode import decode_body
from mainstay.api.errors import StatusError, StatusReason, object_details
from mainstay.api.kind import Kind
from mainstay.http.messages import Request
from mainstay.server.request.target import RequestTarget, Verb
from mainstay.server.storage.keyspace import CORE
from mainstay.store.interface import Store

_TOKEN_REQUEST: Final = Kind(
    group="authentication.k8s.io", version="v1", kind="TokenRequest", plural="", singular="", namespaced=True,
    message=schema.find_message("authentication.k8s.io", "v1", "TokenRequest"),
)  # fmt: skip


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")


class _Pod(msgspec.Struct):
    spec: _Spec


_decode_pod = msgspec.json.Decoder(_Pod).decode


async def require_own(store: Store, node: str, request: Request, target: RequestTarget) -> None:
    """Raise `StatusError` (403) if what the agent of a node writes is none of its business."""
    match target.kind.plural:
        case "pods":
            what = "delete pods" if target.verb is Verb.DELETE else "update pod status for pods"
            await _require_bound(store, node, target, target.name, f"can only {what} with spec.nodeName set to itself")
        case "serviceaccounts":
            await _require_token_for_pod(store, node, request, target)
        case "nodes" | "leases" | "csinodes" if target.verb is Verb.CREATE:
            body = decode_body(request.headers.get("content-type"), request.body, target.kind, validation="Ignore")
            if (body.object.get("metadata") or {}).get("name") != node:
                raise _forbidden(target, node, "can only create one with its own name")
        case _:
            pass


async def _require_token_for_pod(store: Store, node: str, request: Request, target: RequestTarget) -> None:
    body = decode_body(request.headers.get("content-type"), request.body, _TOKEN_REQUEST, validation="Ignore")
    reference: dict[str, Any] = (body.object.get("spec") or {}).get("boundObjectRef") or {}
    if reference.get("kind") != "Pod" or not reference.get("name"):
        raise _forbidden(target, node, "requested token not bound to a pod")
    if not reference.get("uid"):
        raise _forbidden(target, node, "requested token with a pod binding without a uid")
    await _require_bound(store, node, target, reference["name"], "requested token bound to a pod scheduled elsewhere")


async def _require_bound(store: Store, node: str, target: RequestTarget, name: str, otherwise: str) -> None:
    entry = await store.get(f"{CORE}/pods/{target.namespace}/{name}")
    # That one does not exist is answered by the write itself.
    if entry is not None and _decode_pod(entry.value).spec.node != node:
        raise _forbidden(target, node, otherwise)


def _forbidden(target: RequestTarget, node: str, why: str) -> StatusError:
    kind = target.kind
    shown = f' "{target.name}"' if target.name else ""
    text = f'{kind.plural}{shown} is forbidden: node "{node}" {why}'
    return StatusError(403, StatusReason.FORBIDDEN, text, object_details(kind.plural, kind.group, target.name))
