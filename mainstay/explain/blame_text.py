"""Who set which field, as a table; and two moments side by side."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from mainstay.explain.blame import Blame, Blamed
from mainstay.explain.diff import Diff, How, ObjectDiff
from mainstay.explain.fields import shown
from mainstay.explain.writers import Who

TITLES: Final = ("FIELD", "VALUE", "BEFORE", "WHO", "WHEN", "REVISION")
_WIDE_TITLES: Final = (*TITLES, "MANAGER", "DECISION", "AUDIT")
_NOT_SHOWN: Final = (
    *("status", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.creationTimestamp"),
    "metadata.generation",
)
"""Without being asked: what only reports, and what says which object it is."""
_MARKS: Final = {How.ADDED: "+", How.REMOVED: "-", How.CHANGED: "~", How.REPLACED: "±"}


def blame_rows(found: Blame, *, is_wide: bool = False) -> tuple[Sequence[str], list[list[str]]]:
    """Titles and rows. Without `is_wide` and without a field that was asked for: only what is wanted, no status."""
    listed = [each for each in found.fields if is_wide or found.field or not each.field.startswith(_NOT_SHOWN)]
    return (_WIDE_TITLES if is_wide else TITLES), [_row(each, is_wide=is_wide) for each in listed]


def _row(each: Blamed, *, is_wide: bool) -> list[str]:
    value = "(removed)" if each.is_removed else shown(each.value)
    before = "?" if each.is_older else shown(each.before)
    row = [each.field, _short(value), _short(before), _who(each.who), _time(each.at), str(each.revision or "older")]
    return [*row, each.who.manager, each.who.decision, each.who.audit] if is_wide else row


def diff_text(found: Diff, *, is_wide: bool = False) -> list[str]:
    """Lines of text: one for each object, below it one for each field."""
    lines = []
    for each in found.objects:
        lines += _object(each, is_wide=is_wide)
    lines += [f"missing: {gap}" for gap in found.gaps]
    lines += [f"note: {note}" for note in found.notes]
    return lines


def _object(each: ObjectDiff, *, is_wide: bool) -> list[str]:
    namespace = f" (namespace {each.about.namespace})" if each.about.namespace else ""
    mark = _MARKS[each.how]
    head = f"{mark} {each.about.words}{namespace}"
    if each.how is not How.CHANGED:
        return [f"{head}: {each.how} by {_who(each.who)} @{each.revision} {_time(each.at)}"]
    fields = each.fields if is_wide else [one for one in each.fields if not one.field.startswith("status")]
    left_out = len(each.fields) - len(fields)
    if not fields:
        return [
            f"{head}: {left_out} {'field' if left_out == 1 else 'fields'} of its status"
            if is_wide
            else f"{head}: {left_out} {'field' if left_out == 1 else 'fields'} of its status (-o wide)"
        ]
    lines = [head]
    for one in fields:
        decision = f" {one.who.decision}" if is_wide and one.who.decision else ""
        values = f"{_short(shown(one.before))} → {_short(shown(one.after))}"
        lines.append(f"    {one.field}: {values}  ({_who(one.who)} @{one.revision} {_time(one.at)}{decision})")
    if left_out:
        lines.append(f"    and {left_out} {'field' if left_out == 1 else 'fields'} of its status (-o wide)")
    return lines


def _who(who: Who) -> str:
    name = f"{who.name} ({who.reason})" if who.reason and who.component else who.name
    return f"{name}, changed by policy {', '.join(who.mutations)}" if who.mutations else name


def _short(text: Any, length: int = 50) -> str:
    words = str(text)
    return words if len(words) <= length else words[: length - 1] + "…"


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else "?"
