"""The arithmetic of a rollout: how many pods each ReplicaSet of a Deployment should have next.

Plain functions over small values, the same rules as kube-controller-manager's. Two bounds hold all the while:

    all pods asked for      ≤  replicas + maxSurge              (so the new set grows only into that room)
    available pods          ≥  replicas − maxUnavailable        (so old sets shrink only by what is above that)

An old pod that is not available goes first: that costs nothing. Percentages are of `replicas`, of the surge rounded up
and of the unavailable rounded down; if both come out as none, one may be unavailable, or nothing would ever move.

There is a third bound, which upstream does not have: *a ready pod that is the last of its workload in its failure
domain is not taken away while something else can still move.* What a rollback returns from may be all that serves a
zone. `spare` is how many pods of a set can go without that. When the new set can do nothing more (all its pods are
available and there is no room for another), such a pod goes after all; else a rollout without surge would never end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mainstay.api.kind import Object

Amount = int | str
"""A number, or a percentage such as `25%`."""

_DEFAULT: Final[Amount] = "25%"


@dataclass(frozen=True, slots=True)
class Bounds:
    replicas: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        """So many pods at once, and no more."""
        return self.replicas + self.surge

    @property
    def least(self) -> int:
        """So many are available all the while."""
        return self.replicas - self.unavailable


@dataclass(frozen=True, slots=True)
class SetSize:
    """A ReplicaSet as far as the arithmetic goes. Old ones come in the order in which they were made."""

    name: str
    wanted: int
    available: int
    spare: int | None = None
    """How many of its pods can go before a failure domain has no ready one left. None: all of them."""
    most_before: int = 0
    """What `Bounds.most` was when it was last sized; 0: it was not noted."""


def compute_bounds(deployment: Object) -> Bounds:
    spec = deployment.get("spec") or {}
    replicas = int(spec.get("replicas", 1))
    strategy = spec.get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Bounds(replicas, 0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    return bounds(replicas, rolling.get("maxSurge", _DEFAULT), rolling.get("maxUnavailable", _DEFAULT))


def bounds(replicas: int, max_surge: Amount, max_unavailable: Amount) -> Bounds:
    surge = scaled(max_surge, replicas, rounds_up=True)
    unavailable = scaled(max_unavailable, replicas, rounds_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def scaled(amount: Amount, of: int, *, rounds_up: bool) -> int:
    """A number as it is, a percentage of something."""
    if isinstance(amount, int):
        return amount
    text = amount.removesuffix("%")
    if text == amount or not text.isdigit():
        return 0  # The server refuses these.
    whole, rest = divmod(of * int(text), 100)
    return whole + (1 if rounds_up and rest else 0)


# A rollout.


def grown(bounds: Bounds, new: SetSize, old: Sequence[SetSize]) -> int:
    """How large the new set should be next. It is made smaller only when it is larger than what is wanted in all."""
    if new.wanted >= bounds.replicas:
        return bounds.replicas
    room = bounds.most - new.wanted - sum(each.wanted for each in old)
    return new.wanted + max(0, min(room, bounds.replicas - new.wanted))


def shrunk(bounds: Bounds, new: SetSize, old: Sequence[SetSize]) -> dict[str, int]:
    """How large each old set should be next. Those not named stay as they are."""
    in_all = new.wanted + sum(each.wanted for each in old)
    may_go = in_all - bounds.least - (new.wanted - new.available)
    if may_go <= 0:
        return {}
    left = {each.name: each for each in old}
    # Those that are not available.
    for each in old:
        gone = min(may_go, each.wanted - each.available)
        if gone > 0:
            may_go -= gone
            left[each.name] = replace(each, wanted=each.wanted - gone)
    # Of the others, only what is above the least.
    over = new.available + sum(each.available for each in old) - bounds.least
    is_stuck = not _can_move(bounds, new, old)
    for each in left.values():
        gone = min(each.wanted, max(0, over), each.wanted if is_stuck or each.spare is None else each.spare)
        if gone > 0:
            over -= gone
            left[each.name] = replace(each, wanted=each.wanted - gone)
    return {each.name: left[each.name].wanted for each in old if left[each.name].wanted != each.wanted}


def _can_move(bounds: Bounds, new: SetSize, old: Sequence[SetSize]) -> bool:
    """Whether waiting can help: a pod of the new set is still to become available, or there is room for another.

    Also if an old pod can go without any loss: then there is going to be room.
    """
    if new.wanted >= bounds.replicas and new.available >= bounds.replicas:
        return False
    if new.available < new.wanted or grown(bounds, new, old) > new.wanted:
        return True
    return any(each.wanted > each.available or each.spare for each in old if each.wanted)


# Another number of replicas, while several sets have pods.


def rescaled(bounds: Bounds, sets: Sequence[SetSize], most_now: int) -> dict[str, int]:
    """How large each set should be when the number of replicas has changed: in proportion to what they are, and so that
    no pods are given up that are available and still needed while others are kept that are not.

    `sets` are those that have pods, newest first; `most_now` is how many pods there are, used where a set has no note
    of what it was sized for.
    """
    allowed = bounds.most if bounds.replicas > 0 else 0
    to_add = allowed - sum(each.wanted for each in sets)
    # The largest first; of equals, the newest when there is more to give and the oldest when there is less.
    number = {each.name: place if to_add > 0 else -place for place, each in enumerate(sets)}
    ordered = sorted(sets, key=lambda each: (-each.wanted, number[each.name], each.name))
    sizes: dict[str, int] = {}
    added = 0
    for each in ordered:
        share = _share(bounds, each, to_add, added, most_now)
        added += share
        sizes[each.name] = each.wanted + share
    # What rounding has left over: to the first; where there is not enough of it to take, also from the others.
    left = to_add - added
    for each in ordered:
        change = max(left, -sizes[each.name])
        sizes[each.name] += change
        left -= change
    return _with_what_is_needed(bounds, sets, sizes)


def _with_what_is_needed(bounds: Bounds, sets: Sequence[SetSize], sizes: dict[str, int]) -> dict[str, int]:
    """The same in all, with as many available pods as have to be, if there are so many. Upstream does not look at that:
    its users may lose all that works because they want fewer."""
    needed = min(bounds.least, sum(each.available for each in sets))
    missing = needed - sum(min(each.available, sizes[each.name]) for each in sets)
    for kept in sets:
        for given_up in reversed(sets):  # The oldest first: they are to go anyway.
            moved = min(missing, kept.available - sizes[kept.name], sizes[given_up.name] - given_up.available)
            if moved > 0:
                sizes[kept.name] += moved
                sizes[given_up.name] -= moved
                missing -= moved
    return sizes


def _share(bounds: Bounds, size: SetSize, to_add: int, added: int, most_now: int) -> int:
    left = to_add - added
    if size.wanted == 0 or left == 0:
        return 0
    if bounds.replicas == 0:
        share = -size.wanted
    else:
        before = size.most_before or most_now
        if before == 0:
            return 0
        # Rounded to the nearest, halves up.
        share = (2 * size.wanted * bounds.most + before) // (2 * before) - size.wanted
    # Sets that were sized for different numbers, because a crash came between them, would go in opposite directions,
    # and together they would be too many for a while.
    return max(0, min(share, left)) if to_add > 0 else min(0, max(share, left))
