"""How one decision by a candidate policy differs from the recorded one, and for which reason.

Both were made on the same view, so the policy is all that differs. A node that the recorded policy chose and the
candidate rejects, or the other way round, is explained by the filters that reject it; two nodes that both can take the
pod, by their scores.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mainstay.scheduler.comparison.candidate import NotApplied
from mainstay.scheduler.comparison.fold import DecisionPoint
from mainstay.scheduler.filters import table as filtering
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.policy_class import class_under
from mainstay.scheduler.reasons import Decision, Placed, Unschedulable, find_gravest
from mainstay.scheduler.why.placement import NO_OTHER_NODE

HIGHER_SCORE: Final = "HigherScore"


class PlacementChange(StrEnum):
    """What a candidate policy makes of a decision. Shown to users: only add."""

    SAME_NODE = "SameNode"
    STILL_UNSCHEDULABLE = "StillUnschedulable"
    OTHER_NODE = "OtherNode"
    NOW_UNSCHEDULABLE = "NowUnschedulable"
    NOW_PLACED = "NowPlaced"

    @property
    def is_difference(self) -> bool:
        return self not in (PlacementChange.SAME_NODE, PlacementChange.STILL_UNSCHEDULABLE)


@dataclass(frozen=True, slots=True)
class Difference:
    change: PlacementChange
    reason: str = ""
    """`HigherScore`, the reason of a filter (`ZoneSkewTooLarge`), or why the candidate does not apply."""
    node: str = ""
    """That the candidate chooses."""


def find_difference(point: DecisionPoint, recorded: Decision | None, candidate: Policy | NotApplied) -> Difference:
    """Decide by the candidate, and compare with what the recorded policy decides on the same view. Where the candidate
    does not apply, all stays the same."""
    if isinstance(candidate, NotApplied):
        node = recorded.node if isinstance(recorded, Placed) else ""
        return Difference(_unchanged(recorded), str(candidate), node)
    now = point.decide(candidate)
    match recorded, now:
        case Placed(node=before), Placed(node=after) if before == after:
            return Difference(PlacementChange.SAME_NODE, node=after)
        case Placed(node=before), Placed(node=after):
            return Difference(PlacementChange.OTHER_NODE, _find_rejection(point, candidate, before), after)
        case Placed(node=before), _:
            return Difference(PlacementChange.NOW_UNSCHEDULABLE, _find_reason(now, before))
        case _, Placed(node=after):
            return Difference(PlacementChange.NOW_PLACED, _find_reason(recorded, after), after)
        case _:
            return Difference(PlacementChange.STILL_UNSCHEDULABLE)


def _unchanged(recorded: Decision | None) -> PlacementChange:
    return PlacementChange.SAME_NODE if isinstance(recorded, Placed) else PlacementChange.STILL_UNSCHEDULABLE


def _find_rejection(point: DecisionPoint, policy: Policy, node: str) -> str:
    """Why a policy does not choose a node that another one does. The other one shows that the pod passes all filters
    there but that of spread constraints, the only one that policies change."""
    pod_class, columns = class_under(point.pod, policy), point.vectors.columns
    ring, totals = point.vectors.of(pod_class, policy).totals()
    row = columns.find_row(node)
    place = None if row is None else ring.places.get(row)
    if place is not None and totals[place] >= 0:
        return HIGHER_SCORE
    found = filtering.refusals_by_policy(columns, pod_class)
    return find_gravest([each.reason for each in found if node in each.nodes])


def _find_reason(no: Unschedulable | Placed | None, node: str) -> str:
    """Why a node was not chosen where none was."""
    if not isinstance(no, Unschedulable):
        return NO_OTHER_NODE
    return find_gravest([each.reason for each in no.refusals if node in each.nodes])
