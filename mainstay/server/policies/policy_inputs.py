"""What policies are evaluated with besides the object: the namespace that it is in, and parameters. Read from the store
in the course of the write."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainstay.api import labels
from mainstay.api.kind import Kind, Object
from mainstay.server.auth.authorization import User
from mainstay.server.policies.evaluation import describe_request, show_object
from mainstay.server.policies.match_rules import PolicyWrite
from mainstay.server.policies.policy_set import BoundPolicy
from mainstay.server.storage.keyspace import build_key, build_prefix, namespace_key
from mainstay.server.storage.stored import read
from mainstay.store.interface import Entry, Store

PARAMETERS_MAX: Final = 100
"""Objects that one binding may select as parameters: a policy is evaluated with each."""


class NoParameters(Exception):
    """There are none, and the binding or the policy says that the write is refused then."""


class _NotFound(Exception):
    def __init__(self, text: str, *, is_allowed: bool = False, is_refused: bool = False) -> None:
        super().__init__(text)
        self.is_allowed = is_allowed
        self.is_refused = is_refused


class PolicyInputs:
    """`kinds` has all that are served: those of parameters are found there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.kinds: Iterable[Kind] = ()

    async def find_namespace(self, write: PolicyWrite, namespace: Entry | None) -> Object | None:
        """What a namespaceSelector is about. `namespace` is the stored one, if the caller has read it."""
        if write.kind.kind == "Namespace" and write.kind.group == "":
            return write.new or write.old
        if not write.kind.namespaced:
            return None
        entry = namespace or await self._store.get(namespace_key(write.namespace))
        return None if entry is None else {"apiVersion": "v1", "kind": "Namespace", **msgspec.json.decode(entry.value)}

    async def find_parameters(self, bound: BoundPolicy, write: PolicyWrite) -> Sequence[Object | None]:
        """Each object to evaluate a policy with; one None for a policy without parameters. Raises `NoParameters`."""
        policy, binding = bound
        if policy.spec.get("paramKind") is None or binding.parameters is None:
            return (None,)
        try:
            return await self._find(policy.spec["paramKind"], binding.parameters, write)
        except _NotFound as error:
            if error.is_allowed or not (error.is_refused or policy.fails_closed):
                return ()
            raise NoParameters(str(error)) from None

    async def _find(
        self, wanted: Mapping[str, Any], reference: Mapping[str, Any], write: PolicyWrite
    ) -> Sequence[Object]:
        kind = self._find_kind(wanted)
        namespace = (reference.get("namespace") or write.namespace) if kind.namespaced else ""
        if kind.namespaced and not namespace:
            raise _NotFound("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        if name := reference.get("name"):
            entry = await self._store.get(build_key(kind, namespace, name))
            found = [] if entry is None else [entry]
        else:
            found = await self._select(kind, namespace, reference)
        if not found:
            action = reference.get("parameterNotFoundAction")
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise _NotFound(text, is_allowed=action == "Allow", is_refused=True)
        return [show_object(kind, read(kind, each)) or {} for each in found]

    async def _select(self, kind: Kind, namespace: str, reference: Mapping[str, Any]) -> list[Entry]:
        selector = labels.from_object(reference.get("selector"))
        page = await self._store.range(build_prefix(kind, namespace), limit=10 * PARAMETERS_MAX)
        found = [each for each in page.entries if selector.matches(read(kind, each)["metadata"].get("labels") or {})]
        if page.remaining or len(found) > PARAMETERS_MAX:
            raise _NotFound(f"more than {PARAMETERS_MAX} parameters: select fewer")
        return found

    def _find_kind(self, wanted: Mapping[str, Any]) -> Kind:
        for kind in self.kinds:
            if kind.kind == wanted.get("kind") and kind.group_version == wanted.get("apiVersion") and kind.is_kept:
                return kind
        shown = f"{wanted.get('apiVersion')}, Kind={wanted.get('kind')}"
        raise _NotFound(f"failed to find resource referenced by paramKind: '{shown}'")


def build_values(write: PolicyWrite, user: User, namespace: Object | None, *, is_dry_run: bool) -> dict[str, Any]:
    """The variables that a write has, all but `params` and `variables`."""
    kind = write.kind
    return {
        "object": show_object(kind, write.new),
        "oldObject": show_object(kind, write.old),
        "request": describe_request(write, user, is_dry_run=is_dry_run),
        "namespaceObject": namespace if kind.namespaced else None,
    }
