"""Where objects are in the store: `group/plural/namespace/name`, so that a kind, and a namespace of it, is a prefix.

Versions of a kind are views of the same objects, so the version is not part of a key.
"""

from mainstay.api.kind import Kind

CORE = "core"  # Stands for the empty group.
INTERNAL_PREFIX = "~"  # How keys begin that are no objects: clients can neither list nor watch them.


def build_prefix(kind: Kind, namespace: str = "") -> str:
    """The beginning of the keys of a kind, or of those in one namespace."""
    group = "" if (kind.group, kind.plural) == ("events.k8s.io", "events") else kind.group  # The same events as core's.
    return f"{group or CORE}/{kind.plural}/{namespace}/" if namespace else f"{group or CORE}/{kind.plural}/"


def build_key(kind: Kind, namespace: str, name: str) -> str:
    return build_prefix(kind, namespace) + name


def build_resource_prefix(resource: tuple[str, str], namespace: str) -> str:
    """The beginning of the keys of a kind in one namespace, where only its group and plural are known."""
    group, plural = resource
    return f"{group or CORE}/{plural}/{namespace}/"


def namespace_key(name: str) -> str:
    return f"{CORE}/namespaces/{name}"
