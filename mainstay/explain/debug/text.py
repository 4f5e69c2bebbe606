"""The debug view as text: one line for each question, in the words of the text it comes from."""

from collections.abc import Iterator
from typing import Final

from mainstay.explain.debug.view import DebugView, Pending, Rollback

NAMES_MAX: Final = 3
EVIDENCE_MAX: Final = 4
Fact = tuple[str, str]
"""What is asked, and the answer. Without the first it goes with the line before."""


def debug_text(view: DebugView, *, is_wide: bool = False) -> list[str]:
    """Lines of text. With `is_wide`: all replicas, all kinds, all conditions."""
    facts = [*_head(view), *_body(view, is_wide=is_wide)]
    width = max(len(name) for name, _ in facts) + 3
    shown = [f"{name + ':' if name else '':<{width}}{value}" for name, value in facts]
    return [f"cause: {view.cause}", f"next:  {view.next}", "", *shown, *_end(view)]


def _head(view: DebugView) -> Iterator[Fact]:
    where = f" (namespace {view.about.namespace})" if view.about.namespace else ""
    yield _line("workload", f"{view.about.words}{where}")
    is_seen = "" if view.is_observed else f", its controller has observed only {view.observed_generation}"
    yield _line("generation", f"{view.generation}{is_seen}")
    counts = view.counts
    more = f", {counts.starting} starting" if counts.starting else ""
    verdict = f", verdict {view.verdict}" if view.verdict else ""
    limited = f", limited by {view.limited_by}" if view.limited_by else ""
    yield _line(
        "ready replicas", f"{counts.ready} / {counts.desired}, {counts.pending} pending{more}{verdict}{limited}"
    )


def _body(view: DebugView, *, is_wide: bool) -> Iterator[Fact]:
    for rollback in view.rollbacks:
        yield from _rollback(rollback)
    alike: dict[tuple[str, tuple[str, ...], bool], list[Pending]] = {}
    for pending in view.pending:
        alike.setdefault((pending.reason, pending.words, bool(pending.node)), []).append(pending)
    for (reason, words, is_bound), group in alike.items():
        names = [f"{each.pod} on {each.node}" if each.node else each.pod for each in group]
        shown = names if is_wide else names[:NAMES_MAX]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        yield _line(f"pending replica{'s' if len(names) > 1 else ''}", f"{', '.join(shown)}{more}")
        tries = max(each.attempts for each in group)
        yield _line("last reason" if is_bound else "last scheduling reason", f"{reason}{_tries(tries)}")
        for each in words:
            yield _line("", each)
    for cache in view.caches:
        if not is_wide and not cache.is_behind and not cache.is_decisive:
            continue
        kind = cache.kind.partition(".")[0]
        mark = "  <- it would have decided differently" if cache.is_decisive else ""
        says = f", reports {cache.says} now" if cache.says else ""
        yield _line(f"{cache.component} saw {kind} up to", f"{cache.seen}{says}")
        objects = f" ({', '.join(cache.objects[:3])})" if cache.objects else ""
        yield _line(f"latest of {kind}", f"{cache.latest}{objects}{mark}")
    for writer in view.writers if is_wide else view.writers[:4]:
        reason = f": {writer.who.reason}" if writer.who.reason else ""
        yield _line(f"{writer.who.name} wrote", f"{writer.text} @{writer.revision}{reason}")
    for scaler in view.autoscalers:
        size = f"{scaler.name} wants {scaler.desired}, there are {scaler.current}"
        yield _line("autoscaler reason", f"{scaler.reason} ({size}){f': {scaler.message}' if scaler.message else ''}")
    if view.repair is not None:
        repair = view.repair
        of = f", observedGeneration={repair.observed_generation}" if repair.observed_generation else ""
        old = "" if repair.is_current or not repair.observed_generation else " (an older generation)"
        yield _line("repair condition", f"RepairComplete={repair.status}{of}{old} ({repair.reason})")
    for piece in view.evidence if is_wide else view.evidence[:EVIDENCE_MAX]:
        since = f" since {piece.since:%H:%M:%S}" if piece.since is not None else ""
        detail = f": {piece.detail}" if piece.detail else ""
        yield _line("evidence", f"{piece.signal} ({piece.strength}) of {piece.about}{since}{detail}")
        yield _line("", f"allows {', '.join(piece.allows) or 'nothing'}; {piece.never}")
    for condition in view.conditions:
        if is_wide or not condition.is_current or condition.status != "True":
            old = "" if condition.is_current else f", of generation {condition.observed_generation}"
            yield _line(f"condition {condition.type}", f"{condition.status} ({condition.reason}{old})")
    for hold in view.holds:
        yield _line("held", f"{hold.name}: {hold.words}")


def _rollback(rollback: Rollback) -> Iterator[Fact]:
    word = "rollback" if rollback.is_rollback else "change"
    for each in rollback.observed:
        what = f"{rollback.about.words}{f' ({rollback.version})' if rollback.version else ''}"
        behind = "" if each.is_observed else f", it uses revision {each.revision}"
        by = each.component
        answer = "true" if each.is_observed else "false"
        yield _line(f"{word} observed by {by}", f"{answer}: {what} @{rollback.revision}{behind}")


def _end(view: DebugView) -> Iterator[str]:
    for gap in view.gaps:
        yield f"missing: {gap}"
    for note in view.notes:
        yield f"note: {note}"


def _line(name: str, value: str) -> Fact:
    return name, value


def _tries(attempts: int) -> str:
    return f" (attempt {attempts})" if attempts > 1 else ""
