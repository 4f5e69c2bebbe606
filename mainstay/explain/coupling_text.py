"""The coupling map as text: for each kind that is read, who changes it, how often, and what of it."""

from datetime import datetime
from typing import Final

from mainstay.explain.coupling import Coupling, Edge, Input
from mainstay.explain.declared import EVERYTHING

_EDGES_MAX: Final = 6


def coupling_text(found: Coupling, *, is_wide: bool = False) -> list[str]:
    """Lines of text. With `is_wide`: also who may write but did not, and all fields."""
    by = "" if found.components == (found.about,) else f" (decided by {', '.join(found.components) or 'none'})"
    since = f" since {_time(found.since)}" if found.since is not None else ""
    lines = [f"{found.about}{by}: writers of its inputs{since}"]
    for each in found.inputs:
        lines += _input(each, is_wide=is_wide)
    if found.writes:
        lines.append(
            f"writes {', '.join(found.writes)}" + (f"; read by {', '.join(found.readers)}" if found.readers else "")
        )
    for flip in found.oscillations:
        lines.append(
            f"! oscillation: {flip.field} of {flip.about.words} alternates between {' and '.join(flip.values)}, "
            f"{flip.flips} times from {_time(flip.since)} to {_time(flip.until)}, by {' and '.join(flip.writers)}"
        )
    if not found.oscillations:
        lines.append("no oscillating fields")
    lines += [f"missing: {gap}" for gap in found.gaps]
    lines += [f"note: {note}" for note in found.notes]
    return lines


def _input(found: Input, *, is_wide: bool) -> list[str]:
    marks = []
    if not found.wakes:
        marks.append("a change triggers no decision: it takes effect later")
    if not found.is_declared:
        marks.append("observed but not declared")
    kind = "everything" if found.kind == EVERYTHING else found.kind
    lines = [f"  reads {kind}" + (f" ({'; '.join(marks)})" if marks else "")]
    edges = [each for each in found.edges if is_wide or each.writes]
    shown = edges if is_wide else edges[:_EDGES_MAX]
    lines += [f"    {_edge(each, is_wide=is_wide)}" for each in shown]
    if len(edges) > len(shown):
        lines.append(f"    and {len(edges) - len(shown)} more writers (-o wide)")
    silent = [each.writer for each in found.edges if not each.writes]
    if silent and not is_wide:
        lines.append(f"    may write, but did not: {', '.join(silent)}")
    return lines


def _edge(edge: Edge, *, is_wide: bool) -> str:
    if not edge.writes:
        return f"{edge.writer}: may write, but did not"
    objects = f" to {edge.objects} objects" if edge.objects > 1 else ""
    fields = edge.fields if is_wide else edge.fields[:3]
    what = f": {', '.join(fields)}" if fields else ""
    declared = "" if edge.is_declared else " (not declared)"
    times = "1 write" if edge.writes == 1 else f"{edge.writes} writes"
    return f"{edge.writer}{declared}: {times}{objects}{what}, the last @{edge.last_revision}"


def _time(at: datetime | None) -> str:
    return at.strftime("%H:%M:%SZ") if at is not None else "?"
