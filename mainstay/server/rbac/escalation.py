"""Guards roles and bindings: no user grants more than they have.

A role may be written by a user who has everything that it allows, or who may `escalate` it; a binding by one who has
everything that its role allows, or who may `bind` that role. A ClusterRole that aggregates others may come to allow
anything, so this takes full access. The server itself, and members of `system:masters`, are not asked.

The write is committed on condition that the bindings and roles by which the user has these rights, and the bound role
with those that it aggregates, are still as they were when they were compared: a right that was taken away grants
nothing, and a role that was widened is compared as it is now, also when that happens in between, or on another server.
What the bound role comes to allow later is for who writes that role. One limit: a ClusterRole that the bound role has
come to select by a label, on another server, is compared only when this server has heard of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mainstay.api.errors import StatusError, StatusReason, forbidden
from mainstay.api.kind import Object
from mainstay.server.auth.authorization import User
from mainstay.server.rbac.roles import GROUP, GrantSource, RoleIndex, describe_missing_role
from mainstay.server.rbac.rules import (
    FULL_ACCESS,
    Looks,
    PolicyRule,
    TooManyValues,
    count_parts,
    describe_rules,
    find_covering,
    parse_rule,
    quote_all,
)
from mainstay.server.storage.commit_points import CommitPoint, Intended, TransactionParts
from mainstay.server.storage.transact import too_many_conflicts, transact
from mainstay.store.interface import TRANSACTION_OPERATIONS_MAX, Check, Store

LOOKS_MAX: Final = 300_000
"""At values of rules, to compare them with those that a user has: some 30 ms. All bootstrap roles take 16,000."""
KEYS_MAX: Final = TRANSACTION_OPERATIONS_MAX // 2
"""Of the objects that were compared: each is a condition of the commit."""
# What has to change for an object to go, and what the server writes itself.
_FOR_DELETION: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class EscalationPoint:
    """Implements `CommitPoint` (storage/commit_points.py), for the four kinds."""

    def __init__(self, index: RoleIndex, store: Store) -> None:
        self._index = index
        self._store = store

    def applies_to(self, intended: Intended) -> bool:
        asked = intended.context.asked
        if intended.new is None or asked is None or asked.call.user.is_master:
            return False
        return intended.old is None or not _is_release(intended.new, intended.old)

    async def parts_for(self, intended: Intended) -> TransactionParts:
        """Raises `StatusError`: 403, or 422 for a role that is too large to tell."""
        new, asked = intended.new, intended.context.asked
        if new is None or asked is None:
            raise AssertionError("only asked for writes by users")
        require = self._require_role if intended.kind.kind in ("Role", "ClusterRole") else self._require_binding

        async def attempt() -> TransactionParts | None:
            keys = require(asked.call.user, intended, new)
            # Of the versions that were compared. The index goes on while the store is read.
            known = {key: self._index.find_revision(key) for key in keys}
            if not await self._is_current(known):
                return None
            # The write itself checks the version of its own object.
            return TransactionParts(checks=[Check(*each) for each in known.items() if each[0] != intended.key])

        parts = await transact(attempt)
        if parts is None:
            raise too_many_conflicts("the roles of the user")
        return parts

    async def _is_current(self, known: Mapping[str, int]) -> bool:
        """Whether the store has these objects at these revisions. If not, the index has what the store has."""
        found = {key: await self._store.get(key) for key in known}
        changed = {key: entry for key, entry in found.items() if entry is None or entry.revision != known[key]}
        for key, entry in changed.items():
            if entry is None:
                self._index.put(key, None, known[key])
            else:
                self._index.put(key, entry.value, entry.revision)
        return not changed

    def _require_role(self, user: User, intended: Intended, role: Object) -> Sequence[str]:
        """The objects by which the user may write a role. Raises `StatusError`."""
        kind, name, namespace = intended.kind, role["metadata"]["name"], role["metadata"].get("namespace", "")
        sources = list(self._index.find_sources(user, namespace))
        if found := _find_allowing(sources, "escalate", kind.plural, name):
            return found.keys
        keys, missing = _find_keys(user, sources, FULL_ACCESS)
        if not missing:
            return keys
        keys, missing = _find_keys(user, sources, [parse_rule(rule) for rule in role.get("rules") or ()])
        if missing:
            raise forbidden(kind.plural, kind.group, name, missing)
        if any((each or {}).get("aggregationRule") for each in (role, intended.old)):
            text = "must have cluster-admin privileges to use an aggregationRule"
            raise forbidden(kind.plural, kind.group, name, text)
        return keys

    def _require_binding(self, user: User, intended: Intended, binding: Object) -> Sequence[str]:
        """The objects by which the user may write a binding, and those of the bound role, if it matters what that
        allows. Raises `StatusError`."""
        kind, name, namespace = intended.kind, binding["metadata"]["name"], binding["metadata"].get("namespace", "")
        reference: dict[str, Any] = binding["roleRef"]
        is_role = reference["kind"] == "Role"
        sources = list(self._index.find_sources(user, namespace))
        if found := _find_allowing(sources, "bind", "roles" if is_role else "clusterroles", reference["name"]):
            return found.keys
        role = (namespace if is_role else "", reference["name"])
        rules = self._index.find_rules(role)
        if rules is None:
            raise StatusError(404, StatusReason.NOT_FOUND, describe_missing_role(role), {})
        keys, missing = _find_keys(user, sources, FULL_ACCESS)
        if not missing:
            return keys
        keys, missing = _find_keys(user, sources, rules, self._index.find_role_keys(role))
        if missing:
            raise forbidden(kind.plural, kind.group, name, missing)
        return keys


def _find_allowing(sources: Sequence[GrantSource], verb: str, plural: str, name: str) -> GrantSource | None:
    """By which a user may do this with roles."""
    for source in sources:
        for rule in source.rules:
            if rule.allows_resource(verb, GROUP, plural, "") and (not rule.names or name in rule.names):
                return source
    return None


def _find_keys(
    user: User, sources: Sequence[GrantSource], wanted: Sequence[PolicyRule], others: Iterable[str] = ()
) -> tuple[Sequence[str], str]:
    """The objects by which a user has the wanted rules, after others; and what keeps the user from granting them: empty
    for nothing. Raises `StatusError` (422)."""
    looks = Looks(LOOKS_MAX)
    others = tuple(others)

    def cover(tried: Sequence[GrantSource]) -> tuple[Sequence[str], Sequence[PolicyRule]]:
        taken, missing = find_covering([source.rules for source in tried], wanted, looks)
        return list(dict.fromkeys([*others, *(key for number in taken for key in tried[number].keys)])), missing

    try:
        keys, missing = cover(sources)
        if not missing and len(keys) > KEYS_MAX:
            # Few may be enough: begin with those that leave the least.
            left = [count_parts(find_covering([source.rules], wanted, looks)[1]) for source in sources]
            keys, missing = cover([sources[number] for number in sorted(range(len(sources)), key=left.__getitem__)])
    except TooManyValues:
        text = "the role has too many rules and values to compare with those that the user has: split the role"
        raise StatusError(422, StatusReason.INVALID, text) from None
    if missing:
        who = f"user {quote_all([user.name])[1:-1]} (groups={quote_all(user.groups)})"
        return (), f"{who} is attempting to grant RBAC permissions not currently held:\n{describe_rules(missing)}"
    if len(keys) > KEYS_MAX:
        text = (
            f"whether the user has these rights depends on {len(keys)} roles and bindings, at most {KEYS_MAX} are"
            " compared: bind fewer roles to the user, or aggregate fewer"
        )
        raise StatusError(422, StatusReason.INVALID, text)
    return keys, ""


def _is_release(new: Object, old: Object) -> bool:
    """Whether a change is of owners and finalizers alone: it grants nothing."""
    return _without_release(new) == _without_release(old)


def _without_release(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _FOR_DELETION}
    return {**obj, "metadata": metadata}


def build_points(point: EscalationPoint) -> dict[tuple[str, str], Sequence[CommitPoint]]:
    return {(GROUP, kind): (point,) for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")}
