"""The lists and watches of an API server over a history in memory, which can be told to break its promises.

It behaves like a proper one (pages of one state, watches that resume, 410 after a compaction, bookmarks) until a test
makes it do what no proper one does: repeat itself, show an old state, tell of changes that it left out before. For
everything else there is the real server (tests/client/world.py)."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mainstay.api.annotations import INITIAL_EVENTS_END
from mainstay.api.kind_name import KindName
from mainstay.client.client import RawPage
from mainstay.client.errors import Expired, Invalid, Unavailable
from mainstay.client.watch import EventType, WatchEvent
from tests.client.objects import a_pod, raw


class PretendApi:
    """Has pods in the namespace `default`. Implements `PumpSource` (pump.py)."""

    def __init__(self, *, streams_state: bool = True) -> None:
        self.revision = 1
        self.history: list[tuple[int, EventType, dict[str, Any]]] = []
        self.compacted = 1
        self.is_down = False
        self.streams_state = streams_state
        self.refuses_watches = False
        """Every watch has expired, whatever it asks for."""
        self.shown: int | None = None
        """As if nothing had happened after this revision: a member of a cluster that is behind. None: all is shown."""
        self.asked: list[str] = []
        self._streams: list[_Stream] = []
        self._uids = 0

    # What happens.

    def put(self, name: str, **fields: Any) -> int:
        there = self.state(self.revision).get(name)
        if there is None:
            self._uids += 1
        uid = there["metadata"]["uid"] if there is not None else f"uid-{name}-{self._uids}"
        return self._happened("ADDED" if there is None else "MODIFIED", a_pod(name, uid=uid, **fields))

    def delete(self, name: str) -> int:
        return self._happened("DELETED", self.state(self.revision)[name])

    def _happened(self, change: EventType, pod: dict[str, Any]) -> int:
        self.revision += 1
        pod = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self.revision)}}
        self.history.append((self.revision, change, pod))
        self._news()
        return self.revision

    def compact(self) -> None:
        """Forget everything before now. No client can watch from there any more."""
        self.compacted = self.revision

    def go_back(self, revision: int) -> None:
        """The store is restored from a backup, and no client is told."""
        self.history = [each for each in self.history if each[0] <= revision]
        self.revision, self.compacted = revision, 1

    def break_streams(self) -> None:
        for stream in self._streams:
            stream.fail()

    def bookmark(self, revision: int | None = None) -> None:
        """Tell all watches how far they are, or that they are where they are not."""
        self.tell("BOOKMARK", _bookmark(self._visible if revision is None else revision))

    def tell(self, change: EventType, pod: dict[str, Any]) -> None:
        """Tell all watches of something, whether it happened or not."""
        for stream in self._streams:
            stream.told.append(WatchEvent(change, raw(pod)))
        self._news()

    def tell_again(self, count: int) -> None:
        """Repeat the last changes."""
        for _, change, pod in self.history[-count:]:
            self.tell(change, pod)

    def catch_up(self) -> None:
        self.shown = None
        self._news()

    def state(self, revision: int) -> dict[str, dict[str, Any]]:
        """What there was at a revision, by name."""
        found = {}
        for at, change, pod in self.history:
            if at <= revision:
                found[pod["metadata"]["name"]] = (change, pod)
        return {name: pod for name, (change, pod) in sorted(found.items()) if change != "DELETED"}

    @property
    def _visible(self) -> int:
        return self.revision if self.shown is None else min(self.shown, self.revision)

    def _news(self) -> None:
        for stream in self._streams:
            stream.wake.set()

    # What is asked.

    async def list_raw(
        self, kind: KindName, namespace: str, *, labels: str, fields: str, limit: int | None, continue_: str
    ) -> RawPage:
        self.asked.append(f"list {continue_}".strip())
        await asyncio.sleep(0.001)
        if self.is_down:
            raise Unavailable("no server answers")
        start, at = map(int, continue_.split("@")) if continue_ else (0, self._visible)
        if at < self.compacted and continue_:
            raise Expired("the continue token is too old")
        pods = list(self.state(at).values())
        end = len(pods) if limit is None else start + limit
        token = f"{end}@{at}" if end < len(pods) else ""
        return RawPage([raw(pod) for pod in pods[start:end]], str(at), token, None)

    @asynccontextmanager
    async def watch(
        self,
        kind: KindName,
        namespace: str,
        *,
        resource_version: str,
        labels: str,
        fields: str,
        bookmarks: bool,
        initial_events: bool,
        opening: str,
    ) -> AsyncIterator["_Stream"]:
        self.asked.append("watch state" if initial_events else f"watch {resource_version}")
        await asyncio.sleep(0.001)
        if self.is_down:
            raise Unavailable("no server answers")
        if initial_events and not self.streams_state:
            raise Invalid("sendInitialEvents is forbidden")
        after = self._visible if initial_events else int(resource_version)
        stream = _Stream(self, after)
        if initial_events:
            stream.told.extend(WatchEvent("ADDED", raw(pod)) for pod in self.state(after).values())
            stream.told.append(WatchEvent("BOOKMARK", raw(_bookmark(after, INITIAL_EVENTS_END))))
        elif after < self.compacted or self.refuses_watches:
            raise Expired(f"too old resource version: {after} ({self.compacted})")
        self._streams.append(stream)
        try:
            yield stream
        finally:
            self._streams.remove(stream)


class _Stream:
    def __init__(self, api: PretendApi, after: int) -> None:
        self._api = api
        self._after = after
        self.told: deque[WatchEvent] = deque()
        """What comes before the next change."""
        self.error: Unavailable | None = None
        """What comes instead of everything else."""
        self.wake = asyncio.Event()

    def fail(self) -> None:
        self.error = Unavailable("the connection broke")
        self.wake.set()

    async def fetch(self, count_max: int) -> Sequence[WatchEvent]:
        while self.error is None:
            if events := self._ready():
                return events
            self.wake.clear()
            await self.wake.wait()
        raise self.error

    def _ready(self) -> list[WatchEvent]:
        events = list(self.told)
        self.told.clear()
        for revision, change, pod in self._api.history:
            if self._after < revision <= self._api._visible:
                self._after = revision
                events.append(WatchEvent(change, raw(pod)))
        return events


def _bookmark(revision: int, *annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = dict.fromkeys(annotations, "true")
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


def state_of(api: PretendApi) -> dict[str, dict[str, Any]]:
    """What a fresh list would give."""
    return {name: msgspec.json.decode(raw(pod)) for name, pod in api.state(api.revision).items()}
