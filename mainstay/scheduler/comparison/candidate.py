"""Which pods would go by a candidate policy, had it been active all the time.

A candidate with a scope joins the policies that were active at each decision, and the most specific scope wins, as
among active ones. It takes the place of a policy of its own name, and of those that it ties with: the API server would
refuse to activate both. A candidate without a scope takes the place of the base, whatever that was.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PLACEMENT_POLICIES
from mainstay.api.policy_scope import is_active, overlap, parse_scope, selects, specificity
from mainstay.explain.rebuild import RebuiltObjects
from mainstay.journal.record import DecisionRecord
from mainstay.scheduler.active_policies import ActivePolicies, build_policies
from mainstay.scheduler.comparison.history import PlacementHistory
from mainstay.scheduler.pod_class import PodToPlace
from mainstay.scheduler.policy import Policy

_POLICIES: Final = PLACEMENT_POLICIES.text
CHOICES_MAX: Final = 10_000
"""That are remembered."""


def build_candidate(placement_policy: Object) -> Object:
    """A PlacementPolicy as if it were active. It is valid: the caller has seen to that."""
    spec = {name: value for name, value in placement_policy["spec"].items() if name != "shadow"}
    return {**placement_policy, "spec": {**spec, "active": True}}


class NotApplied(StrEnum):
    """Why a decision would not go by the candidate. Shown to users: only add."""

    NOT_IN_SCOPE = "NotInScope"
    MORE_SPECIFIC_POLICY = "MoreSpecificPolicy"
    """The pod is in its scope, and another policy that selects it is more specific."""


@dataclass(slots=True)
class CandidateChoice:
    """Says for each decision what it would go by."""

    history: PlacementHistory
    candidate: Object
    replaced: dict[str, None] = field(default_factory=dict)
    """The active policies whose place it takes."""
    _base: str = ""
    _kept: dict[tuple[int, str], ActivePolicies] = field(default_factory=dict)
    _chosen: dict[tuple[Any, ...], Policy | NotApplied] = field(default_factory=dict)
    """By policies and by what a choice depends on. Pods of one workload share an entry."""

    @property
    def name(self) -> str:
        return str(self.candidate["metadata"]["name"])

    @property
    def has_scope(self) -> bool:
        return parse_scope(self.candidate) is not None

    async def choose(self, record: DecisionRecord, pod: PodToPlace, past: RebuiltObjects) -> Policy | NotApplied:
        """What a decision would go by, or why it goes by what it did."""
        revision = next((each.revision for each in record.view if each.kind == _POLICIES), 0)
        changes = self.history.changes[_POLICIES]
        version = bisect_right(changes, revision, key=lambda each: each.revision)
        key = (version, record.policies, pod.pod_class.key, pod.charge.key, pod.priority_class, pod.workload)
        chosen = self._chosen.get(key)
        if chosen is None:
            if len(self._chosen) >= CHOICES_MAX:
                self._chosen.clear()
            chosen = self._chosen[key] = await self._choose(record, pod, past, version, revision)
        return chosen

    async def _choose(
        self, record: DecisionRecord, pod: PodToPlace, past: RebuiltObjects, version: int, revision: int
    ) -> Policy | NotApplied:
        named = record.policies[0].name if record.policies else ""
        policies = self._kept.get((version, named))
        if policies is None:
            objects, _ = await past.all(PLACEMENT_POLICIES, revision)
            policies = self._kept[version, named] = self._join(objects, named)
        chosen = policies.choose(pod)
        names = [each.name for each in chosen.named]
        if self.name in names or names != [each.name for each in record.policies]:
            return chosen.policy
        scope = parse_scope(self.candidate)
        is_selected = scope is None or selects(scope, pod.scoped)
        return NotApplied.MORE_SPECIFIC_POLICY if is_selected else NotApplied.NOT_IN_SCOPE

    def _join(self, objects: Sequence[Object], named: str) -> ActivePolicies:
        """The active policies with the candidate among them. `named` is the one that a decision went by."""
        active = [each for each in objects if is_active(each)]
        if any(each["metadata"]["name"] == named and parse_scope(each) is None for each in active):
            self._base = named
        replaced = [each["metadata"]["name"] for each in active if self._replaces(each)]
        self.replaced |= dict.fromkeys(replaced)
        kept = [each for each in active if each["metadata"]["name"] not in replaced]
        return build_policies([*kept, self.candidate], self._base if self.has_scope else self.name)

    def _replaces(self, other: Object) -> bool:
        name = other["metadata"]["name"]
        scope, others = parse_scope(self.candidate), parse_scope(other)
        if name == self.name:
            return True
        if scope is None or others is None:
            return scope is None and others is None and name == self._base
        return specificity(scope) == specificity(others) and overlap(scope, others)
