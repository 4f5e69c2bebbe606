"""The rows of volumes, and of who provides them."""

from mainstay.api.kind import Object
from mainstay.api.tables.fields import annotation, at, has, objects, text, texts
from mainstay.api.tables.table import AGE, NAME, Filled, count_at, filled, flag_at, name_column, of, table, text_at
from mainstay.api.tables.texts import NONE, UNSET, quantity

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(found: Object, path: str) -> str:
    given = texts(found, path)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(found: Object) -> str:
    return "Terminating" if has(found, "metadata.deletionTimestamp") else text(found, "status.phase")


def _class(found: Object) -> str:
    return annotation(found, _CLASS_ANNOTATION) or text(found, "spec.storageClassName")


def _claim(volume: Object) -> str:
    if not has(volume, "spec.claimRef"):
        return ""
    return f"{text(volume, 'spec.claimRef.namespace')}/{text(volume, 'spec.claimRef.name')}"


def _claim_capacity(claim: Object) -> str:
    # What it would like to have is not what it has.
    return quantity(at(claim, "status.capacity.storage")) if text(claim, "spec.volumeName") else ""


def _claim_modes(claim: Object) -> str:
    return _modes(claim, "status.accessModes") if text(claim, "spec.volumeName") else ""


def _class_name(storage_class: Object) -> str:
    name = text(storage_class, "metadata.name")
    is_default = any(annotation(storage_class, key) == "true" for key in _DEFAULT_ANNOTATIONS)
    return f"{name} (default)" if is_default else name


def _audiences(driver: Object) -> str:
    if not has(driver, "spec.tokenRequests"):
        return UNSET
    return ",".join(text(each, "audience") for each in objects(driver, "spec.tokenRequests"))


def _room(capacity: Object) -> str:
    return quantity(at(capacity, "capacity")) if has(capacity, "capacity") else UNSET


_STORAGE_CLASS = filled("StorageClass", of(_class), "The class that it is of.")
_ATTRIBUTES_CLASS = filled(
    "VolumeAttributesClass", text_at("spec.volumeAttributesClassName", UNSET), "The attributes that it has."
)
_VOLUME_MODE = filled("VolumeMode", text_at("spec.volumeMode", UNSET), "A file system, or a block device.", wide=True)

TABLES = {
    ("", "PersistentVolume"): table(
        NAME,
        filled("Capacity", of(lambda found: quantity(at(found, "spec.capacity.storage"))), "How large it is."),
        filled("Access Modes", of(lambda found: _modes(found, "spec.accessModes")), "How it may be mounted."),
        filled("Reclaim Policy", text_at("spec.persistentVolumeReclaimPolicy"), "What becomes of it when released."),
        filled("Status", of(_phase), "Whether it is in use."),
        filled("Claim", of(_claim), "The claim it is bound to."),
        _STORAGE_CLASS,
        _ATTRIBUTES_CLASS,
        filled("Reason", text_at("status.reason"), "Why it failed, in a word."),
        AGE,
        _VOLUME_MODE,
    ),
    ("", "PersistentVolumeClaim"): table(
        NAME,
        filled("Status", of(_phase), "Whether it has a volume."),
        filled("Volume", text_at("spec.volumeName"), "The volume it has."),
        filled("Capacity", of(_claim_capacity), "How large that is."),
        filled("Access Modes", of(_claim_modes), "How that may be mounted."),
        _STORAGE_CLASS,
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    ("storage.k8s.io", "StorageClass"): table(
        Filled(name_column(), of(_class_name)),
        filled("Provisioner", text_at("provisioner"), "Who makes its volumes."),
        filled("ReclaimPolicy", text_at("reclaimPolicy", "Delete"), "What becomes of them when released."),
        filled("VolumeBindingMode", text_at("volumeBindingMode", "Immediate"), "When a volume is chosen."),
        filled("AllowVolumeExpansion", flag_at("allowVolumeExpansion"), "Whether they may grow."),
        AGE,
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): table(
        NAME, filled("DriverName", text_at("driverName"), "The driver that knows these attributes."), AGE
    ),
    ("storage.k8s.io", "VolumeAttachment"): table(
        NAME,
        filled("Attacher", text_at("spec.attacher"), "Who attaches the volume."),
        filled("PV", text_at("spec.source.persistentVolumeName"), "The volume."),
        filled("Node", text_at("spec.nodeName"), "The node."),
        filled("Attached", flag_at("status.attached"), "Whether it is done.", holds="boolean"),
        AGE,
    ),
    ("storage.k8s.io", "CSINode"): table(
        NAME, filled("Drivers", count_at("spec.drivers"), "How many drivers the node has.", holds="integer"), AGE
    ),
    ("storage.k8s.io", "CSIDriver"): table(
        NAME,
        filled("AttachRequired", flag_at("spec.attachRequired", True), "Whether it attaches.", holds="boolean"),
        filled(
            "PodInfoOnMount",
            flag_at("spec.podInfoOnMount"),
            "Whether it receives information about the pod.",
            holds="boolean",
        ),
        filled("StorageCapacity", flag_at("spec.storageCapacity"), "Whether it publishes room.", holds="boolean"),
        filled("TokenRequests", of(_audiences), "Whom its tokens are for."),
        filled("RequiresRepublish", flag_at("spec.requiresRepublish"), "Whether it is called again.", holds="boolean"),
        filled("Modes", of(lambda found: ",".join(texts(found, "spec.volumeLifecycleModes")) or NONE), "Its volumes."),
        AGE,
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): table(
        NAME,
        filled("StorageClassName", text_at("storageClassName"), "The class that there is room for."),
        filled("Capacity", of(_room), "How much room."),
    ),
}
