"""A change that lets a pod run, as a value: verified by the scheduler, or counted by the rules of quotas."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class CureKind(StrEnum):
    """What kind of change a cure is. Shown to users: only add."""

    WAIT_FOR_NODE = "WaitForNode"
    WAIT_FOR_PODS = "WaitForPods"
    WAIT_FOR_GHOSTS = "WaitForGhosts"
    WAIT_FOR_RESERVATION = "WaitForReservation"
    UNCORDON = "Uncordon"
    TOLERATE = "Tolerate"
    UNTAINT = "Untaint"
    LABEL_NODE = "LabelNode"
    SELECT_OTHERS = "SelectOthers"
    LOWER_REQUEST = "LowerRequest"
    SAY_REQUEST = "SayRequest"
    RELAX_SPREAD = "RelaxSpread"
    RAISE_ZONE_QUOTA = "RaiseZoneQuota"
    RAISE_QUOTA = "RaiseQuota"
    SCALE_DOWN = "ScaleDown"
    REMOVE_PODS = "RemovePods"
    ADD_NODE = "AddNode"


WAITS: Final = frozenset(
    {CureKind.WAIT_FOR_NODE, CureKind.WAIT_FOR_PODS, CureKind.WAIT_FOR_GHOSTS, CureKind.WAIT_FOR_RESERVATION}
)


@dataclass(frozen=True, slots=True)
class TriedCure:
    """A change that lets the pod run. Encodable as it is."""

    changes: tuple[CureKind, ...]
    sentence: str
    nodes: tuple[str, ...]
    """All that could take it then."""
    node: str
    """The one it would go to."""
    command: str = ""
    """To be run as it is; empty where there is none."""
    is_wait: bool = False
    """It comes by itself: no action is needed."""
    until: str = ""
    """Of a wait: when, at the latest, if that is known."""
    cost: int = 0
    """How large the change is, compared with others."""
    enough_for: int = 1
    """How many pods would get a node by it: this one, and the siblings that were asked about."""
