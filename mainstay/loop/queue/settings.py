"""The operating parameters of a work queue, each with what it is for. docs/guides/work-queue.md explains how to choose.

They are one frozen value, so that a component can publish what it runs with, and a record can name it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from mainstay.api.retry_shape import RetryShape
from mainstay.loop.queue.items import Priority

DEFAULT_RETRY: Final = RetryShape(
    attempts_max=12, first_delay=timedelta(milliseconds=100), delay_max=timedelta(minutes=5)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How a queue paces its keys. The defaults suit a controller with up to some tens of thousands of objects."""

    retry: RetryShape = DEFAULT_RETRY
    """How a failing key is tried again. After `attempts_max` counted failures in a row it is given up."""

    change_after_failure: timedelta = timedelta(seconds=1)
    """A failing key that changes need not wait for its whole backoff: the change may be the cure. It is tried again
    this long after its last failure. Not at once, or a key that changes all the time would never back off."""

    retries_per_second: int = 100
    """How many retries of all keys together are started each second once `retries_burst` is used up. When everything
    fails at once, because the API server is away, per-key backoff alone still makes a storm."""

    retries_burst: int = 1000
    """How many retries may come together before `retries_per_second` holds."""

    resync: timedelta | None = timedelta(minutes=30)
    """A key is looked at again at the latest this long after the last look, whether anything changed or not: the way
    back from a change that was missed. None: never; then the queue forgets a key as soon as it is done."""

    resync_spread: float = 0.2
    """The share of `resync` by which a look may come earlier, by chance: keys that came together go apart."""

    passed_over_max: int = 32
    """A priority with ready keys is passed over by more urgent ones at most so many times in a row, then it has a turn.
    Counted in turns, not in time: in an overload time goes by while nobody is served."""

    weights: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many keys in a row a tenant may have when others of the same priority wait. 1 for those not named."""

    in_hand_per_tenant_max: int | None = None
    """How many keys of one tenant are worked on at once. None: as many as there are workers. Turns are shared by count;
    where the work of one tenant takes much longer than that of others, only this keeps workers free for them."""

    def __post_init__(self) -> None:
        if self.retries_per_second < 1 or self.retries_burst < 1:
            raise ValueError("there must be room for at least one retry")
        if self.resync is not None and self.resync <= timedelta():
            raise ValueError(f"a resync every {self.resync} would never end")
        if not 0 <= self.resync_spread < 1:
            raise ValueError(f"the spread is a share below 1, not {self.resync_spread}")
        if self.change_after_failure < timedelta():
            raise ValueError(f"change_after_failure is {self.change_after_failure}, which is in the past")
        if self.passed_over_max < len(Priority):
            # The bound that lines.py states counts on it.
            raise ValueError(f"passed_over_max is at least {len(Priority)}, or priorities would mean nothing")
        if any(weight < 1 for weight in self.weights.values()):
            raise ValueError("a tenant without weight would never have a turn")
        if self.in_hand_per_tenant_max is not None and self.in_hand_per_tenant_max < 1:
            raise ValueError("a tenant must be allowed one key in hand, or it would never have a turn")
