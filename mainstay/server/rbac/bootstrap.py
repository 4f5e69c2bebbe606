"""Makes the roles and bindings that every cluster has, and brings back what is missing of them, when a server starts.

How they are written is in storage/default_objects.py. What an administrator has added to a role or binding stays. One
with the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` is left alone. A binding to another role than
it should be to is replaced.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from mainstay.api import times
from mainstay.api.kind import Kind, Object
from mainstay.api.kinds import rbac
from mainstay.env import Env
from mainstay.server.rbac import bootstrap_policy
from mainstay.server.rbac.bootstrap_policy import BootstrapBinding, BootstrapRole
from mainstay.server.rbac.roles import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLE_BINDINGS, ROLES, RoleIndex
from mainstay.server.rbac.rules import find_uncovered, parse_rule, split_rule
from mainstay.server.storage.default_objects import begin_default, build_default, reconcile
from mainstay.server.storage.keyspace import build_key
from mainstay.server.storage.stored import stored
from mainstay.store.interface import ABSENT, Check, Entry, Put, Store

AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_MANAGER: Final = "mainstay"

_decode = msgspec.json.Decoder().decode


async def reconcile_roles(store: Store, env: Env) -> None:
    """Write what is missing. Raises `StatusError`, `StoreError`."""
    prefixes = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
    await reconcile(store, prefixes, lambda entries: find_changes(entries, env), "the bootstrap roles")


def find_changes(entries: Mapping[str, Entry], env: Env) -> list[tuple[Check, Put]]:
    """What is to be written, given what is there."""
    now = times.format_time(env.clock.wall())
    changes = []
    for number, (key, wanted) in enumerate(build_objects().items()):
        entry = entries.get(key)
        if entry is None:
            made = begin_default(wanted, env.chance.uid("bootstrap role", number), now)
            changes.append((Check(key, ABSENT), Put(key, stored(made))))
            continue
        found: Object = _decode(entry.value)
        metadata = found["metadata"]
        if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false" or "deletionTimestamp" in metadata:
            continue
        merged = _merge(found, wanted)
        if merged != found:
            changes.append((Check(key, entry.revision), Put(key, stored(merged))))
    return changes


@cache
def build_objects() -> Mapping[str, Object]:
    """All of them, by key, without what differs from cluster to cluster."""
    objects = {}
    for role in bootstrap_policy.ROLES:
        kind = rbac.ROLE if role.namespace else rbac.CLUSTER_ROLE
        objects[build_key(kind, role.namespace, role.name)] = _build(kind, role, _role_parts(role))
    for binding in bootstrap_policy.BINDINGS:
        kind = rbac.ROLE_BINDING if binding.namespace else rbac.CLUSTER_ROLE_BINDING
        objects[build_key(kind, binding.namespace, binding.name)] = _build(kind, binding, _binding_parts(binding))
    # What an aggregating role shows as its rules is what the others have: nothing has to be written again later.
    index = RoleIndex()
    for key, obj in objects.items():
        index.put(key, stored(obj))
    for name, _, rules in index.find_aggregating():
        objects[build_key(rbac.CLUSTER_ROLE, "", name)]["rules"] = [rule.as_object() for rule in rules]
    return objects


def _build(kind: Kind, source: BootstrapRole | BootstrapBinding, parts: Object) -> Object:
    metadata: Object = {"name": source.name}
    if source.namespace:
        metadata["namespace"] = source.namespace
    metadata["annotations"] = {AUTOUPDATE: "true"}
    metadata["labels"] = dict(_LABELS)
    if isinstance(source, BootstrapRole) and source.label:
        metadata["labels"][source.label] = "true"
    return build_default(kind, {"metadata": metadata, **parts}, _MANAGER)


def _role_parts(role: BootstrapRole) -> Object:
    if not role.aggregates:
        return {"rules": [rule.as_object() for rule in role.rules]}
    return {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {role.aggregates: "true"}}]}, "rules": []}


def _binding_parts(binding: BootstrapBinding) -> Object:
    named = [("User", name) for name in binding.users] + [("Group", name) for name in binding.groups]
    parts: Object = {"roleRef": {"apiGroup": GROUP, "kind": binding.role[0], "name": binding.role[1]}}
    if named:
        parts["subjects"] = [{"apiGroup": GROUP, "kind": kind, "name": name} for kind, name in named]
    return parts


# What is missing.


def _merge(found: Object, wanted: Object) -> Object:
    metadata = dict(found["metadata"])
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), **wanted["metadata"][field]}
    merged = {**found, "metadata": metadata}
    if "roleRef" in wanted:
        return _merge_binding(merged, wanted)
    if "aggregationRule" in wanted:
        return _merge_aggregation(merged, wanted)
    have = [parse_rule(rule) for rule in found.get("rules") or ()]
    missing = find_uncovered(have, [parse_rule(rule) for rule in wanted["rules"]])
    if missing:
        parts = [part.as_object() for rule in missing for part in split_rule(rule)]
        merged["rules"] = [*(found.get("rules") or ()), *parts]
    return merged


def _merge_aggregation(merged: Object, wanted: Object) -> Object:
    selectors = (merged.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    missing = [each for each in wanted["aggregationRule"]["clusterRoleSelectors"] if each not in selectors]
    return {**merged, "aggregationRule": {"clusterRoleSelectors": [*selectors, *missing]}} if missing else merged


def _merge_binding(merged: Object, wanted: Object) -> Object:
    if merged["roleRef"] != wanted["roleRef"]:
        return {**merged, "roleRef": wanted["roleRef"], "subjects": wanted.get("subjects", [])}
    subjects: list[Any] = merged.get("subjects") or []
    missing = [each for each in wanted.get("subjects", ()) if each not in subjects]
    return {**merged, "subjects": [*subjects, *missing]} if missing else merged
