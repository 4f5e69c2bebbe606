"""Which fields a Kubernetes message has, and of which type: what the decoders, patches and managed fields go by.

`find_fields` is the view that JSON has. Two things differ there from the messages on the wire, whose view is
`find_wire_fields`: what Go embeds is flattened (the fields of a volume's source are fields of the volume), and objects
have `kind` and `apiVersion`. Such fields have the number 0: they are in no message of that level.

Some messages are no objects in JSON. They are the constants below, such as `TIME` or `QUANTITY`, each with what it
looks like. Looking at their fields is of no use to anyone but the protobuf decoder.

The tables are text (messages.txt), written by tools/make-messages and parsed one package at a time, on first use. A few
messages have a field of ours besides (messages_own.py). A line,

    Volume name!:1 volumeSource^:2:VolumeSource

is a message and its fields: name, number, type. No type is `string`; `*` is repeated, `%` a map from strings; a type
without a dot is of the same package, or one of `SCALARS`. `!` says that the zero value means something and is kept, `^`
that the fields of the type are flattened into this message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from mainstay.api import messages_own
from mainstay.api.kind_name import message_name

SCALARS: Final = frozenset({"string", "bool", "int32", "int64", "double", "bytes"})
"""`bytes` are base64 in JSON."""

_META: Final = "k8s.io.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1."

OBJECT_META: Final = _META + "ObjectMeta"
LIST_META: Final = _META + "ListMeta"

# Messages that are no objects in JSON:
TIME: Final = _META + "Time"  # text: 2026-01-01T00:00:00Z
MICRO_TIME: Final = _META + "MicroTime"  # text: 2026-01-01T00:00:00.000000Z
QUANTITY: Final = "k8s.io.apimachinery.pkg.api.resource.Quantity"  # text: 500m; a number is understood
INT_OR_STRING: Final = "k8s.io.apimachinery.pkg.util.intstr.IntOrString"  # a number or text
RAW_EXTENSION: Final = "k8s.io.apimachinery.pkg.runtime.RawExtension"  # any object
FIELDS_V1: Final = _META + "FieldsV1"  # any object
JSON: Final = _EXTENSIONS + "JSON"  # anything
SCHEMA: Final = _EXTENSIONS + "JSONSchemaProps"  # an ordinary object, which the next three may be
SCHEMA_OR_ARRAY: Final = _EXTENSIONS + "JSONSchemaPropsOrArray"  # a schema, or a list of them
SCHEMA_OR_BOOL: Final = _EXTENSIONS + "JSONSchemaPropsOrBool"  # a schema, or a boolean
SCHEMA_OR_STRINGS: Final = _EXTENSIONS + "JSONSchemaPropsOrStringArray"  # a schema, or a list of text
STRING_LISTS: Final = frozenset(
    {
        _META + "Verbs",
        "k8s.io.api.authentication.v1.ExtraValue",
        "k8s.io.api.authorization.v1.ExtraValue",
        "k8s.io.api.certificates.v1.ExtraValue",
    }
)  # a list of text
SPECIAL: Final = STRING_LISTS | {
    TIME,
    MICRO_TIME,
    QUANTITY,
    INT_OR_STRING,
    RAW_EXTENSION,
    FIELDS_V1,
    JSON,
    SCHEMA_OR_ARRAY,
    SCHEMA_OR_BOOL,
    SCHEMA_OR_STRINGS,
}
"""All messages whose JSON is not an object of their fields."""


@dataclass(frozen=True, slots=True)
class MessageField:
    name: str
    """As in JSON."""
    number: int
    """0 if it is in no message of this level: see the module's words."""
    type: str
    """One of `SCALARS`, or the full name of a message. Of a map, the type of its values."""
    repeated: bool
    is_map: bool
    keeps_zero: bool = False
    """Whether the zero value differs from absence, so that it is to be kept when it comes as protobuf."""
    is_inlined: bool = False
    """Only in `find_wire_fields`: the fields of this message are, in JSON, fields of the one it is in."""


_NONE: Final[Mapping[str, MessageField]] = MappingProxyType({})

_LONG_NAMES: Final = {
    "meta.v1": _META.rstrip("."),
    "runtime": "k8s.io.apimachinery.pkg.runtime",
    "quantity": "k8s.io.apimachinery.pkg.api.resource",
    "intstr": "k8s.io.apimachinery.pkg.util.intstr",
    "apiextensions.v1": _EXTENSIONS.rstrip("."),
}
_SHORT_NAMES: Final = {long: short for short, long in _LONG_NAMES.items()}

# In Go these have metadata but no TypeMeta: they are templates, and never objects of their own.
_TEMPLATES: Final = frozenset(
    {"PodTemplateSpec", "PersistentVolumeClaimTemplate", "JobTemplateSpec", "ResourceClaimTemplateSpec"}
)
# And these have TypeMeta without metadata.
_TYPED_WITHOUT_METADATA: Final = frozenset(
    {"DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions", "GetOptions", "ListOptions", "ApplyOptions"}
    | {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "TableOptions", "SerializedReference"}
    | {"ConversionReview"}
    | {"PodAttachOptions", "PodExecOptions", "PodLogOptions", "PodPortForwardOptions", "PodProxyOptions"}
    | {"NodeProxyOptions", "ServiceProxyOptions"}
)
_TYPE_META: Final = (
    MessageField("kind", 0, "string", False, False),
    MessageField("apiVersion", 0, "string", False, False),
)


@lru_cache(maxsize=1024)  # Names come from requests too.
def is_message(message: str) -> bool:
    """Whether the tables have it, be it without fields."""
    package, _, name = message.rpartition(".")
    return name in _package(package)


@cache
def find_fields(message: str) -> Mapping[str, MessageField]:
    """The fields that the message has in JSON, by name. Empty for one that is unknown."""
    fields = find_wire_fields(message)
    if not fields:
        return _NONE
    flat: dict[str, MessageField] = {}
    if _has_type_meta(message, fields):
        flat.update((field.name, field) for field in _TYPE_META)
    for field in fields.values():
        if field.is_inlined:
            flat.update((name, replace(inner, number=0)) for name, inner in find_fields(field.type).items())
        else:
            flat[field.name] = field
    return MappingProxyType(flat)


def find_wire_fields(message: str) -> Mapping[str, MessageField]:
    """The fields that the message has on the wire, by name. Empty for one that is unknown."""
    package, _, name = message.rpartition(".")
    return _package(package).get(name, _NONE)


def find_message(group: str, version: str, kind: str) -> str:
    """The message of a built-in kind, or the empty string if the tables have none."""
    message = message_name(group, version, kind)
    return message if is_message(message) else ""


def _has_type_meta(message: str, fields: Mapping[str, MessageField]) -> bool:
    name = message.rpartition(".")[2]
    if name in _TYPED_WITHOUT_METADATA:
        return True
    metadata = fields.get("metadata")
    return metadata is not None and metadata.type in (OBJECT_META, LIST_META) and name not in _TEMPLATES


def _package(package: str) -> Mapping[str, Mapping[str, MessageField]]:
    short = _SHORT_NAMES.get(package) or package.removeprefix("k8s.io.api.")
    text = _texts().get(short)
    # Names come from requests too: only those of packages that exist may be remembered.
    return _NONE_OF_ANY if text is None else _parse(package, text)


_NONE_OF_ANY: Final[Mapping[str, Mapping[str, MessageField]]] = MappingProxyType({})

_WITHOUT_FIELDS: Final = {_EXTENSIONS.rstrip("."): ("CustomResourceSubresourceStatus",)}


@cache
def _texts() -> Mapping[str, str]:
    """The tables by the short name of their package, which stands in brackets above the messages of it."""
    import pkgutil  # Not cheap to import, and the CLI needs no tables.

    data = pkgutil.get_data(__name__, "messages.txt")
    assert data is not None, "messages.txt is missing from the installation"
    sections = (section.partition("]\n") for section in data.decode().split("\n[")[1:])
    return {name: text for name, _, text in sections} | messages_own.PACKAGES


@cache
def _parse(package: str, text: str) -> Mapping[str, Mapping[str, MessageField]]:
    parsed: dict[str, Mapping[str, MessageField]] = dict.fromkeys(_WITHOUT_FIELDS.get(package, ()), _NONE)
    added = messages_own.ADDED.get(package, {})
    for line in text.replace("\n ", " ").split("\n"):
        if line:
            name, *fields = line.split(" ")
            fields += added.get(name, "").split()
            parsed[name] = MappingProxyType({field.name: field for field in (_field(each, package) for each in fields)})
    return MappingProxyType(parsed)


def _field(text: str, package: str) -> MessageField:
    marked_name, number, *rest = text.split(":")
    type_ = rest[0] if rest else ""
    name = marked_name.rstrip("!^")
    marks = marked_name[len(name) :]
    bare = type_.lstrip("*%") or "string"
    if "." in bare:
        short, _, message = bare.rpartition(".")
        bare = f"{_LONG_NAMES.get(short) or 'k8s.io.api.' + short}.{message}"
    elif bare not in SCALARS:
        bare = f"{package}.{bare}"
    return MessageField(name, int(number), bare, type_[:1] == "*", type_[:1] == "%", "!" in marks, "^" in marks)
