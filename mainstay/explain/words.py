"""Changes of objects in words: `desired replicas 6 → 8`, `Ready False → True (ContainersReady)`, `is bound to node-c1`.

`said(kind, changes)` gives one `LineText` for each thing worth saying about one write, the weightier ones first. What
has no words of its own is shown by its path. `is_detail` marks what belongs to every life (counts in a status,
addresses, times): shown only to those who ask for all of it.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from mainstay.api.holds import parse_hold
from mainstay.api.kind import Object
from mainstay.api.kind_names import HOLDS
from mainstay.explain.fields import NOTHING, FieldChange, Path, path_text, shown

POD: Final = "pods"
_ARROW: Final = "→"


class LineKind(StrEnum):
    """What kind of thing a line of a story tells. Shown to users: only add."""

    CREATED = "created"
    WRITTEN = "written"
    DELETED = "deleted"
    """It is marked for deletion, and may stay until its containers have ended or its finalizers are removed."""
    REMOVED = "removed"
    QUEUED = "queued"
    DECIDED = "decided"
    REFUSED = "refused"
    SEEN = "seen"
    BOUND = "bound"
    STARTED = "started"
    READY = "ready"
    CONDITION = "condition"
    EVENT = "event"
    FAILED = "failed"


RESTART: Final = "restart"
VERDICT: Final = "verdict"


class LineText(msgspec.Struct, frozen=True):
    what: LineKind
    text: str
    is_detail: bool = False
    topic: str = ""
    """What the text is about, for code that arranges lines: the type of a condition, `RESTART` or `VERDICT`."""


_PLAIN: Final[Mapping[str, str]] = {
    "spec.replicas": "desired replicas",
    "spec.parallelism": "parallelism",
    "spec.completions": "completions",
    "spec.zone": "zone",
    "spec.policyVersion": "policy version",
    "spec.minAvailable": "minAvailable",
    "spec.maxUnavailable": "maxUnavailable",
    "spec.suspend": "suspended",
    "spec.paused": "paused",
    "spec.state": "state",
}
_DETAILS: Final[Mapping[str, str]] = {
    "status.replicas": "replicas",
    "status.readyReplicas": "ready replicas",
    "status.availableReplicas": "available replicas",
    "status.updatedReplicas": "updated replicas",
    "status.unavailableReplicas": "unavailable replicas",
    "status.observedGeneration": "observed generation",
    "status.active": "active pods",
    "status.succeeded": "succeeded pods",
    "status.failed": "failed pods",
}


def said(kind: str, changes: Sequence[FieldChange]) -> list[LineText]:
    """What one write to an object says."""
    found: dict[LineText, None] = {}
    conditions = [each for each in changes if each.path[:2] == ("status", "conditions")]
    for each in _conditions(kind, conditions):
        found[each] = None
    for change in changes:
        if change.path[:2] != ("status", "conditions"):
            for one in _one(kind, change):
                found[one] = None
    return sorted(found, key=lambda each: each.is_detail)


def _one(kind: str, change: FieldChange) -> list[LineText]:
    path, before, after = change
    text = path_text(path)
    match path:
        case ("metadata", "generation" | "creationTimestamp" | "uid"):
            return []
        case ("metadata", "deletionTimestamp"):
            return [LineText(LineKind.DELETED, "is marked for deletion")]
        case ("metadata", "deletionGracePeriodSeconds"):
            return [LineText(LineKind.WRITTEN, f"grace period {shown(after)} s", is_detail=True)]
        case ("metadata", "finalizers"):
            return [LineText(LineKind.WRITTEN, _list_words("finalizer", before, after))]
        case ("metadata", "ownerReferences", *_):
            return [LineText(LineKind.WRITTEN, f"owners: {shown(after)}", is_detail=True)]
        case ("metadata", "labels" | "annotations" as which, *rest):
            name = rest[0].strip("[]") if rest else ""
            word = f"{which.removesuffix('s')} {name}".strip()
            # Annotations are notes that programs leave; labels choose.
            return [LineText(LineKind.WRITTEN, _from_to(word, before, after), is_detail=which == "annotations")]
        case ("spec", "nodeName") if kind == POD:
            return [LineText(LineKind.BOUND, f"is bound to {shown(after)}")]
        case ("spec", "unschedulable"):
            return [LineText(LineKind.WRITTEN, "is cordoned" if after is True else "is uncordoned")]
        case ("spec", "taints", *_):
            return [LineText(LineKind.WRITTEN, _taint_words(before, after))]
        case ("spec", "hard", resource):
            return [LineText(LineKind.WRITTEN, _from_to(f"limit of {resource.strip('[]')}", before, after))]
        case ("spec", *_, "containers" | "initContainers", name, "image"):
            return [LineText(LineKind.WRITTEN, _from_to(f"image of {name.strip('[]')}", before, after))]
        case ("status", "phase") if kind == POD:
            return _phase(after)
        case ("status", "containerStatuses" | "initContainerStatuses", *rest):
            return _container(rest, before, after) if kind == POD else []
        case ("status", "progress", *_):
            return _progress(path, before, after)
        case ("status",) if isinstance(after, dict):
            return [LineText(LineKind.WRITTEN, "first status", is_detail=True)]
    if text in _PLAIN:
        return [LineText(LineKind.WRITTEN, _from_to(_PLAIN[text], before, after))]
    if text in _DETAILS:
        return [LineText(LineKind.WRITTEN, _from_to(_DETAILS[text], before, after), is_detail=True)]
    return [LineText(LineKind.WRITTEN, _from_to(text, before, after), is_detail=path[0] != "spec")]


def made(kind: str, obj: Object) -> LineText:
    """That an object is there, with what matters of it at once."""
    spec = obj.get("spec") or {}
    if kind == HOLDS.text and (held := parse_hold(obj)) is not None:
        return LineText(
            LineKind.CREATED, f"{held.owner} holds {held.target_text} until {held.until}: {shown(held.reason)}"
        )
    if "replicas" in spec:
        wanted = spec["replicas"]
        return LineText(LineKind.CREATED, f"created with {wanted} desired replica{'' if wanted == 1 else 's'}")
    if kind == POD and spec.get("nodeName"):
        return LineText(LineKind.CREATED, f"created for {spec['nodeName']}")
    if isinstance(spec.get("hard"), dict):
        limits = ", ".join(f"{name} {amount}" for name, amount in sorted(spec["hard"].items()))
        return LineText(LineKind.CREATED, f"created with limits: {limits}")
    return LineText(LineKind.CREATED, "created")


# Conditions.


def _conditions(kind: str, changes: Sequence[FieldChange]) -> list[LineText]:
    by_type: dict[str, dict[str, FieldChange]] = {}
    found: list[LineText] = []
    for change in changes:
        if len(change.path) < 3:
            entries = change.after if isinstance(change.after, list) else []
            found += [_condition(kind, each.get("type", ""), NOTHING, each) for each in entries]
        elif len(change.path) == 3:
            before = change.before.get("status") if isinstance(change.before, dict) else NOTHING
            after = change.after if isinstance(change.after, dict) else {"status": NOTHING}
            found.append(_condition(kind, change.path[2].strip("[]"), before, after))
        else:
            by_type.setdefault(change.path[2].strip("[]"), {})[change.path[3]] = change
    for name, parts in by_type.items():
        status, reason = parts.get("status"), parts.get("reason")
        if status is None and reason is None:
            continue  # Only its words, or its times: the same thing again.
        after = {field: change.after for field, change in parts.items()}
        found.append(_condition(kind, name, status.before if status is not None else NOTHING, after))
    return found


def _condition(kind: str, name: str, before: Any, after: Mapping[str, Any]) -> LineText:
    status, reason = after.get("status", NOTHING), after.get("reason") or ""
    because = f" ({reason})" if reason and reason is not NOTHING else ""
    message = after.get("message")
    words = f": {shown(message)}" if message and message is not NOTHING and status != "True" else ""
    if kind == POD and name == "Ready" and status == "True":
        return LineText(LineKind.READY, "is ready", topic=name)
    if status is NOTHING:
        text = f"{name}{because}"
    elif before is NOTHING or before is None:
        text = f"{name}={status}{because}"
    else:
        text = f"{name} {before} {_ARROW} {status}{because}"
    is_usual = kind == POD and (before is NOTHING or status == "True") and name != "PodScheduled"
    is_usual = is_usual or (kind == POD and name == "PodScheduled" and status == "True")
    return LineText(LineKind.CONDITION, text + words, is_detail=is_usual, topic=name)


# Pods.


def _phase(after: Any) -> list[LineText]:
    match after:
        case "Running":
            return [LineText(LineKind.STARTED, "is running")]
        case "Failed":
            return [LineText(LineKind.FAILED, "failed")]
        case "Succeeded":
            return [LineText(LineKind.WRITTEN, "succeeded")]
    return [LineText(LineKind.WRITTEN, f"phase {shown(after)}", is_detail=True)]


def _container(rest: Sequence[str], before: Any, after: Any) -> list[LineText]:
    if not rest:
        entries = after if isinstance(after, list) else []
        return [one for each in entries for one in _state(str(each.get("name", "")), each.get("state"))]
    name = rest[0].strip("[]")
    match tuple(rest[1:]):
        case ():
            return _state(name, after.get("state")) if isinstance(after, dict) else []
        case ("restartCount",):
            text = f"container {name} restarted (restart {shown(after)})"
            return [LineText(LineKind.FAILED, text, topic=RESTART)]
        case ("state", "waiting" | "terminated" as which):
            return _state(name, {which: after} if isinstance(after, dict) else None)
        case ("state", "waiting", "reason"):
            return _state(name, {"waiting": {"reason": after}})
    return []


def _state(name: str, state: Any) -> list[LineText]:
    if not isinstance(state, dict):
        return []
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if (reason := waiting.get("reason")) and reason not in ("ContainerCreating", "PodInitializing"):
        message = f": {shown(waiting['message'])}" if waiting.get("message") else ""
        return [LineText(LineKind.FAILED, f"container {name} is waiting: {reason}{message}")]
    if ended:
        code = ended.get("exitCode", 0)
        text = f"container {name} exited with code {code} ({ended.get('reason') or 'no reason given'})"
        return [LineText(LineKind.FAILED if code else LineKind.WRITTEN, text, is_detail=not code)]
    return []


def _progress(path: Path, before: Any, after: Any) -> list[LineText]:
    """The record of a workload: only its verdict is news."""
    if path == ("status", "progress", "verdict"):
        return [LineText(LineKind.CONDITION, f"verdict {shown(before)} {_ARROW} {shown(after)}", topic=VERDICT)]
    if path == ("status", "progress") and isinstance(after, dict):
        return [LineText(LineKind.CONDITION, f"verdict {after.get('verdict', '?')}", topic=VERDICT)]
    return [LineText(LineKind.WRITTEN, _from_to(path_text(path), before, after), is_detail=True)]


# Words for values.


def _from_to(word: str, before: Any, after: Any) -> str:
    if before is NOTHING or before is None:
        return f"{word} set to {shown(after)}"
    if after is NOTHING or after is None:
        return f"{word} removed (was {shown(before)})"
    return f"{word} {shown(before)} {_ARROW} {shown(after)}"


def _list_words(word: str, before: Any, after: Any) -> str:
    had = before if isinstance(before, list) else []
    has = after if isinstance(after, list) else []
    new, gone = [each for each in has if each not in had], [each for each in had if each not in has]
    parts = [f"{word} {each} added" for each in new] + [f"{word} {each} removed" for each in gone]
    return ", ".join(parts) or f"{word}s reordered"


def _taint_words(before: Any, after: Any) -> str:
    had, has = _taints(before), _taints(after)
    new, gone = [each for each in has if each not in had], [each for each in had if each not in has]
    parts = [f"taint {each} added" for each in new] + [f"taint {each} removed" for each in gone]
    return ", ".join(parts) or "taints changed"


def _taints(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    return [
        f"{each.get('key', '')}{'=' + each['value'] if each.get('value') else ''}:{each.get('effect', '')}"
        for each in entries
        if isinstance(each, dict)
    ]
