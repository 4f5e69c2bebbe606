"""Volumes and what provides them: PersistentVolume, PersistentVolumeClaim and the storage group."""

from collections.abc import Sequence
from functools import partial

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import STATUS, Object
from mainstay.api.kinds.amounts import check_amount
from mainstay.api.kinds.checks import check_immutable, check_one_of, check_selector, invalid_json
from mainstay.api.kinds.declare import builtin, child, fill, own_status
from mainstay.api.kinds.placement import check_node_selector
from mainstay.api.kinds.pod_defaults import default_claim_spec
from mainstay.api.quantity import compare

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
_VOLUME_SETTINGS = frozenset(
    {"capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions"}
    | {"volumeMode", "nodeAffinity", "volumeAttributesClassName"}
)
_CLAIM_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _default_volume(new: Object) -> None:
    spec = child(new, "spec")
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    fill(spec, volumeMode="Filesystem")
    fill(child(new, "status"), phase="Pending")


def _pending() -> Object:
    return {"phase": "Pending"}


def _validate_volume(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    _check_access_modes(spec, causes)
    capacity = spec.get("capacity")
    if not capacity:
        causes.append(required("spec.capacity"))
    elif "storage" not in capacity or len(capacity) > 1:
        detail = 'supported values: "storage"'
        causes.append(invalid_json("spec.capacity", capacity, detail))
    for name, value in (capacity or {}).items():
        if not check_amount(value, f"spec.capacity[{name}]", causes):
            causes.append(invalid_value(f"spec.capacity[{name}]", value, "must be greater than zero"))
    check_one_of(spec, "persistentVolumeReclaimPolicy", _RECLAIM_POLICIES, "spec", causes)
    check_one_of(spec, "volumeMode", _VOLUME_MODES, "spec", causes)
    wanted = (spec.get("nodeAffinity") or {}).get("required")
    if wanted is not None:
        check_node_selector(wanted, "spec.nodeAffinity.required", causes)
    sources = [key for key in spec if key not in _VOLUME_SETTINGS and spec[key] is not None]
    if not sources:
        causes.append(required("spec", "must specify a volume type"))
    for extra in sources[1:]:
        causes.append(forbidden_value(f"spec.{extra}", "may not specify more than 1 volume type"))
    if old is not None:
        was = old.get("spec") or {}
        if any(spec.get(key) != was.get(key) for key in {**spec, **was} if key not in _VOLUME_SETTINGS):
            detail = "spec.persistentvolumesource is immutable after creation"
            causes.append(forbidden_value("spec.persistentvolumesource", detail))
        check_immutable(spec, was, "volumeMode", "spec", causes)
    return causes


def _check_access_modes(spec: Object, causes: list[StatusCause]) -> None:
    modes = spec.get("accessModes") or ()
    if not modes:
        causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    for mode in modes:
        if mode not in _ACCESS_MODES:
            causes.append(not_supported("spec.accessModes", mode, _ACCESS_MODES))
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden_value("spec.accessModes", detail))


def _default_claim(new: Object) -> None:
    default_claim_spec(child(new, "spec"))
    fill(child(new, "status"), phase="Pending")


def _validate_claim(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    _check_access_modes(spec, causes)
    if spec.get("selector"):
        check_selector(spec["selector"], "spec.selector", causes)
    wanted = (spec["resources"].get("requests") or {}).get("storage")
    path = "spec.resources[storage]"
    if wanted is None:
        causes.append(required(path))
    elif check_amount(wanted, path, causes) == 0:
        causes.append(invalid_value(path, wanted, "must be greater than zero"))
    check_one_of(spec, "volumeMode", _VOLUME_MODES, "spec", causes)
    if old is not None and not causes:
        _check_claim_update(spec, old["spec"], old, causes)
    return causes


def _check_claim_update(spec: Object, was: Object, old: Object, causes: list[StatusCause]) -> None:
    before = dict(was)
    if not before.get("volumeName"):
        before["volumeName"] = spec.get("volumeName")  # Binding a claim to its volume is what they are there for.
    is_bound = (old.get("status") or {}).get("phase") == "Bound"
    free = ("resources", "volumeAttributesClassName") if is_bound else ()
    if any(spec.get(key) != before.get(key) for key in {**spec, **before} if key not in free):
        causes.append(forbidden_value("spec", _CLAIM_FIXED))
        return
    now, then = spec["resources"]["requests"]["storage"], was["resources"]["requests"]["storage"]
    if compare(now, then) < 0:
        detail = "field can not be less than status.capacity"
        causes.append(forbidden_value("spec.resources.requests.storage", detail))


def _default_storage_class(new: Object) -> None:
    fill(new, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _validate_storage_class(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    if not new.get("provisioner"):
        causes.append(required("provisioner"))
    check_one_of(new, "reclaimPolicy", ("Delete", "Retain"), "", causes)
    check_one_of(new, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), "", causes)
    if old is not None:
        if (new.get("parameters") or {}) != (old.get("parameters") or {}):
            causes.append(forbidden_value("parameters", "updates to parameters are forbidden."))
        if new.get("provisioner") != old.get("provisioner"):
            causes.append(forbidden_value("provisioner", "updates to provisioner are forbidden."))
        check_immutable(new, old, "reclaimPolicy", "", causes)
        check_immutable(new, old, "volumeBindingMode", "", causes)
    return causes


def _default_node_drivers(new: Object) -> None:
    fill(child(new, "spec"), drivers=[])


def _default_driver(new: Object) -> None:
    spec = child(new, "spec")
    fill(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    )
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _validate_capacity(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    if not new.get("storageClassName"):
        causes.append(required("storageClassName"))
    for field in ("capacity", "maximumVolumeSize"):
        if new.get(field) is not None:
            check_amount(new[field], field, causes)
    if old is not None:
        check_immutable(new, old, "nodeTopology", "", causes)
        check_immutable(new, old, "storageClassName", "", causes)
    return causes


def _validate_attachment(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new.get("spec") or {}
    for field in ("attacher", "nodeName"):
        if not spec.get(field):
            causes.append(required(f"spec.{field}"))
    source = spec.get("source") or {}
    if not source.get("inlineVolumeSpec") and not source.get("persistentVolumeName"):
        causes.append(required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
    if old is not None and spec != (old.get("spec") or {}):
        causes.append(invalid_json("spec", spec, "field is immutable"))
    return causes


def _validate_attributes(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    if not new.get("driverName"):
        causes.append(required("driverName"))
    if old is not None:
        for field in ("driverName", "parameters"):
            if (new.get(field) or {}) != (old.get(field) or {}):
                causes.append(forbidden_value(field, f"updates to {field} are forbidden."))
    return causes


_storage = partial(builtin, has_generation=False)

PERSISTENT_VOLUME = builtin(
    kind_names.PERSISTENT_VOLUMES,
    short_names=("pv",),
    subresources=(STATUS,),
    defaults=_default_volume,
    prepare=own_status(_pending),
    validate=_validate_volume,
    has_generation=False,
    delete_returns_object=True,
)

PERSISTENT_VOLUME_CLAIM = builtin(
    kind_names.PERSISTENT_VOLUME_CLAIMS,
    short_names=("pvc",),
    subresources=(STATUS,),
    defaults=_default_claim,
    prepare=own_status(_pending),
    validate=_validate_claim,
    has_generation=False,
    delete_returns_object=True,
)

STORAGE_CLASS = _storage(
    kind_names.STORAGE_CLASSES, short_names=("sc",), defaults=_default_storage_class, validate=_validate_storage_class
)
CSI_NODE = _storage(kind_names.CSI_NODES, defaults=_default_node_drivers, put_needs_version=True)
CSI_DRIVER = _storage(kind_names.CSI_DRIVERS, defaults=_default_driver, put_needs_version=True)
CSI_STORAGE_CAPACITY = _storage(kind_names.CSI_STORAGE_CAPACITIES, validate=_validate_capacity, put_needs_version=True)
VOLUME_ATTACHMENT = _storage(
    kind_names.VOLUME_ATTACHMENTS,
    subresources=(STATUS,),
    prepare=own_status(lambda: {"attached": False}),
    validate=_validate_attachment,
    put_needs_version=True,
)
VOLUME_ATTRIBUTES_CLASS = _storage(
    kind_names.VOLUME_ATTRIBUTES_CLASSES, short_names=("vac",), validate=_validate_attributes
)

KINDS = (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
)
