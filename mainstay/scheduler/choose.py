"""The best of all nodes: the largest score, and among equals the first from the pod's place around the ring."""

from mainstay.scheduler.cache.arrays import Numbers


def choose(totals: Numbers, start: int) -> int | None:
    """The place on the ring of the best node. None if no node can take the pod: all totals are negative."""
    if not len(totals):
        return None
    ahead, behind = totals[start:], totals[:start]
    # `argmax` gives the first of equals. What lies ahead comes first, then around.
    place = start + int(ahead.argmax()) if len(ahead) else -1
    if len(behind):
        around = int(behind.argmax())
        if place < 0 or totals[around] > totals[place]:
            place = around
    return place if totals[place] >= 0 else None
