"""A registry is slow or does not answer, as one node sees it, for a while: pulls of images take long, or fail.

Only pulls that begin meanwhile are concerned. What a node has pulled already it has.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.agent.runners.pretend_images import PullOutcome, Registry
from mainstay.sim.faults import choose_one, some_duration, victim

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

SLOW: Final = tuple(timedelta(seconds=seconds) for seconds in (5, 20, 90))


def _lacks(world: "World") -> str:
    return "" if any(each.images.registry for each in world.machines.values()) else "its nodes pull no images"


def _change(world: "World", fault: str, what: str, change: Callable[[PullOutcome], PullOutcome]) -> None:
    nodes = [name for name, each in world.machines.items() if each.images.registry is not None]
    if not nodes:
        return
    node = victim(world, fault, nodes)
    images, duration = world.machines[node].images, some_duration(world, fault)
    before: Registry | None = images.registry
    assert before is not None

    def changed(image: str) -> PullOutcome | None:
        outcome = before(image)
        return None if outcome is None else change(outcome)

    def undo() -> None:
        # Others may have changed it since, around this one: then it changes nothing any more.
        nonlocal change
        change = _leave
        if images.registry is changed:
            images.registry = before

    images.registry = changed
    world.faults.note(f"pulls of images on {node} {what} for {duration}")
    world.faults.undo_after(duration, f"pulls of images on {node} {what}", undo)


def _leave(outcome: PullOutcome) -> PullOutcome:
    return outcome


class SlowPull:
    name = "slow-pull"
    about = "a registry is slow for one node: pulls of images take long"

    def lacks(self, world: "World") -> str:
        return _lacks(world)

    def strike(self, world: "World") -> None:
        takes = choose_one(world, "fault/slow-pull/how-long", SLOW)
        _change(world, self.name, f"take {takes}", lambda outcome: replace(outcome, takes=outcome.takes + takes))


class FailedPull:
    name = "failed-pull"
    about = "a registry does not answer one node: pulls of images fail"

    def lacks(self, world: "World") -> str:
        return _lacks(world)

    def strike(self, world: "World") -> None:
        problem = "failed to pull and unpack image: dial tcp: i/o timeout"
        _change(world, self.name, "fail", lambda outcome: replace(outcome, problem=problem))
