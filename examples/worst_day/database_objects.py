"""What a Database consists of, and how it is asked for. Both operators use this."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import json

from lightkube import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.core_v1 import (
    ConfigMapVolumeSource,
    Container,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PodSpec,
    SecretVolumeSource,
    Volume,
    VolumeResourceRequirements,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret

Database = create_namespaced_resource("example.com", "v1", "Database", "databases")
CERTIFICATES = ("client-tls", "peer-tls")


def a_pod(meta, number, spec):
    """A member. It runs without the certificate for its peers if there is none: then they talk in the clear."""
    name = meta["name"]
    claim = PersistentVolumeClaimVolumeSource(claimName=f"data-{name}-{number}")
    certificate = SecretVolumeSource(secretName=f"{name}-peer-tls", optional=True)
    return Pod(
        metadata=metadata(meta, f"{name}-{number}", {"storage": spec["storage"], "settings": settings_of(spec)}),
        spec=PodSpec(
            containers=[Container(name="database", image="database:1")],
            volumes=[
                Volume(name="data", persistentVolumeClaim=claim),
                Volume(name="settings", configMap=ConfigMapVolumeSource(name=f"{name}-settings")),
                Volume(name="peer-tls", secret=certificate),
            ],
        ),
    )


def a_volume(meta, number, spec):
    requests = VolumeResourceRequirements(requests={"storage": spec["storage"]})
    return PersistentVolumeClaim(
        metadata=metadata(meta, f"data-{meta['name']}-{number}"),
        spec=PersistentVolumeClaimSpec(accessModes=["ReadWriteOnce"], resources=requests),
    )


def a_config_map(meta, spec):
    return ConfigMap(metadata=metadata(meta, f"{meta['name']}-settings"), data=dict(spec.get("settings") or {}))


def a_certificate(meta, what):
    data = {"tls.crt": f"of {meta['name']}", "tls.key": "secret"}
    return Secret(metadata=metadata(meta, f"{meta['name']}-{what}"), stringData=data)


def metadata(meta, name, annotations=None):
    labels = {"database": meta["name"], "database-uid": meta["uid"]}
    return ObjectMeta(name=name, namespace=meta["namespace"], labels=labels, annotations=annotations)


def settings_of(spec):
    return json.dumps(dict(spec.get("settings") or {}), sort_keys=True)


def number_of(obj):
    return int(obj.metadata.name.rpartition("-")[2])


# The API, where being there already, or being gone already, is no error.


async def find(api, kind, namespace, name):
    """The object; None if it is not there."""
    try:
        return await api.get(kind, name, namespace=namespace)
    except ApiError as error:
        if error.status.code != 404:
            raise
        return None


async def find_all(api, kind, meta):
    """All of this kind that belong to a database of this name."""
    return [each async for each in api.list(kind, namespace=meta["namespace"], labels={"database": meta["name"]})]


async def create(api, wanted):
    try:
        await api.create(wanted)
    except ApiError as error:
        if error.status.code != 409:
            raise


async def delete(api, kind, namespace, name):
    try:
        await api.delete(kind, name, namespace=namespace)
    except ApiError as error:
        if error.status.code != 404:
            raise
