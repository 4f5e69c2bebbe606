"""Which objects a failure is about: those of the events that a checker has shown, or that its words name.

Who checks the end of a run often has no event to show, only words. What looks like a key, a name or a uid in them is
looked up among all that was ever committed. Owners of what is found are concerned as well, and so is what the writers
of it say they were looking at (the cause that they send with a write).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from mainstay.journal.keys import build_key, is_object
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import (
    ContainerEnded,
    ContainerStarted,
    Event,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
    WatchDelivered,
)
from mainstay.sim.cluster.requests import describe_request, find_prefix

OBJECTS_MAX: Final = 6
"""So many at first hand. A story of more is none."""
RELATED_MAX: Final = 4
SAME_NAME_MAX: Final = 3
_WORD: Final = re.compile(r"[\w][\w./-]*[\w]")
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    owner_references: list[_Owner] | None = None


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_decode = msgspec.json.Decoder(_Named).decode


def find_subjects(events: Sequence[Event], error: BaseException | None, problem: str) -> list[str]:
    """The keys of these objects, those at first hand first."""
    known = _Known(events)
    found = dict.fromkeys(_shown(known, _violated(error)))
    if not found:
        found = dict.fromkeys(known.named_in(problem))
    at_hand = list(found)[:OBJECTS_MAX]
    related = list(dict.fromkeys(key for key in known.behind(at_hand) if key not in at_hand))
    return [*at_hand, *related[:RELATED_MAX]]


def _violated(error: BaseException | None) -> Sequence[Event]:
    while error is not None:
        if isinstance(error, Violated):
            return error.events
        error = error.__cause__
    return ()


def _shown(known: "_Known", events: Iterable[Event]) -> Iterable[str]:
    for event in events:
        match event:
            case RevisionCommitted() | WatchDelivered():
                keys = [event.key]
            case ContainerStarted() | ContainerEnded():
                keys = [f"core/pods/{event.pod}"]
            case RequestReceived() | ResponseSent():
                keys = known.of_request.get(event.request, [])
            case _:
                keys = []
        yield from (key for key in keys if key in known.uids)


class _Known:
    """All that was ever committed, by what it may be called."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.uids: dict[str, list[str]] = {}
        """By key: of all that were ever there, the latest last."""
        self.of_request: dict[int, list[str]] = {}
        self._causes: dict[str, dict[str, None]] = {}
        self._owners: dict[str, dict[str, None]] = {}
        self._by_uid: dict[str, str] = {}
        self._by_name: dict[str, dict[str, None]] = {}
        asked: dict[int, RequestReceived] = {}
        for event in events:
            if isinstance(event, RequestReceived):
                asked[event.request] = event
                if event.is_write and (key := find_key(event)):
                    self.of_request[event.request] = [key]
            elif isinstance(event, RevisionCommitted) and is_object(event.key):
                self._add(event, asked.get(event.request or 0))

    def _add(self, commit: RevisionCommitted, asked: RequestReceived | None) -> None:
        key = commit.key
        if asked is not None:
            self.of_request.setdefault(asked.request, []).append(key)
            if asked.cause and (of := parse_cause(asked.cause)) != key:
                self._causes.setdefault(key, {})[of] = None
        if commit.value is None:
            return
        metadata = _decode(commit.value).metadata
        uids = self.uids.setdefault(key, [])
        if metadata.uid not in uids:
            uids.append(metadata.uid)
        self._by_uid[metadata.uid] = key
        self._by_name.setdefault(metadata.name, {})[key] = None
        for owner in metadata.owner_references or ():
            if owner.controller:
                self._owners.setdefault(key, {})[owner.uid] = None

    def named_in(self, text: str) -> Iterable[str]:
        for word in _WORD.findall(text):
            if word in self.uids:
                yield word
            elif _UID.fullmatch(word):
                if word in self._by_uid:
                    yield self._by_uid[word]
            else:
                name = word.rpartition("/")[2]
                keys = [key for key in self._by_name.get(name, ()) if key.endswith(f"/{word}")]
                if len(keys) <= SAME_NAME_MAX:
                    yield from keys

    def behind(self, keys: Iterable[str]) -> Iterable[str]:
        """Their owners, and what their writers had read."""
        for key in keys:
            yield from (self._by_uid[uid] for uid in self._owners.get(key, ()) if uid in self._by_uid)
        for key in keys:
            yield from (cause for cause in self._causes.get(key, ()) if cause in self.uids)


def find_key(asked: RequestReceived) -> str:
    """The key of the object that a request is about. Empty if it is not about one."""
    prefix = find_prefix(asked.path)
    if not prefix:
        return ""
    parts = asked.path.partition("?")[0].strip("/").split("/")[2 if asked.path.startswith("/api/") else 3 :]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = f"{parts[1]}/", parts[2:]
    if len(parts) > 1:
        return f"{prefix}{namespace}{parts[1]}"
    words = describe_request(asked)
    return f"{prefix}{namespace}{words.rpartition('/')[2]}" if words.partition("?")[0] != _build_path(asked) else ""


def _build_path(asked: RequestReceived) -> str:
    return f"{asked.method} {asked.path.partition('?')[0]}"


def parse_cause(cause: str) -> str:
    """The key of what a cause names: `deployments.apps/default/web@17`. Empty if it names none."""
    kind, _, rest = cause.partition("@")[0].partition("/")
    namespace, _, name = rest.rpartition("/")
    return build_key(kind, namespace, name) if kind and name else ""
