"""The smallest sets that have something in common with each of some sets: an exact search for a few elements."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def hitting_sets(
    ways: Sequence[Callable[[T], bool]], options: Sequence[Sequence[T]], size: int
) -> Iterator[tuple[T, ...]]:
    """All sets of exactly this size that hit each way, and of which no part does.

    A way says of an element whether it hits it; `options` has, in order, the elements that hit each. The sets come in
    that order, each once, with its elements in the order in which they were found necessary.
    """
    given: dict[frozenset[T], None] = {}

    def grow(chosen: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
        missed = next((place for place, is_hit in enumerate(ways) if not any(map(is_hit, chosen))), None)
        if missed is None:
            if len(chosen) == size and frozenset(chosen) not in given and _is_smallest(ways, chosen):
                given[frozenset(chosen)] = None
                yield chosen
            return
        if len(chosen) < size:
            for option in options[missed]:
                yield from grow((*chosen, option))

    yield from grow(())


def _is_smallest(ways: Sequence[Callable[[T], bool]], chosen: tuple[T, ...]) -> bool:
    """Whether it needs all of its elements."""
    for left_out in chosen:
        others = [each for each in chosen if each != left_out]
        if all(any(map(is_hit, others)) for is_hit in ways):
            return False
    return True
