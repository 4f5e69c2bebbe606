"""The metadata that objects of every kind have: is it of the right types, and what to do when it is not.

`is_strict` is the check that every write passes before anything else looks at the object (server/storage/writes.py),
whichever way the object came. It costs about a microsecond, because it is one conversion by a compiled decoder and says
only yes or no. `conform_metadata` is the slow half for kinds of which no message describes the fields: it puts the
metadata right in place, as conform.py does, and has the words for what is wrong.

`drop_malformed` is for objects that are in a store already: versions before 0.3 did not check the metadata that a patch
of such kinds led to. What cannot be understood goes, as kube-apiserver does when it reads a custom resource from etcd.
"""

from typing import Any

import msgspec

from mainstay.api import schema
from mainstay.api.conform import conform
from mainstay.api.errors import StatusError
from mainstay.api.json_values import copied
from mainstay.api.kind import Object

# The fields are called as they are in JSON.
# ruff: noqa: N815


class _OwnerReference(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    blockOwnerDeletion: bool = False


class _ManagedFieldsEntry(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    manager: str = ""
    operation: str = ""
    apiVersion: str = ""
    time: str = ""
    fieldsType: str = ""
    fieldsV1: dict[str, Any] = {}
    subresource: str = ""


class _ObjectMeta(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    name: str = ""
    generateName: str = ""
    namespace: str = ""
    selfLink: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: str = ""
    deletionTimestamp: str = ""
    deletionGracePeriodSeconds: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: list[_OwnerReference] = []
    finalizers: list[str] = []
    managedFields: list[_ManagedFieldsEntry] = []


_convert = msgspec.convert


def is_strict(metadata: Any) -> bool:
    """Whether these are the metadata of an object, of the right types, with no other fields and no nulls."""
    try:
        _convert(metadata, _ObjectMeta)
    except msgspec.ValidationError:
        return False
    return True


def conform_metadata(obj: Object) -> list[str]:
    """Put right the metadata of an object in place. Returns the paths of unknown fields, which are now gone.

    Raises `StatusError` (400) for a value of a wrong type.
    """
    if obj.get("metadata") is None:
        obj.pop("metadata", None)
        return []
    return conform(obj["metadata"], schema.OBJECT_META, at="metadata")


def drop_malformed(metadata: Any) -> Object:
    """What can be understood of metadata. The argument stays as it is."""
    kept: Object = {}
    for name, value in metadata.items() if isinstance(metadata, dict) else ():
        if name in ("labels", "annotations") and isinstance(value, dict):
            value = {key: each for key, each in value.items() if isinstance(each, str)}
        elif name in ("finalizers", "ownerReferences", "managedFields") and isinstance(value, list):
            value = [each for each in value if each and _is_understood(name, [each])]
        if value and _is_understood(name, value):
            kept[name] = value
    return kept


def _is_understood(name: str, value: Any) -> bool:
    one = {name: copied(value)}
    try:
        return not conform(one, schema.OBJECT_META) and is_strict(one)
    except StatusError:
        return False
