"""A tiny database operator: what users write, done right. Scenarios 25–31 of the catalogue plant bugs in it.

A Database wants members (a pod and a volume each), volumes of a size, settings, and two certificates:

    spec: {replicas: 2, storage: 2Gi, settings: {connections: "100"}, certificates: [client-tls, peer-tls]}

Nothing here depends on what was done before: each part looks at what is there. Three things need more than that,
because a view may be old, and older in one kind than in another:

- What is wanted no longer is only removed once the operator has written into the Database that it will be, on condition
  that this is still the version that it has seen (`claim`). Who sees an old one fails there.
- Of what is owned by a Database that is not there: only removed if the cache of Databases has come further than the
  thing itself, so that the owner cannot be one that is still to be seen.
- A Database that is deleted is let go when nothing of it is left, as seen by caches that have come as far as its end.

All of it is removed by uid, so that what has the same name by now is left alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS
from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import Change
from mainstay.client.indexes import label
from mainstay.loop.controller import Controller, Reads, reference_to
from mainstay.loop.decision import DONE, Action, Create, Decision, Delete, Patch, Result, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

DATABASES: Final = KindName("example.dev", "v1", "Database", "databases", True)
VOLUMES: Final = PERSISTENT_VOLUME_CLAIMS
SETTINGS: Final = CONFIG_MAPS
KINDS: Final = (PODS, VOLUMES, SECRETS, SETTINGS)

FINALIZER: Final = "example.dev/database"
DATABASE: Final = "database"
"""The label that says which one something belongs to, and the annotations that say what a pod was started with."""
STARTED_WITH: Final = ("storage", "settings")
SHRUNK_TO: Final = "shrunkTo"
_SOON: Final = timedelta(seconds=1)
_BY_NAME: Final = label(DATABASE)


def _its_database(change: Change) -> list[ObjectKey]:
    entry = change.new or change.old
    name = "" if entry is None else (entry.object()["metadata"].get("labels") or {}).get(DATABASE, "")
    return [ObjectKey(change.key.namespace, name)] if name else []


@dataclass(frozen=True)
class Parts:
    """What a Database has of each kind, by name."""

    pods: dict[str, Object]
    volumes: dict[str, Object]
    secrets: dict[str, Object]
    settings: dict[str, Object]

    def all(self) -> list[tuple[KindName, Object]]:
        found = zip(KINDS, (self.pods, self.volumes, self.secrets, self.settings), strict=True)
        return [(kind, obj) for kind, objects in found for obj in objects.values()]


class Databases(Controller):
    name = "databases"
    kind = DATABASES
    reads = tuple(Reads(kind, wakes=_its_database, indexes=(_BY_NAME,)) for kind in KINDS)
    writes = KINDS

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        database = view.get(DATABASES, key)
        uid = "" if database is None else database["metadata"]["uid"]
        parts, others = find_parts(view, key, uid)
        left = orphans(view, others)
        if database is None:
            return Decision(actions=left)
        if "deletionTimestamp" in database["metadata"]:
            actions, result = leaving(view, database, parts)
            return Decision(actions=(*left, *actions), result=result)
        return Decision(
            actions=(
                *left,
                *staying(database),
                *certificates(database, parts),
                *settings(database, parts),
                *growth(database, parts),
                *members(database, parts),
                *surplus(database, parts),
            ),
            status=build_status(database, parts),
        )


def find_parts(view: View, key: ObjectKey, uid: str) -> tuple[Parts, list[tuple[KindName, Object]]]:
    """What belongs to the Database of this uid, and what belongs to another one of the same name."""
    own: list[dict[str, Object]] = []
    others: list[tuple[KindName, Object]] = []
    for kind in KINDS:
        found: dict[str, Object] = {}
        for obj in view.by(kind, f"label:{DATABASE}", key.name):
            if read_owner(obj) == uid:
                found[obj["metadata"]["name"]] = obj
            elif obj["metadata"]["namespace"] == key.namespace:
                others.append((kind, obj))
        own.append(found)
    return Parts(*own), others


def orphans(view: View, others: Sequence[tuple[KindName, Object]]) -> tuple[Action, ...]:
    """What belongs to a Database that is surely gone."""
    known = view.revisions[DATABASES]
    return tuple(delete(kind, obj) for kind, obj in others if int(obj["metadata"]["resourceVersion"]) <= known)


def leaving(view: View, database: Object, parts: Parts) -> tuple[tuple[Action, ...], Result]:
    """First all that it has; then, when nothing can have been missed, the Database itself."""
    if parts.all():
        return tuple(delete(kind, obj) for kind, obj in parts.all()), DONE
    ended = int(database["metadata"]["resourceVersion"])
    if any(view.revisions[kind] < ended for kind in KINDS):
        return (), WakeAt(view.now + _SOON)
    return (_patch(database, {"metadata": {"finalizers": []}}),), DONE


def staying(database: Object) -> tuple[Action, ...]:
    """So that it cannot go unseen."""
    if FINALIZER in (database["metadata"].get("finalizers") or ()):
        return ()
    return (_patch(database, {"metadata": {"finalizers": [FINALIZER]}}),)


def certificates(database: Object, parts: Parts) -> tuple[Action, ...]:
    wanted = wanted_certificates(database)
    return tuple(
        Create(SECRETS, {"metadata": _metadata(database, name), "stringData": {"tls.key": "secret"}})
        for name in wanted
        if name not in parts.secrets
    )


def settings(database: Object, parts: Parts) -> tuple[Action, ...]:
    """Members read them when they start, so those that have started with others are started again."""
    name, wanted = f"{_name(database)}-settings", wanted_settings(database)
    there = parts.settings.get(name)
    if not wanted:
        return ()
    if there is None:
        return (Create(SETTINGS, {"metadata": _metadata(database, name), "data": wanted}),)
    actions: list[Action] = []
    if there.get("data") != wanted:
        actions.append(
            Patch(
                SETTINGS, read_key(there), there["metadata"]["uid"], {"data": wanted}, freshness=Freshness.MAY_BE_STALE
            )
        )
    actions += [delete(PODS, pod) for pod in outdated(database, parts, "settings")]
    return tuple(actions)


def growth(database: Object, parts: Parts) -> tuple[Action, ...]:
    """A volume grows while it is not in use; its member is started again after that."""
    actions: list[Action] = []
    for volume in parts.volumes.values():
        if is_bound(volume) and read_size(volume) != database["spec"]["storage"]:
            pod = parts.pods.get(pod_name(database, read_number(volume)))
            actions += [] if pod is None else [delete(PODS, pod)]
            actions.append(grow(volume, database["spec"]["storage"]))
    return tuple(actions)


def members(database: Object, parts: Parts) -> tuple[Action, ...]:
    actions: list[Action] = []
    for number in range(database["spec"]["replicas"]):
        if volume_name(database, number) not in parts.volumes:
            actions.append(Create(VOLUMES, a_volume(database, number)))
        if pod_name(database, number) not in parts.pods:
            actions.append(Create(PODS, a_pod(database, number)))
    return tuple(actions)


def surplus(database: Object, parts: Parts) -> tuple[Action, ...]:
    """Pods and volumes beyond what is wanted, each kind for itself: one may be gone, and the other not."""
    too_many = [
        (kind, obj)
        for kind, objects in ((PODS, parts.pods), (VOLUMES, parts.volumes))
        for obj in objects.values()
        if read_number(obj) >= database["spec"]["replicas"]
    ]
    if not too_many:
        return ()
    return (claim(database), *(delete(kind, obj) for kind, obj in too_many))


def claim(database: Object) -> Action:
    """Says what is about to be removed, and fails if that is not what is wanted any more."""
    return _patch(database, {"status": {SHRUNK_TO: database["spec"]["replicas"]}}, "status")


def build_status(database: Object, parts: Parts) -> dict[str, Any]:
    """The claim is over when nothing is left that it is about."""
    replicas = database["spec"]["replicas"]
    numbers = sorted(read_number(obj) for obj in (*parts.pods.values(), *parts.volumes.values()))
    is_shrinking = bool(numbers) and numbers[-1] >= replicas
    joined = sorted(read_number(pod) for pod in parts.pods.values())
    return {"joined": joined, SHRUNK_TO: replicas if is_shrinking else None}


# What things are like.


def outdated(database: Object, parts: Parts, what: str) -> list[Object]:
    """The members that were started with something else."""
    wanted = started_with(database)[what]
    return [pod for pod in parts.pods.values() if pod["metadata"]["annotations"][what] != wanted]


def started_with(database: Object) -> dict[str, str]:
    told = ",".join(f"{name}={value}" for name, value in sorted(wanted_settings(database).items()))
    return dict(zip(STARTED_WITH, (database["spec"]["storage"], told), strict=True))


def wanted_certificates(database: Object) -> list[str]:
    return [f"{_name(database)}-{what}" for what in database["spec"].get("certificates") or ()]


def wanted_settings(database: Object) -> dict[str, str]:
    return dict(database["spec"].get("settings") or {})


def a_pod(database: Object, number: int) -> Object:
    metadata = _metadata(database, pod_name(database, number))
    return {
        "metadata": {**metadata, "annotations": started_with(database)},
        "spec": {"containers": [{"name": "main", "image": "database:1"}]},
    }


def a_volume(database: Object, number: int) -> Object:
    requests = {"storage": database["spec"]["storage"]}
    return {
        "metadata": _metadata(database, volume_name(database, number)),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}},
    }


def grow(volume: Object, size: str) -> Action:
    body = {"spec": {"resources": {"requests": {"storage": size}}}}
    return Patch(VOLUMES, read_key(volume), volume["metadata"]["uid"], body, freshness=Freshness.MAY_BE_STALE)


def delete(kind: KindName, obj: Object) -> Action:
    return Delete(kind, read_key(obj), obj["metadata"]["uid"], freshness=Freshness.MAY_BE_STALE)


def pod_name(database: Object, number: int) -> str:
    return f"{_name(database)}-{number}"


def volume_name(database: Object, number: int) -> str:
    return f"data-{_name(database)}-{number}"


def read_number(obj: Object) -> int:
    return int(obj["metadata"]["name"].rpartition("-")[2])


def read_size(volume: Object) -> str:
    return str(volume["spec"]["resources"]["requests"]["storage"])


def is_bound(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Bound"


def read_owner(obj: Object) -> str:
    """Its uid."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        return str(reference["uid"])
    return ""


def read_key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"]["namespace"], obj["metadata"]["name"])


def _name(database: Object) -> str:
    return str(database["metadata"]["name"])


def _metadata(database: Object, name: str) -> Object:
    return {
        "name": name,
        "namespace": database["metadata"]["namespace"],
        "labels": {DATABASE: _name(database)},
        "ownerReferences": [reference_to(database, DATABASES)],
    }


def _patch(database: Object, body: Object, subresource: str = "") -> Action:
    metadata = database["metadata"]
    return Patch(
        DATABASES,
        read_key(database),
        metadata["uid"],
        body,
        subresource,
        metadata["resourceVersion"],
        freshness=Freshness.SEEN_VERSION,
    )
