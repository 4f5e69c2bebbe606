"""Carrying out one action through the API. Thin: it sends, and says what came of it.

Whatever is repeated here finds its earlier work. A create that meets its own object, made before the answer was lost,
takes it for its own; a removal of what is gone is done. Only what the decision has seen is changed or removed: another
object that has got the name meanwhile has another uid, and is a `Conflict`.
"""

from dataclasses import dataclass
from typing import Any, assert_never

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Conflict, NotFound
from mainstay.loop.decision import Action, Apply, Create, Delete, Patch


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """What an action has led to, which a cache will show sooner or later."""

    kind: KindName
    key: ObjectKey
    revision: int = 0
    """The object is at this revision, or later."""
    gone_uid: str = ""
    """Or: the object of this uid is gone, at an unknown revision."""


def find_key(action: Action) -> ObjectKey:
    if isinstance(action, Create | Apply):
        metadata = action.object["metadata"]
        return ObjectKey(metadata.get("namespace", ""), metadata["name"])
    return action.key


async def act(action: Action, client: Client, write: WriteOptions) -> OwnWrite:
    """Carry out an action. Raises `ApiError` (client/errors.py)."""
    key = find_key(action)
    answer: Object
    match action:
        case Create(kind=kind, object=wanted):
            try:
                answer = await client.create(kind, wanted, key.namespace, write=write)
            except AlreadyExists:
                answer = await _own_earlier_work(client, kind, key, wanted)
        case Apply(kind=kind, object=wanted, force=force):
            answer = await client.apply(kind, wanted, manager=write.field_manager, force=force, write=write)
        case Patch(kind=kind, uid=uid, body=body, subresource=subresource, resource_version=version):
            metadata: dict[str, Any] = {**(body.get("metadata") or {}), "uid": uid}
            if version:
                metadata["resourceVersion"] = version
            sent = {**body, "metadata": metadata}
            answer = await client.patch(kind, key.name, key.namespace, sent, subresource=subresource, write=write)
        case Delete(kind=kind, uid=uid, propagation=propagation, resource_version=version):
            try:
                answer = await client.delete(
                    kind,
                    key.name,
                    key.namespace,
                    uid=uid,
                    resource_version=version,
                    propagation=propagation,
                    write=write,
                )
            except NotFound:
                return OwnWrite(kind, key, gone_uid=uid)
            except Conflict as error:
                if version or not await _has_another(client, kind, key, uid):
                    raise
                error.add_note("deleted: another object has this name now")
                return OwnWrite(kind, key, gone_uid=uid)
        case _:
            assert_never(action)
    metadata = (answer.get("metadata") or {}) if answer.get("kind") != "Status" else {}
    revision = metadata.get("resourceVersion")
    if isinstance(action, Delete) and not metadata.get("deletionTimestamp"):
        # It is gone at once. If the answer shows it, then as it was before: every cache has reached that revision.
        return OwnWrite(action.kind, key, gone_uid=action.uid)
    if revision is None:
        return OwnWrite(action.kind, key)
    return OwnWrite(action.kind, key, revision=int(revision))


async def _own_earlier_work(client: Client, kind: KindName, key: ObjectKey, wanted: Object) -> Object:
    """The object that is there, if it has the same controlling owner as the one that was to be made."""
    there = await client.get(kind, key.name, key.namespace)
    if _controller_uid(there) != _controller_uid(wanted):
        raise Conflict(f"{kind} {key} exists already and has another owner", status=409, reason="NameTaken")
    return there


def _controller_uid(obj: Object) -> str:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


async def _has_another(client: Client, kind: KindName, key: ObjectKey, uid: str) -> bool:
    try:
        return bool((await client.get(kind, key.name, key.namespace))["metadata"]["uid"] != uid)
    except NotFound:
        return True
