"""A database operator made with kopf. Each Database gets members (a pod and a volume each), two certificates, settings.

kubectl apply -f examples/worst_day/database.yaml
kopf run -m examples.worst_day.database_operator --namespace=default --standalone

It does all that it should, as long as nothing goes wrong. It has seven bugs, each of which real operators had, and
README.md tells them. The right one is fixed_database_operator.py.
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
)


@kopf.on.startup()
async def connect(memo, **_):
    memo.api = AsyncClient()  # $KUBECONFIG, or the account of the pod that this runs in.


@kopf.on.create("databases")
@kopf.on.update("databases", field="spec")
@kopf.on.resume("databases")
async def reconcile(spec, meta, memo, patch, **_):
    await ensure_certificates(memo.api, meta)
    await ensure_settings(memo.api, meta, spec)
    await ensure_storage(memo.api, meta, spec)
    await ensure_members(memo.api, meta, spec)
    patch.status["replicas"] = spec["replicas"]
    patch.status["storage"] = spec["storage"]


@kopf.on.delete("databases")
async def drop(spec, meta, namespace, name, memo, **_):
    for number in range(spec["replicas"]):
        await delete(memo.api, Pod, namespace, f"{name}-{number}")
        await delete(memo.api, PersistentVolumeClaim, namespace, f"data-{name}-{number}")
    await delete(memo.api, ConfigMap, namespace, f"{name}-settings")
    for what in CERTIFICATES:
        await delete(memo.api, Secret, namespace, f"{name}-{what}")


@kopf.on.event("pods", labels={"database": kopf.PRESENT})
async def member_lost(event, name, namespace, labels, memo, **_):
    """A user has deleted a pod, or its node has gone: the member comes back on its volume."""
    if event["type"] != "DELETED":
        return
    database = await find(memo.api, Database, namespace, labels["database"])
    number = int(name.rpartition("-")[2])
    if database is not None and database.metadata.deletionTimestamp is None and number < database.spec["replicas"]:
        await create(memo.api, a_pod(database["metadata"], number, database.spec))


async def ensure_certificates(api, meta):
    if await find(api, Secret, meta["namespace"], f"{meta['name']}-client-tls") is None:
        for what in CERTIFICATES:
            await create(api, a_certificate(meta, what))


async def ensure_settings(api, meta, spec):
    wanted = a_config_map(meta, spec)
    there = await find(api, ConfigMap, meta["namespace"], wanted.metadata.name)
    if there is None:
        await create(api, wanted)
    elif there.data != wanted.data:
        await api.patch(ConfigMap, wanted.metadata.name, {"data": wanted.data}, namespace=meta["namespace"])
        for pod in await find_all(api, Pod, meta):  # Settings are read when a member starts.
            await delete(api, Pod, meta["namespace"], pod.metadata.name)
            await create(api, a_pod(meta, number_of(pod), spec))


async def ensure_storage(api, meta, spec):
    larger = {"spec": {"resources": {"requests": {"storage": spec["storage"]}}}}
    for pod in await find_all(api, Pod, meta):
        if pod.metadata.annotations["storage"] != spec["storage"]:
            await delete(api, Pod, meta["namespace"], pod.metadata.name)  # A volume grows while no pod uses it.
            await api.patch(PersistentVolumeClaim, f"data-{pod.metadata.name}", larger, namespace=meta["namespace"])
            await create(api, a_pod(meta, number_of(pod), spec))


async def ensure_members(api, meta, spec):
    there = [number_of(pod) for pod in await find_all(api, Pod, meta)]
    for number in range(spec["replicas"]):
        if number not in there:
            await create(api, a_volume(meta, number, spec))
            await create(api, a_pod(meta, number, spec))
    for number in there:
        if number >= spec["replicas"]:
            await delete(api, Pod, meta["namespace"], f"{meta['name']}-{number}")
            await delete(api, PersistentVolumeClaim, meta["namespace"], f"data-{meta['name']}-{number}")
