"""The row of an Event, whichever of its two forms it comes in.

The older form (core) says `involvedObject`, `message` and `source`; the newer one (events.k8s.io) says `regarding`,
`note` and `deprecatedSource` of the same things. Both mean one kind, so one table reads both.
"""

from datetime import datetime
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.tables.fields import has, moment, text, whole
from mainstay.api.tables.table import Filled, filled, name_column, of, table, text_at
from mainstay.api.tables.texts import since


def _either(event: Object, *paths: str) -> str:
    return next((found for path in paths if (found := text(event, path))), "")


def _first_seen(event: Object, now: datetime) -> str:
    told = _either(event, "firstTimestamp", "deprecatedFirstTimestamp")
    return since(told if moment(told) else text(event, "eventTime"), now)


def _last_seen(event: Object, now: datetime) -> str:
    if has(event, "series"):
        return since(text(event, "series.lastObservedTime"), now)
    told = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    return since(told, now) if moment(told) else _first_seen(event, now)


def _count(event: Object) -> int:
    if has(event, "series"):
        return whole(event, "series.count")
    # The newer form has no count for what happened once.
    return whole(event, "count") or whole(event, "deprecatedCount") or 1


def _object(event: Object) -> str:
    kind = _either(event, "involvedObject.kind", "regarding.kind").lower()
    name = _either(event, "involvedObject.name", "regarding.name")
    return f"{kind}/{name}" if name else kind


def _source(event: Object) -> str:
    component = _either(
        event, "source.component", "deprecatedSource.component", "reportingComponent", "reportingController"
    )
    instance = _either(event, "source.host", "deprecatedSource.host", "reportingInstance")
    return f"{component}, {instance}" if instance else component


def _message(event: Object) -> Any:
    return _either(event, "message", "note").strip()


_EVENT = table(
    filled("Last Seen", _last_seen, "When it was seen last."),
    filled("Type", text_at("type"), "Whether it is normal, or a warning."),
    filled("Reason", text_at("reason"), "Why it happened, in a word."),
    filled("Object", of(_object), "What it is about."),
    filled(
        "Subobject",
        of(lambda event: _either(event, "involvedObject.fieldPath", "regarding.fieldPath")),
        "Which part of that.",
        wide=True,
    ),
    filled("Source", of(_source), "Who says so.", wide=True),
    filled("Message", of(_message), "What happened, for people."),
    filled("First Seen", _first_seen, "When it was seen first.", wide=True),
    filled("Count", of(_count), "How often it was seen.", wide=True),
    Filled(name_column(priority=1), text_at("metadata.name")),
)

TABLES = {("", "Event"): _EVENT, ("events.k8s.io", "Event"): _EVENT}
