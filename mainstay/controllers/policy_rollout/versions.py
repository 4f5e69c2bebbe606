"""Which rollouts use a version of a policy, each of which is a PlacementPolicy of its own, and which are under way.

A rollout uses the versions that its spec names, and those that it has claimed in its status. There are few at a time,
but those that have ended stay for as long as users keep them: so rollouts are found by version and by phase, and those
that have ended are not read again at each change of a policy or of a component.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import POLICY_ROLLOUTS
from mainstay.api.object_key import ObjectKey
from mainstay.api.policy_rollout import ENDED, RolloutPhase
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.client.indexes import Index, field
from mainstay.loop.view import View

_ROLES: Final = ("policy", "previous")


def _list_versions(rollout: Any) -> Iterable[str]:
    spec = rollout.get("spec") or {}
    return sorted(({str(spec.get(role) or "") for role in _ROLES} | _read_claims(rollout)) - {""})


def _read_claims(rollout: Object) -> set[str]:
    status = rollout.get("status") or {}
    return {str((status.get(role) or {}).get("name") or "") for role in _ROLES}


POLICY_VERSION: Final = Index("policy-version", (), _list_versions)
"""Rollouts by the names of the PlacementPolicies that they use."""
PHASE: Final = field("status", "phase", name="phase")


def wake_users(change: Change, rollouts: Cache) -> Iterable[ObjectKey]:
    """Wakes the rollouts that use a policy, unless they have ended."""
    found = rollouts.by(POLICY_VERSION.name, change.key.name)
    return [key for key in found if not ENDED.intersection(rollouts.find_values(key, PHASE.name))]


def wake_progressing(change: Change, rollouts: Cache) -> Iterable[ObjectKey]:
    """Wakes those with a stage in effect, when a component has published something else than before."""
    return rollouts.by(PHASE.name, RolloutPhase.PROGRESSING)


def list_claims(view: View, names: Collection[str]) -> list[Object]:
    """The rollouts that have claimed one of these policies."""
    found = view.by_all(POLICY_ROLLOUTS, {POLICY_VERSION.name: names})
    return [each for each in found if not _read_claims(each).isdisjoint(names)]
