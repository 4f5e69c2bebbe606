"""All strategies, by name. The first is the default.

Each but the first leaves a mark among the choices of a run, `strategy/NAME`, by which a tape tells it. A tape without a
mark is replayed as one of random faults; faults at writes and deliveries are the same choices in all of them.
"""

from typing import Final

from mainstay.sim.run.choices import Choices
from mainstay.sim.strategies import Strategy
from mainstay.sim.strategies.mixed import Mixed
from mainstay.sim.strategies.near_writes import NearWrites
from mainstay.sim.strategies.priorities import PriorityStrategy
from mainstay.sim.strategies.random_faults import RandomFaults

RANDOM: Final = RandomFaults()
NEAR_WRITES: Final = NearWrites()
PRIORITIES: Final = PriorityStrategy()
MIXED: Final = Mixed((RANDOM, NEAR_WRITES, RANDOM, PRIORITIES))

STRATEGIES: Final[dict[str, Strategy]] = {
    strategy.name: strategy for strategy in (RANDOM, NEAR_WRITES, PRIORITIES, MIXED)
}


def describe_strategy(strategy: Strategy, choices: Choices) -> str:
    """What to say of a run that has begun with a strategy: its name, and that of the one it has drawn."""
    if strategy is not MIXED:
        return strategy.name
    made = {choice.label: None for choice in choices.tape if choice.chosen}
    drawn = next((each for each in (NEAR_WRITES, PRIORITIES) if f"strategy/{each.name}" in made), RANDOM)
    return f"{strategy.name}, {drawn.name}"


def choose_strategy(choices: Choices) -> Strategy:
    """That of the tape which these choices follow."""
    # The one that draws others first: it leaves the mark of the one that it has drawn as well.
    for strategy in (MIXED, NEAR_WRITES, PRIORITIES):
        if choices.says(f"strategy/{strategy.name}"):
            return strategy
    return RANDOM
