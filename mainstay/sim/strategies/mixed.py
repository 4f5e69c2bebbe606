"""Each run has one of the other strategies, drawn from its seed: what one of them never finds, another does.

One that is given twice is drawn twice as often.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mainstay.sim.strategies import Strategy

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_LABEL: Final = "strategy/mixed"


class Mixed:
    name = "mixed"
    about = "one of these, drawn for each run"

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        self._strategies = strategies

    def disturb(self, world: "World", allowed: tuple[str, ...]) -> None:
        choices = world.sim.choices
        choices.occurs(_LABEL, 1)  # So that a tape says whose it is.
        self._strategies[choices.choose(f"{_LABEL}/which", len(self._strategies))].disturb(world, allowed)
