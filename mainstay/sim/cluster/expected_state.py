"""The state that a run should end with: a part of its scenario, compared by final_state.py."""

import msgspec

from mainstay.api.kind import Object
from mainstay.sim.cluster.differences import StateDifference


class ExpectedState(msgspec.Struct, frozen=True):
    """What a run should end with."""

    objects: dict[str, list[Object]]
    noise: list[StateDifference] = []
    """What differs between runs without a fault, too: these fields are not compared."""
