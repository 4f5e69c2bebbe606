"""What a key of the store is about: `core/pods/default/web-1` is the pod `web-1` in `default`, of kind text `pods`.

Keys are `group/plural/namespace/name`, without the namespace for kinds that have none; `core` stands for the empty
group. The server also keeps keys about other things than objects (lineage, terms, operation ids and their answers), and
may keep more of them one day. `is_object` says which keys are objects, by what is known of *groups*: those of built-in
kinds without a dot are few and listed here, every other group has a dot, and the server's own keys begin without one
where they hold more than names. (The one exception, names that definitions have claimed, is listed.) So a new sort of
key that the journal does not know is left out of it, rather than recorded with whatever it holds.
"""

from typing import Final

from mainstay.api.object_key import ObjectKey

CORE: Final = "core"
_CLAIMED_NAMES: Final = (
    "apiextensions.k8s.io/acceptednames/"  # Which definition has which names: server/crd/definitions.py.
)
_GROUPS_WITHOUT_DOT: Final = frozenset({CORE, "apps", "autoscaling", "batch", "extensions", "policy"})


def is_object(key: str) -> bool:
    """Whether a key of the store is that of an object."""
    group, _, rest = key.partition("/")
    if key.startswith(_CLAIMED_NAMES):
        return False
    return "/" in rest and ("." in group or group in _GROUPS_WITHOUT_DOT)


def build_prefix(kind: str) -> str:
    """The beginning of the keys of a kind, from its text: `apps/deployments/` for `deployments.apps`."""
    plural, _, group = kind.partition(".")
    # Events have two groups and one place, that of the core group.
    return f"{CORE if group in ('', 'events.k8s.io') and plural == 'events' else group or CORE}/{plural}/"


def build_key(kind: str, namespace: str, name: str) -> str:
    return f"{build_prefix(kind)}{namespace}/{name}" if namespace else f"{build_prefix(kind)}{name}"


def parse_kind(key: str) -> str:
    """The kind text of an object's key."""
    group, plural, _ = key.split("/", 2)
    return plural if group == CORE else f"{plural}.{group}"


def parse_object_key(key: str) -> ObjectKey:
    namespace, _, name = key.split("/", 2)[2].rpartition("/")
    return ObjectKey(namespace, name)
