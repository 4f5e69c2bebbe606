"""The story of the objects that a failure is about, from the history of its run: who asked for what, what was lost,
what was committed, which watch told whom of it and when, and what went wrong around it.

     61.204100  scheduler-1 asks server-2: POST …/pods/web-1/binding (#412): 201, revision 207, RESPONSE LOST
     61.204100    revision 207 changes core/pods/default/web-1: spec.nodeName none → node-1
     61.205300    controller-1, node-1 are sent core/pods/default/web-1 at 207 (MODIFIED)
     74.000000  ! fault: server-2 crashes for 0:00:20

Times are those of the run's clock, in seconds; they are the same that a checker shows. Everything is seen from the
servers' door: what is sent may still be lost in the network, if a fault has cut it. Reads are not told, nor what the
servers keep for themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainstay.explain.fields import differences, path_text, shown
from mainstay.sim.cluster.history import (
    ContainerEnded,
    ContainerStarted,
    Event,
    FaultInjected,
    ProgramChanged,
    ProgramCrashed,
    ProgramStarted,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
    WatchDelivered,
    WatchEnded,
    WatchOpened,
)
from mainstay.sim.failure.subjects import find_key

LINES_MAX: Final = 120
"""Of a story. The last ones are kept, and a few of the first."""
FIRST_LINES: Final = 12
FIELDS_MAX: Final = 4
AROUND_NS: Final = 10_000_000_000
"""What goes wrong is told from so long before the first of the other lines."""
TOGETHER_NS: Final = 500_000_000
"""Those who are told of a change within this time are told together."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def tell_story(events: Sequence[Event], keys: Sequence[str]) -> list[str]:
    """What happened to these objects, line by line."""
    told = list(_Telling(events, dict.fromkeys(keys)).lines())
    if len(told) <= LINES_MAX:
        return told
    left = len(told) - LINES_MAX
    return [*told[:FIRST_LINES], f"  … {left} lines omitted …", *told[FIRST_LINES + left :]]


class _Telling:
    def __init__(self, events: Sequence[Event], keys: Mapping[str, None]) -> None:
        self._events = events
        self._keys = keys
        self._answers = {event.request: event for event in events if isinstance(event, ResponseSent)}
        self._asked: dict[int, RequestReceived] = {}
        self._requests: dict[int, None] = {}
        """Those that the story is about."""
        self._revisions: dict[int, list[int]] = {}
        self._told: dict[tuple[str, int, str], list[WatchDelivered]] = {}
        self._programs: dict[str, None] = {}
        self._watches: dict[int, WatchOpened] = {}
        self._began_ns = 0
        self._look()

    def _look(self) -> None:
        """Who takes part, and what belongs together."""
        first: int | None = None
        for event in self._events:
            match event:
                case RequestReceived() if event.is_write:
                    self._asked[event.request] = event
                    if find_key(event) in self._keys:
                        self._requests[event.request] = None
                case RevisionCommitted() if event.key in self._keys and event.request is not None:
                    self._requests[event.request] = None
                    self._revisions.setdefault(event.request, []).append(event.revision)
                case WatchDelivered() if event.key in self._keys:
                    self._told.setdefault((event.key, event.revision, event.type), []).append(event)
                    self._programs[event.who] = None
                case _:
                    continue
            if first is None and self._is_told(event):
                first = event.at_ns
        for request in self._requests:
            asked = self._asked.get(request)
            if asked is not None:
                self._programs[asked.who] = self._programs[asked.server] = None
        self._began_ns = (first or 0) - AROUND_NS

    def _is_told(self, event: Event) -> bool:
        match event:
            case RequestReceived():
                return event.request in self._requests
            case RevisionCommitted() | WatchDelivered():
                return event.key in self._keys
            case _:
                return False

    def lines(self) -> Iterator[str]:
        for event in self._events:
            words = self._words(event)
            if words:
                yield f"{event.at_ns / 1e9:11.6f}  {words}"

    def _words(self, event: Event) -> str:
        match event:
            case RequestReceived() if event.request in self._requests:
                return self._asking(event)
            case RevisionCommitted() if event.key in self._keys:
                return f"  {self._committed(event)}"
            case WatchDelivered() if event.key in self._keys:
                return self._delivered(event)
            case ContainerStarted() | ContainerEnded() if f"core/pods/{event.pod}" in self._keys:
                return str(event).strip().partition(" ")[2]
            case WatchOpened() | WatchEnded() if event.at_ns >= self._began_ns:
                return self._watch(event)
            case ProgramStarted() | ProgramCrashed() | ProgramChanged() if (
                event.at_ns >= self._began_ns and event.program in self._programs
            ):
                return f"! {str(event).strip().partition(' ')[2]}"
            case FaultInjected() if event.at_ns >= self._began_ns:
                return f"! fault: {event.what}"
            case (
                RequestReceived()
                | ResponseSent()
                | RevisionCommitted()
                | WatchDelivered()
                | WatchOpened()
                | WatchEnded()
                | FaultInjected()
            ):
                return ""
            case ContainerStarted() | ContainerEnded() | ProgramStarted() | ProgramCrashed() | ProgramChanged():
                return ""
            case _:  # That all is healed, and what becomes of the store.
                return f"! {str(event).strip().partition(' ')[2]}" if event.at_ns >= self._began_ns else ""

    def _asking(self, asked: RequestReceived) -> str:
        because = f", because of {asked.cause}" if asked.cause else ""
        decision = f", decision {asked.decision}" if asked.decision else ""
        answer = self._answers.get(asked.request)
        if answer is None:
            came = "no answer"
        else:
            at = f", revision {answer.revision}" if answer.revision else ""
            late_s = (answer.at_ns - asked.at_ns) / 1e9
            late = f" after {late_s:.1f} s" if late_s >= 0.1 else ""
            came = f"{answer.status}{at}{late}{'' if answer.is_delivered else ', RESPONSE LOST'}"
        who = asked.who or "unknown client"
        path = asked.path.partition("?")[0]
        return f"{who} → {asked.server}: {asked.method} {path} (#{asked.request}{because}{decision}): {came}"

    def _committed(self, commit: RevisionCommitted) -> str:
        did = "deletes" if commit.value is None else "creates" if commit.previous is None else "changes"
        asked = self._asked.get(commit.request or 0)
        whose = "" if asked is not None and find_key(asked) == commit.key else self._whose(commit, asked)
        changed = "" if did != "changes" else _changed(commit)
        return f"revision {commit.revision} {did} {commit.key}{whose}{changed}"

    def _whose(self, commit: RevisionCommitted, asked: RequestReceived | None) -> str:
        if commit.request is None:
            return ", by the server itself"
        return "" if asked is None else f", for #{asked.request} of {asked.who}"

    def _delivered(self, event: WatchDelivered) -> str:
        same = self._told[(event.key, event.revision, event.type)]
        first_ns = same[0].at_ns
        what = f"{event.key} at {event.revision} ({event.type})"
        if event is same[0]:
            who = list(dict.fromkeys(each.who for each in same if each.at_ns - first_ns <= TOGETHER_NS))
            return f"  {', '.join(who)} {'receive' if len(who) > 1 else 'receives'} {what}"
        late_s = (event.at_ns - first_ns) / 1e9
        return "" if late_s * 1e9 <= TOGETHER_NS else f"  {event.who} receives {what}, {late_s:.1f} s after the first"

    def _watch(self, event: WatchOpened | WatchEnded) -> str:
        if isinstance(event, WatchOpened):
            if not any(key.startswith(event.prefix) for key in self._keys):
                return ""
            self._programs.setdefault(event.who)
            start = "with initial state" if event.wants_state else f"after {event.after}"
            self._watches[event.watch] = event
            return f"  {event.who} watches {event.prefix} on {event.server} {start} (#{event.watch})"
        opened = self._watches.get(event.watch)
        return "" if opened is None else f"  the watch of {event.who} on {opened.prefix} ends (#{event.watch})"


def _changed(commit: RevisionCommitted) -> str:
    if commit.previous is None or commit.value is None:
        return ""
    changes = differences(_decode(commit.previous), _decode(commit.value))
    words = [f"{path_text(each.path)} {shown(each.before)} → {shown(each.after)}" for each in changes[:FIELDS_MAX]]
    more = f"; and {len(changes) - FIELDS_MAX} more" if len(changes) > FIELDS_MAX else ""
    return f": {'; '.join(words)}{more}" if words else ""
