"""How long to wait before asking again: longer each time, and never exactly as long as other clients."""

from datetime import timedelta
from random import Random
from typing import Final

FIRST: Final = timedelta(milliseconds=50)
LONGEST: Final = timedelta(seconds=1)


def delay_after(failures: int, jitter: Random) -> timedelta:
    """The wait after this many failures in a row, the first one being 1."""
    # 2**10 times the first one is beyond the longest already; without a bound the number would grow for ever.
    longest = min(FIRST * (1 << min(failures - 1, 10)), LONGEST)
    return longest * (0.5 + 0.5 * jitter.random())
