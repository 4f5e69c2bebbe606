"""Remembers what was computed from short texts.

Clients choose the texts: a memory of a thousand answers is a small one only if the questions are short.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

LENGTH_MAX: Final = 512

T = TypeVar("T")


def remember_short(size: int, length_max: int = LENGTH_MAX) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """As `lru_cache` of this size, for a function of one text; but longer texts are computed each time."""

    def decorate(compute: Callable[[str], T]) -> Callable[[str], T]:
        remembered = lru_cache(maxsize=size)(compute)

        @wraps(compute)
        def answer(text: str) -> T:
            return remembered(text) if len(text) <= length_max else compute(text)

        return answer

    return decorate
