"""How the fields of a kind are owned and applied: singly or as a whole, and what tells the elements of a list apart.

Server-side apply goes by markers in the source of Kubernetes (`listType`, `listMapKey`, `mapType`, `structType`), which
mostly say what the older tags of strategic merge patches say. So only the differences are written down here, each group
with its reason; the rest is merge_keys.py. What is in neither is a list that is owned as a whole, or an object or map
whose fields are owned singly.

A `FieldShape` is made once for each message and kept. Shapes refer to each other, and those of recursive messages to
themselves.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from mainstay.api.merge_keys import merge_rule
from mainstay.api.schema import OBJECT_META, SCALARS, SPECIAL, MessageField, find_fields

LEAF: Final = 0  # A plain value, or what is owned as a whole.
STRUCT: Final = 1  # An object with known fields, owned singly.
MAP: Final = 2  # An object with any keys, owned singly.
KEYED: Final = 3  # A list of objects that are told apart by some of their fields.
SET: Final = 4  # A list of plain values, each at most once.
ANY: Final = 5  # Whatever it is: objects as STRUCT with fields of this shape, everything else as LEAF.


class FieldShape:
    """How one value is owned. `how` is one of the constants above: plain numbers, as they are compared so often."""

    __slots__ = ("fields", "how", "items", "keys")

    def __init__(self, how: int, keys: tuple[str, ...] = ()) -> None:
        self.how = how
        self.fields: dict[str, tuple[str, FieldShape, bool]] = {}
        """Of a STRUCT: how a field is called in a set, its shape, and whether it is always there. See `_EMBEDDED`."""
        self.items = self
        """The shape of the values of a MAP or the elements of a KEYED list."""
        self.keys = keys
        """Of a KEYED list, in the order of the alphabet."""


THE_LEAF: Final = FieldShape(LEAF)
ANYTHING: Final = FieldShape(ANY)

KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""What a field that is part of a key stands for when it is left out."""

# Keyed lists (`field:key,key`), sets (`field`) and lists that are owned as a whole (`field-`), where strategic merge
# patches treat them otherwise.
_LISTS: Final = """
k8s.io.api.core.v1
  # One field does not tell them apart: the same port may be there for TCP and for UDP.
  Container ports:containerPort,protocol
  EphemeralContainer ports:containerPort,protocol
  EphemeralContainerCommon ports:containerPort,protocol
  ServiceSpec ports:port,protocol
  PodSpec topologySpreadConstraints:topologyKey,whenUnsatisfiable
  # They have one writer, who writes them all.
  PodStatus hostIPs-
  # Younger than strategic merge patches, and never tagged for them.
  ResourceRequirements claims:name

k8s.io.api.batch.v1
  JobStatus conditions-
  UncountedTerminatedPods succeeded failed

k8s.io.api.storage.v1
  CSIDriverSpec volumeLifecycleModes

k8s.io.api.certificates.v1
  CertificateSigningRequestStatus conditions:type

k8s.io.api.admissionregistration.v1
  ValidatingAdmissionPolicyStatus conditions:type

k8s.io.api.resource.v1
  ResourceClaimStatus devices:device,driver,pool,shareID
  AllocatedDeviceStatus conditions:type

k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1
  CustomResourceDefinitionStatus conditions:type
  JSONSchemaProps x-kubernetes-validations:rule
"""

# Messages that are owned as a whole: references and selectors, of which half means something else than all. And fields
# of other messages, for the same reason.
_WHOLE: Final = """
k8s.io.apimachinery.pkg.apis.meta.v1
  LabelSelector OwnerReference

k8s.io.api.core.v1
  ObjectReference LocalObjectReference SecretReference TypedLocalObjectReference
  ConfigMapKeySelector SecretKeySelector FileKeySelector ObjectFieldSelector ResourceFieldSelector
  NodeSelector NodeSelectorTerm TopologySelectorTerm ScopeSelector EndpointAddress EndpointPort
  PodSpec.nodeSelector ServiceSpec.selector ReplicationControllerSpec.selector

k8s.io.api.autoscaling.v1
  CrossVersionObjectReference

k8s.io.api.discovery.v1
  EndpointPort

k8s.io.api.networking.v1
  ServiceBackendPort

k8s.io.api.node.v1
  Scheduling.nodeSelector

k8s.io.api.rbac.v1
  RoleRef Subject

k8s.io.api.admissionregistration.v1
  MatchResources NamedRuleWithOperations ParamRef ParamKind
"""

# In Go a struct that is not behind a pointer is always there, so no write adds or removes it, and no manager owns it
# but for its fields. The tables of messages tell pointers from structs, except for these: structs that are required.
# The list among them is always written too, be it as null.
_EMBEDDED: Final = """
k8s.io.api.core.v1
  Event.metadata PodSpec.containers PersistentVolumeClaimTemplate.spec

k8s.io.api.events.v1
  Event.metadata

k8s.io.api.apps.v1
  DeploymentSpec.template DaemonSetSpec.template StatefulSetSpec.template

k8s.io.api.batch.v1
  JobSpec.template CronJobSpec.jobTemplate

k8s.io.api.autoscaling.v2
  HorizontalPodAutoscalerSpec.scaleTargetRef

k8s.io.api.certificates.v1
  CertificateSigningRequest.spec

k8s.io.api.flowcontrol.v1
  FlowSchemaSpec.priorityLevelConfiguration

k8s.io.api.storage.v1
  CSIDriver.spec CSINode.spec VolumeAttachment.spec VolumeAttachmentSpec.source

k8s.io.api.resource.v1
  DeviceClass.spec ResourceClaim.spec ResourceClaimSpec.devices ResourceClaimTemplate.spec
  ResourceClaimTemplateSpec.spec ResourceSlice.spec ResourceSliceSpec.pool

k8s.io.api.authentication.v1
  TokenRequest.spec TokenReview.spec

k8s.io.api.authorization.v1
  LocalSubjectAccessReview.spec SelfSubjectAccessReview.spec SelfSubjectRulesReview.spec SubjectAccessReview.spec

k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1
  CustomResourceDefinition.spec CustomResourceDefinitionSpec.names CustomResourceDefinitionStatus.acceptedNames
"""


def _lines(text: str) -> list[tuple[str, list[str]]]:
    """The lines of a table: each a package, and the words about it."""
    found: list[tuple[str, list[str]]] = []
    package = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            package = line
        elif not line.lstrip().startswith("#"):
            found.append((package, line.split()))
    return found


def _names(text: str) -> frozenset[str]:
    return frozenset(f"{package}.{name}" for package, names in _lines(text) for name in names)


def _lists(text: str) -> Mapping[str, FieldShape]:
    shapes: dict[str, FieldShape] = {}
    for package, (message, *fields) in _lines(text):
        for field in fields:
            name, _, keys = field.partition(":")
            if keys:
                shape = FieldShape(KEYED, tuple(sorted(keys.split(","))))
            else:
                shape = THE_LEAF if name.endswith("-") else FieldShape(SET)
            shapes[f"{package}.{message}.{name.rstrip('-')}"] = shape
    return shapes


_OWNED_AS_WHOLE: Final = _names(_WHOLE)
_ALWAYS_THERE: Final = _names(_EMBEDDED)
_LIST_SHAPES: Final = _lists(_LISTS)

_structs: Final[dict[str, FieldShape]] = {}


@cache
def find_shape(message: str) -> FieldShape:
    """The shape of the objects of a kind. Of one without a message, only the metadata has a known shape.

    Called with the messages of kinds, of which there is a fixed number, and never with what a request says.
    """
    if message:
        return _shape_of_message(message)
    shape = FieldShape(STRUCT)
    shape.items = ANYTHING
    shape.fields["metadata"] = ("f:metadata", _shape_of_message(OBJECT_META), True)
    return shape


def _shape_of_message(message: str) -> FieldShape:
    if message in SCALARS or message in SPECIAL or message in _OWNED_AS_WHOLE:
        return THE_LEAF
    shape = _structs.get(message)
    if shape is None:
        shape = _structs[message] = FieldShape(STRUCT)
        shape.items = ANYTHING
        for name, field in find_fields(message).items():
            below = _shape_of_field(message, field)
            shape.fields[name] = (f"f:{name}", below, _is_always_there(message, field, below))
    return shape


def _shape_of_field(message: str, field: MessageField) -> FieldShape:
    full_name = f"{message}.{field.name}"
    if full_name in _OWNED_AS_WHOLE:
        return THE_LEAF
    if field.is_map:
        shape = FieldShape(MAP)
        shape.items = _shape_of_message(field.type)
        return shape
    if not field.repeated:
        return _shape_of_message(field.type)
    known = _LIST_SHAPES.get(full_name)
    if known is None:
        rule = merge_rule(message, field.name)
        if rule is None or not rule.merges:
            return THE_LEAF
        known = FieldShape(KEYED, (rule.key,)) if rule.key else FieldShape(SET)
    if known.how == KEYED:
        shape = FieldShape(KEYED, known.keys)
        shape.items = _shape_of_message(field.type)
        return shape
    return known


def _is_always_there(message: str, field: MessageField, shape: FieldShape) -> bool:
    if f"{message}.{field.name}" in _ALWAYS_THERE:
        return True
    return shape.how == STRUCT and not field.keeps_zero
