"""The database operator without its bugs: each step looks at what is there, and not at what it believes it has done.

kubectl apply -f examples/worst_day/database.yaml
kopf run -m examples.worst_day.fixed_database_operator --namespace=default --standalone
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import kopf
from lightkube import AsyncClient
from lightkube.resources.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret

from examples.worst_day.database_objects import (
    CERTIFICATES,
    Database,
    a_certificate,
    a_config_map,
    a_pod,
    a_volume,
    create,
    delete,
    find,
    find_all,
    number_of,
    settings_of,
)


@kopf.on.startup()
async def connect(memo, **_):
    memo.api = AsyncClient()


@kopf.on.create("databases")
@kopf.on.update("databases", field="spec")
@kopf.on.resume("databases")
async def reconcile(spec, meta, memo, patch, **_):
    await ensure_all(memo.api, meta, spec)
    patch.status["replicas"] = spec["replicas"]
    patch.status["storage"] = spec["storage"]


@kopf.timer("databases", interval=20, initial_delay=20)
async def look_again(spec, meta, memo, **_):
    """A deletion that no watch saw is not delivered afterwards: the object can only be found missing."""
    if "deletionTimestamp" not in meta:
        await ensure_all(memo.api, meta, spec)


@kopf.on.delete("databases")
async def drop(meta, memo, **_):
    for kind in (Pod, PersistentVolumeClaim, ConfigMap, Secret):
        for each in await find_all(memo.api, kind, meta):
            if each.metadata.labels["database-uid"] == meta["uid"]:  # Not those of another one of this name.
                await delete_this(memo.api, kind, each)


@kopf.on.event("pods", labels={"database": kopf.PRESENT})
async def member_lost(event, namespace, labels, memo, **_):
    """The quick way; the timer is the sure one."""
    if event["type"] == "DELETED":
        database = await find(memo.api, Database, namespace, labels["database"])
        if database is not None and database.metadata.deletionTimestamp is None:
            await ensure_all(memo.api, database["metadata"], database.spec)


async def ensure_all(api, meta, spec):
    await be_current(api, meta)
    for what in CERTIFICATES:
        await ensure(api, Secret, a_certificate(meta, what))
    settings = await ensure(api, ConfigMap, a_config_map(meta, spec))
    if settings.data != dict(spec.get("settings") or {}):
        body = {"data": {**dict.fromkeys(settings.data or {}), **(spec.get("settings") or {})}}
        await api.patch(ConfigMap, settings.metadata.name, body, namespace=meta["namespace"])
    await ensure_storage(api, meta, spec)
    await ensure_members(api, meta, spec)


async def ensure_storage(api, meta, spec):
    larger = {"spec": {"resources": {"requests": {"storage": spec["storage"]}}}}
    for number in range(spec["replicas"]):
        volume = await ensure(api, PersistentVolumeClaim, a_volume(meta, number, spec))
        if volume.spec.resources.requests["storage"] != spec["storage"]:  # A volume grows while no pod uses it.
            await delete(api, Pod, meta["namespace"], f"{meta['name']}-{number}")
            await api.patch(PersistentVolumeClaim, volume.metadata.name, larger, namespace=meta["namespace"])


async def ensure_members(api, meta, spec):
    wanted = {"storage": spec["storage"], "settings": settings_of(spec)}
    for number in range(spec["replicas"]):
        pod = await ensure(api, Pod, a_pod(meta, number, spec))
        if pod.metadata.annotations != wanted:
            await delete_this(api, Pod, pod)
            await ensure(api, Pod, a_pod(meta, number, spec))
    for kind in (Pod, PersistentVolumeClaim):  # Each kind for itself: one may be gone, and the other not.
        for each in await find_all(api, kind, meta):
            if number_of(each) >= spec["replicas"] and each.metadata.labels["database-uid"] == meta["uid"]:
                await be_current(api, meta)
                await delete_this(api, kind, each)


async def be_current(api, meta):
    """Do nothing on an old view: a server that is behind, or a watch, may tell of what was."""
    database = await find(api, Database, meta["namespace"], meta["name"])
    if (
        database is None
        or database.metadata.uid != meta["uid"]
        or database.metadata.deletionTimestamp is not None
        or database.metadata.generation != meta["generation"]
    ):
        raise kopf.TemporaryError("this is not how it is any more", delay=5)


async def ensure(api, kind, wanted):
    """The object that is there, made if need be. What another one of this name has left must go first."""
    name, namespace = wanted.metadata.name, wanted.metadata.namespace
    there = await find(api, kind, namespace, name)
    if there is None:
        await create(api, wanted)
        there = await find(api, kind, namespace, name)
    if there is None or there.metadata.labels["database-uid"] != wanted.metadata.labels["database-uid"]:
        raise kopf.TemporaryError(f"{name} belongs to another database of this name", delay=5)
    return there


async def delete_this(api, kind, obj):
    """The object that was seen, and not another one that has its name by now."""
    there = await find(api, kind, obj.metadata.namespace, obj.metadata.name)
    if there is not None and there.metadata.uid == obj.metadata.uid:
        await delete(api, kind, obj.metadata.namespace, obj.metadata.name)
