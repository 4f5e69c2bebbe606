"""What became of the decisions by each placement policy: the figures that a rollout compares versions by.

One entry per policy that some pod may go by, or that is decided by in shadow (shadow.py), in the revision that this
scheduler knows. They begin at 0 when it learns of a revision, so that a figure never mixes two stages of a rollout, and
when its process restarts; `since` says when that was. Pods that go by no PlacementPolicy are counted under `default`.

An answer to a binding counts for the revision that the decision went by. If the policy has changed meanwhile it counts
for none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mainstay.api import times
from mainstay.api.causes import BindingCause
from mainstay.journal.record import AppliedPolicy

_BUILT_IN: Final = "default"
_POD_ENDED: Final = (BindingCause.POD_DELETED, BindingCause.POD_GONE)
_CONFLICTS: Final = (
    BindingCause.ALREADY_BOUND,
    BindingCause.CAPACITY_CHANGED,
    BindingCause.PORT_TAKEN,
    BindingCause.RESERVATION_HELD,
    BindingCause.STALE,
)


@dataclass(slots=True)
class PolicyFigures:
    """Of one revision of one policy."""

    policy: str
    uid: str
    revision: int
    since: datetime
    decided: int = 0
    placed: int = 0
    """Decisions that found a node, whatever the server then said."""
    unschedulable: int = 0
    refused_at_commit: int = 0
    """Bindings that the API server refused, but for those of pods that were deleted."""
    conflicts: int = 0
    """Those of them that came too late: another writer was first."""
    shadowed: int = 0
    """Decisions that were also made by this policy while it did not apply."""
    shadow_different: int = 0
    """Those of them that came out differently."""
    shadow_unplaced: int = 0
    """Those of these that found no node where the policy that applied did."""
    shadow_errors: int = 0

    def count_refusal(self, cause: BindingCause) -> None:
        """The server has refused a binding."""
        if cause not in _POD_ENDED:
            self.refused_at_commit += 1
            self.conflicts += cause in _CONFLICTS

    def describe(self) -> Mapping[str, Any]:
        """As a ComponentState has it."""
        return {
            "policy": self.policy,
            "uid": self.uid,
            "revision": self.revision,
            "since": times.format_time(self.since),
            "decided": self.decided,
            "placed": self.placed,
            "unschedulable": self.unschedulable,
            "refusedAtCommit": self.refused_at_commit,
            "conflicts": self.conflicts,
            "shadowed": self.shadowed,
            "shadowDifferent": self.shadow_different,
            "shadowUnplaced": self.shadow_unplaced,
        }


class FiguresByPolicy:
    """Of the policies that are known. `find` never fails: what is counted for an unknown revision is lost."""

    def __init__(self) -> None:
        self._known: dict[str, PolicyFigures] = {}
        """By name; that of the built-in policy is empty."""

    def learn(self, policies: Iterable[AppliedPolicy], now: datetime) -> None:
        """These are the policies that there are from now on, beside the built-in one."""
        known, self._known = self._known, {}
        self._known[""] = known.get("") or PolicyFigures(_BUILT_IN, "", 0, now)
        for each in policies:
            found = known.get(each.name)
            is_same = found is not None and (found.uid, found.revision) == (each.uid, each.revision)
            new = PolicyFigures(each.name, each.uid, each.revision, now)
            self._known[each.name] = found if found is not None and is_same else new

    def find(self, named: tuple[AppliedPolicy, ...]) -> PolicyFigures | None:
        """Those of what a decision goes by, as its record names it. None: it is another revision, or gone."""
        if not named:
            return self._known.get("")
        found = self._known.get(named[0].name)
        return found if found is not None and found.revision == named[0].revision else None

    def all(self) -> list[PolicyFigures]:
        return [self._known[name] for name in sorted(self._known)]
