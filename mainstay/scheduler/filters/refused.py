"""How filters put their refusals together."""

from collections.abc import Iterator

from mainstay.scheduler.cache.arrays import Numbers, Truths
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason


def refused(
    ring: Ring,
    refuses: Truths,
    reason: RefusalReason,
    plugin: str,
    cures: tuple[Cure, ...],
    *,
    detail: str = "",
    wanted: int | None = None,
    free: Numbers | None = None,
) -> Iterator[Refusal]:
    """One refusal for the places on the ring where `refuses` is true; none if there is no such place."""
    if not refuses.any():
        return
    places = ring.by_name[refuses[ring.by_name]].tolist()
    names = ring.names
    yield Refusal(
        reason=reason,
        plugin=plugin,
        nodes=tuple(names[place] for place in places),
        cures=cures,
        detail=detail,
        wanted=wanted,
        free=() if free is None else tuple(free[places].tolist()),
    )
