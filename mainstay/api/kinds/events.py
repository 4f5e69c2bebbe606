"""Event, in its two forms: v1 and events.k8s.io/v1 are two views of the same events.

Events are kept in the form of v1. `to_events` and `to_core` translate; both leave their argument alone. What the two
forms call differently is in `_NAMES`, everything else is the same in both.
"""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, invalid_value, not_supported, required
from mainstay.api.kind import Object
from mainstay.api.kinds.checks import check_qualified
from mainstay.api.kinds.declare import at, builtin, child, fill

_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_NAMES_BACK = {new: old for old, new in _NAMES.items()}
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_NOTE_BYTES_MAX = 1024
_REASON_LENGTH_MAX = _ACTION_LENGTH_MAX = 128


def to_events(kept: Object) -> Object:
    """An event of v1 as events.k8s.io/v1 shows it."""
    seen = {_NAMES.get(key, key): value for key, value in kept.items() if value != ""}
    seen["apiVersion"] = "events.k8s.io/v1"
    return seen


def to_core(seen: Object) -> Object:
    """An event of events.k8s.io/v1 as it is kept."""
    kept = {_NAMES_BACK.get(key, key): value for key, value in seen.items()}
    kept["apiVersion"] = "v1"
    return kept


def _default_event(new: Object) -> None:
    child(new, "involvedObject")
    child(new, "source")
    fill(new, reportingComponent="", reportingInstance="")
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        new.setdefault(field, None)


def _default_events_event(new: Object) -> None:
    child(new, "regarding")
    child(new, "deprecatedSource")
    for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"):
        new.setdefault(field, None)


def _validate_event(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    _check_namespace(new, new.get("involvedObject") or {}, "involvedObject.namespace", causes)
    return causes


def _check_namespace(new: Object, about: Object, path: str, causes: list[StatusCause]) -> None:
    """An event is where its object is. Those about objects without a namespace are in `default`, or in kube-system."""
    own = new["metadata"].get("namespace") or ""
    theirs = about.get("namespace") or ""
    if (not theirs and own not in ("", "default", "kube-system")) or (theirs and theirs != own):
        causes.append(invalid_value(path, theirs, "does not match event.namespace"))


def _validate_events_event(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    _check_namespace(new, new.get("regarding") or {}, "involvedObject.namespace", causes)
    if old is not None:
        return causes
    if not new.get("eventTime"):
        causes.append(required("eventTime"))
        return causes
    controller = new.get("reportingController") or ""
    if not controller:
        causes.append(required("reportingController"))
    else:
        check_qualified(controller, "reportingController", causes)
    if not new.get("reportingInstance"):
        causes.append(required("reportingInstance"))
    for field, most in (("action", _ACTION_LENGTH_MAX), ("reason", _REASON_LENGTH_MAX)):
        text = new.get(field) or ""
        if not text:
            causes.append(required(field))
        elif len(text) > most:
            causes.append(invalid_value(field, "", f"can have at most {most} characters"))
    if len((new.get("note") or "").encode()) > _NOTE_BYTES_MAX:
        causes.append(invalid_value("message", "", f"can have at most {_NOTE_BYTES_MAX} characters"))
    if new.get("type") not in ("Normal", "Warning"):
        causes.append(not_supported("type", new.get("type") or "", ("Normal", "Warning")))
    return causes


def _source(event: Object) -> str:
    """What reported it, whichever way it says so."""
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


def _deprecated_source(event: Object) -> str:
    return (event.get("deprecatedSource") or {}).get("component") or event.get("reportingController") or ""


EVENT = builtin(
    kind_names.EVENTS,
    short_names=("ev",),
    defaults=_default_event,
    validate=_validate_event,
    selectable={
        **{f"involvedObject.{field}": at("involvedObject", field) for field in _REFERENCE},
        "reason": at("reason"),
        "reportingComponent": at("reportingComponent"),
        "source": _source,
        "type": at("type"),
    },
    has_generation=False,
    put_creates=True,
)

EVENTS_EVENT = builtin(
    kind_names.EVENTS_K8S_IO,
    short_names=("ev",),
    from_stored=to_events,
    to_stored=to_core,
    defaults=_default_events_event,
    validate=_validate_events_event,
    selectable={
        **{f"regarding.{field}": at("regarding", field) for field in _REFERENCE},
        "reason": at("reason"),
        "reportingController": at("reportingController"),
        "source": _deprecated_source,
        "type": at("type"),
    },
    has_generation=False,
    put_creates=True,
)

KINDS = (EVENT, EVENTS_EVENT)
