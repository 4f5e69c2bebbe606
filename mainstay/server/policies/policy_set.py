"""The policies of one sort that this server has seen, with their bindings, and which of them a write meets."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import VALIDATING_ADMISSION_POLICIES
from mainstay.journal.record import AppliedPolicy
from mainstay.server.policies.match_rules import MatchRules, parse_match
from mainstay.store.interface import Entry

GROUP: Final = VALIDATING_ADMISSION_POLICIES.group
_FOUND_MAX: Final = 10_000  # Resources whose policies are remembered.


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    kind: KindName
    name: str
    uid: str
    revision: int
    match: MatchRules
    spec: Mapping[str, Any]
    """As it is stored."""

    @property
    def fails_closed(self) -> bool:
        return bool(self.spec.get("failurePolicy") != "Ignore")


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    name: str
    revision: int
    policy: str
    actions: tuple[str, ...]
    """Its `validationActions`, if it validates."""
    match: MatchRules
    parameters: Mapping[str, Any] | None
    """Its `paramRef`."""


BoundPolicy = tuple[AdmissionPolicy, PolicyBinding]


class PolicySet:
    """Kept up to date by a follower (admission_policies.py)."""

    def __init__(self, policies: KindName, bindings: KindName) -> None:
        self.kind = policies
        self._binding_kind = bindings
        self.policies_prefix = f"{policies.group}/{policies.plural}/"
        self.bindings_prefix = f"{bindings.group}/{bindings.plural}/"
        self._policies: dict[str, AdmissionPolicy] = {}
        self._bindings: dict[str, PolicyBinding] = {}
        self._found: dict[tuple[str, str], tuple[BoundPolicy, ...]] = {}
        self.is_empty = True
        """Whether no policy is bound. With every write: nothing else is looked at then."""

    def find(self, group: str, resource: str) -> tuple[BoundPolicy, ...]:
        """Those that can be about a resource, in the order of their names."""
        known = self._found.get((group, resource))
        if known is None:
            if len(self._found) >= _FOUND_MAX:
                self._found.clear()
            known = self._found[group, resource] = self._search(group, resource)
        return known

    def learn(self, entry: Entry) -> None:
        """Take in an object as it is stored."""
        obj = msgspec.json.decode(entry.value)
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        if entry.key.startswith(self.policies_prefix):
            match = parse_match(spec.get("matchConstraints"))
            policy = AdmissionPolicy(self.kind, metadata["name"], metadata["uid"], entry.revision, match, spec)
            self._policies[policy.name] = policy
        else:
            match = parse_match(spec.get("matchResources"))
            actions = tuple(spec.get("validationActions") or ())
            name = metadata["name"]
            self._bindings[name] = PolicyBinding(
                name, entry.revision, spec.get("policyName") or "", actions, match, spec.get("paramRef")
            )
        self._changed()

    def forget(self, key: str) -> None:
        """An object was deleted."""
        name = key.rpartition("/")[2]
        (self._policies if key.startswith(self.policies_prefix) else self._bindings).pop(name, None)
        self._changed()

    def clear(self, prefix: str) -> None:
        (self._policies if prefix == self.policies_prefix else self._bindings).clear()
        self._changed()

    def list_revisions(self) -> dict[str, int]:
        """The revision of each policy and binding, by `plural/name`."""
        found = {f"{self.kind.plural}/{each.name}": each.revision for each in self._policies.values()}
        plural = self._binding_kind.plural
        found |= {f"{plural}/{each.name}": each.revision for each in self._bindings.values()}
        return dict(sorted(found.items()))

    def _changed(self) -> None:
        self._found.clear()
        self.is_empty = not any(each.policy in self._policies for each in self._bindings.values())

    def _search(self, group: str, resource: str) -> tuple[BoundPolicy, ...]:
        if is_exempt(group, resource):
            return ()
        return tuple(
            (policy, binding)
            for _, binding in sorted(self._bindings.items(), key=lambda item: (item[1].policy, item[0]))
            if (policy := self._policies.get(binding.policy)) is not None
            and policy.match.covers(group, resource)
            and binding.match.covers(group, resource)
        )


def list_applied(bound: Iterable[BoundPolicy]) -> Iterator[AppliedPolicy]:
    """Each policy once, in the version that applied."""
    seen: set[str] = set()
    for policy, _ in bound:
        if policy.name not in seen:
            seen.add(policy.name)
            yield AppliedPolicy(policy.kind.text, policy.name, policy.uid, policy.revision)


_EXEMPT: Final = frozenset(
    {
        *(
            (GROUP, f"{sort}admissionpolic{rest}")
            for sort in ("validating", "mutating")
            for rest in ("ies", "ybindings")
        ),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)


def is_exempt(group: str, resource: str) -> bool:
    """Whether no policy holds for it: with a policy that refuses policies, no user could undo it."""
    return (group, resource) in _EXEMPT
