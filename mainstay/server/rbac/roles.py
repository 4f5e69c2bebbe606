"""What is known of roles and bindings: by name, by subject, with the rules that a ClusterRole aggregates.

Nothing is read or awaited here. The rules of a ClusterRole with an aggregationRule are worked out from the roles that
it selects whenever one of those changes: what is stored in its `rules` is for readers, and never stale in a decision
(service.py writes it).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from mainstay.api.labels import LabelSelector, from_object
from mainstay.server.auth.authorization import User
from mainstay.server.rbac.rules import PolicyRule, parse_rule
from mainstay.store.interface import Entry

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"{GROUP}/roles/"
CLUSTER_ROLES: Final = f"{GROUP}/clusterroles/"
ROLE_BINDINGS: Final = f"{GROUP}/rolebindings/"
CLUSTER_ROLE_BINDINGS: Final = f"{GROUP}/clusterrolebindings/"

_log = logging.getLogger(__name__)

K = TypeVar("K")
T = TypeVar("T")

RoleKey = tuple[str, str]
"""The namespace, which is empty for a ClusterRole, and the name."""


class StoredRole(Struct, frozen=True):
    rules: tuple[PolicyRule, ...]
    """As stored."""
    labels: Mapping[str, str]
    selectors: tuple[LabelSelector, ...]
    """What it aggregates, if it does."""


class BoundSubject(Struct, frozen=True):
    kind: str
    """User or Group. A service account is the user that it is."""
    name: str
    shown: str
    """As reasons say it."""


class StoredBinding(Struct, frozen=True):
    namespace: str
    name: str
    role: RoleKey
    subjects: tuple[BoundSubject, ...]

    def describe(self, subject: BoundSubject) -> str:
        """Why a subject of it is allowed something."""
        kind, shown = (
            ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else ("ClusterRoleBinding", self.name)
        )
        role = "Role" if self.role[0] else "ClusterRole"
        return f'RBAC: allowed by {kind} "{shown}" of {role} "{self.role[1]}" to {subject.shown}'


class Granted(Struct, frozen=True):
    """What a user has by one binding."""

    binding: StoredBinding
    subject: BoundSubject
    rules: tuple[PolicyRule, ...] | None
    """None: the role does not exist."""


class GrantSource(Struct, frozen=True):
    """Rules that a user has, and the objects by which: as long as these stay as they are, the user has them."""

    keys: tuple[str, ...]
    """Of the binding, of its role and, if that aggregates others, of those from there to the one with the rules."""
    rules: tuple[PolicyRule, ...]


class RoleIndex:
    """`on_change` is called after each change."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._roles: dict[RoleKey, StoredRole] = {}
        self._cluster_roles: dict[str, StoredRole] = {}
        self._aggregated: dict[str, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[str, StoredBinding] = {}
        self._revisions: dict[str, int] = {}
        # By kind and name of a subject, and by namespace, which is empty for ClusterRoleBindings.
        self._by_subject: dict[tuple[str, str, str], dict[str, StoredBinding]] = {}

    def put(self, key: str, value: bytes | None, revision: int = 0) -> None:
        """Take in what is stored under a key at a revision. None: it was deleted. What makes no sense allows nothing.

        An older version than the one that is known is left out.
        """
        if revision < self._revisions.get(key, 0):
            return
        if value is None:
            self._revisions.pop(key, None)
        else:
            self._revisions[key] = revision
        if key.startswith((ROLES, CLUSTER_ROLES)):
            self._put_role(key, value)
        else:
            self._put_binding(key, value)
        self.on_change()

    def reset(self, prefix: str, entries: Iterable[Entry]) -> None:
        """Take in all that there is of a kind. Revisions may have gone back: a store can be restored."""
        found = {entry.key: entry for entry in entries}
        for key in [key for key in self._revisions if key.startswith(prefix)]:
            del self._revisions[key]
        for key in [key for key in self._keys(prefix) if key not in found]:
            self.put(key, None)
        for key, entry in found.items():
            self.put(key, entry.value, entry.revision)

    def find_revision(self, key: str) -> int:
        """Of the version that is known. 0: none is."""
        return self._revisions.get(key, 0)

    def find_rules(self, role: RoleKey) -> tuple[PolicyRule, ...] | None:
        """What a role allows. None: it does not exist."""
        namespace, name = role
        found = self._roles.get(role) if namespace else self._cluster_roles.get(name)
        if found is None or not found.selectors:
            return None if found is None else found.rules
        known = self._aggregated.get(name)
        if known is None:
            known = self._aggregated[name] = self._aggregate(name)
        return known

    def find_role_keys(self, role: RoleKey) -> Iterator[str]:
        """Of a role that exists, and of all that it aggregates: what it allows depends on these."""
        namespace, name = role
        if namespace:
            yield f"{ROLES}{namespace}/{name}"
        else:
            yield from (CLUSTER_ROLES + path[-1] for path, _ in self._walk(name))

    def find_aggregating(self) -> Iterator[tuple[str, tuple[PolicyRule, ...], tuple[PolicyRule, ...]]]:
        """The ClusterRoles that aggregate others: name, the rules that are stored, and those that should be."""
        for name, role in sorted(self._cluster_roles.items()):
            if role.selectors:
                yield name, role.rules, self.find_rules(("", name)) or ()

    def find_granted(self, user: User, namespace: str) -> list[Granted]:
        """All that a user has in a namespace: by ClusterRoleBindings first, in the order of their names. Without a
        namespace, what they have in all of them."""
        granted: list[Granted] = []
        for where in ("", namespace) if namespace else ("",):
            found: dict[str, tuple[StoredBinding, BoundSubject]] = {}
            for kind, name in (("User", user.name), *(("Group", group) for group in user.groups)):
                for key, binding in self._by_subject.get((kind, name, where), {}).items():
                    if key not in found:
                        mine = next(each for each in binding.subjects if (each.kind, each.name) == (kind, name))
                        found[key] = binding, mine
            granted += [Granted(*found[key], self.find_rules(found[key][0].role)) for key in sorted(found)]
        return granted

    def find_sources(self, user: User, namespace: str) -> Iterator[GrantSource]:
        """The same, each with the objects by which the user has it. Roles that do not exist are left out."""
        for granted in self.find_granted(user, namespace):
            binding, (of, name) = granted.binding, granted.binding.role
            start = f"{ROLE_BINDINGS}{binding.namespace}/" if binding.namespace else CLUSTER_ROLE_BINDINGS
            key = start + binding.name
            if of:
                yield GrantSource((key, f"{ROLES}{of}/{name}"), granted.rules or ())
            elif name in self._cluster_roles:
                for path, role in self._find_parts(name):
                    yield GrantSource((key, *(CLUSTER_ROLES + each for each in path)), role.rules)

    # Roles.

    def _put_role(self, key: str, value: bytes | None) -> None:
        role = None if value is None else _parse(key, value, _parse_role)
        if key.startswith(CLUSTER_ROLES):
            _put(self._cluster_roles, key.removeprefix(CLUSTER_ROLES), role)
            self._aggregated.clear()
        else:
            namespace, _, name = key.removeprefix(ROLES).partition("/")
            _put(self._roles, (namespace, name), role)

    def _aggregate(self, name: str) -> tuple[PolicyRule, ...]:
        """The rules of all that it selects, and that these select, each once."""
        return tuple(dict.fromkeys(rule for _, role in self._find_parts(name) for rule in role.rules))

    def _find_parts(self, name: str) -> Iterator[tuple[tuple[str, ...], StoredRole]]:
        """The ClusterRoles that have the rules of one, each after the names on the way to it."""
        return ((path, role) for path, role in self._walk(name) if not role.selectors)

    def _walk(self, name: str) -> Iterator[tuple[tuple[str, ...], StoredRole]]:
        """A ClusterRole, what it selects, and what these select, each after the names on the way to it."""
        seen = {name}
        waiting: list[tuple[str, ...]] = [(name,)]
        for path in waiting:  # Those that are added meanwhile, too.
            role = self._cluster_roles[path[-1]]
            yield path, role
            for other, selected in sorted(self._cluster_roles.items()) if role.selectors else ():
                if other not in seen and any(each.matches(selected.labels) for each in role.selectors):
                    seen.add(other)
                    waiting.append((*path, other))

    # Bindings.

    def _put_binding(self, key: str, value: bytes | None) -> None:
        before = self._bindings.pop(key, None)
        if before is not None:
            for place in dict.fromkeys((each.kind, each.name, before.namespace) for each in before.subjects):
                others = self._by_subject[place]
                del others[key]
                if not others:
                    del self._by_subject[place]
        binding = None if value is None else _parse(key, value, _parse_binding)
        if binding is not None:
            self._bindings[key] = binding
            for subject in binding.subjects:
                self._by_subject.setdefault((subject.kind, subject.name, binding.namespace), {})[key] = binding

    def _keys(self, prefix: str) -> Iterator[str]:
        if prefix == ROLES:
            return (f"{ROLES}{namespace}/{name}" for namespace, name in self._roles)
        if prefix == CLUSTER_ROLES:
            return (f"{CLUSTER_ROLES}{name}" for name in self._cluster_roles)
        return (key for key in self._bindings if key.startswith(prefix))


def describe_missing_role(role: RoleKey) -> str:
    return f'{"role" if role[0] else "clusterrole"}.{GROUP} "{role[1]}" not found'


def _put(roles: dict[K, StoredRole], key: K, role: StoredRole | None) -> None:
    if role is None:
        roles.pop(key, None)
    else:
        roles[key] = role


def _parse(key: str, value: bytes, parse: Callable[[str, dict[str, Any]], T]) -> T | None:
    try:
        return parse(key, msgspec.json.decode(value))
    except (msgspec.DecodeError, TypeError, AttributeError, KeyError, ValueError) as error:
        _log.error("ignoring %s, which grants nothing: it is not readable: %s", key, error)
        return None


def _parse_role(key: str, role: dict[str, Any]) -> StoredRole:
    aggregation = role.get("aggregationRule") or {}
    return StoredRole(
        tuple(parse_rule(rule) for rule in role.get("rules") or ()),
        role["metadata"].get("labels") or {},
        tuple(from_object(each) for each in aggregation.get("clusterRoleSelectors") or ()),
    )


def _parse_binding(key: str, binding: dict[str, Any]) -> StoredBinding:
    namespace, _, name = key.removeprefix(ROLE_BINDINGS).removeprefix(CLUSTER_ROLE_BINDINGS).rpartition("/")
    reference = binding["roleRef"]
    role = (namespace if reference["kind"] == "Role" else "", reference["name"])
    subjects = tuple(_parse_subject(namespace, each) for each in binding.get("subjects") or ())
    return StoredBinding(namespace, name, role, subjects)


def _parse_subject(namespace: str, subject: dict[str, Any]) -> BoundSubject:
    kind, name = subject["kind"], subject["name"]
    if kind != "ServiceAccount":
        return BoundSubject(kind, name, f'{kind} "{name}"')
    where = subject.get("namespace") or namespace
    return BoundSubject("User", f"system:serviceaccount:{where}:{name}", f'{kind} "{name}/{where}"')
