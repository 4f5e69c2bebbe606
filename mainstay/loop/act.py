"""Carrying out one action through the API. Thin: it sends, and says what came of it.

Whatever is repeated here finds its earlier work. A write has the id of its intent (client/intent.py): the server does
not do it again when it is decided on again. A create that meets its own object, made before the answer was lost, takes
it for its own; a removal of what is gone is done. Only what the decision has seen is changed or removed: another object
that has got the name meanwhile has another uid, and is a `Conflict`.

A create that was done before, and whose object has gone since, is wanted again: the decision has seen that it is not
there. The server says only that it was done, so it is asked for the object; if that is gone, the create is sent again
as another intent, which names what is gone. So a later repetition of either is recognised, too.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, assert_never

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Conflict, NotFound
from mainstay.loop.decision import Action, Apply, Create, Delete, Patch

_CREATED_BEFORE_MAX: Final = 8  # How many earlier creates of one spec, all gone since, are gone through.


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
            answer = await _create(client, kind, key, wanted, write)
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
                if version or not await _is_gone(client, kind, key, uid):
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


async def _create(client: Client, kind: KindName, key: ObjectKey, wanted: Object, write: WriteOptions) -> Object:
    try:
        for _ in range(_CREATED_BEFORE_MAX):
            made = await client.create_once(kind, wanted, key.namespace, write=write)
            if not made.is_repeated:
                return made.object
            if not await _is_gone(client, kind, key) or write.intent is None:
                break
            write = replace(write, intent=write.intent.after(made.object["metadata"]["uid"]))
        else:
            # It comes and goes all the time. Its name still keeps it from being there twice.
            return await client.create(kind, wanted, key.namespace, write=replace(write, intent=None))
    except AlreadyExists:
        pass
    return await _own_earlier_work(client, kind, key, wanted)


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


async def _is_gone(client: Client, kind: KindName, key: ObjectKey, uid: str = "") -> bool:
    """By a read from the server. With a uid: that very object."""
    try:
        there = await client.get(kind, key.name, key.namespace)
    except NotFound:
        return True
    return bool(uid) and there["metadata"]["uid"] != uid
