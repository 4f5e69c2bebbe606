"""Kubernetes Events: what `kubectl describe` and `kubectl events` show of what a component did. Best effort.

    events.tell(About.of(PODS, pod), "Killing", "Stopping container web")

An Event has a name that follows from what it is about and what it says, so the same again counts up. Of many that say
nearly the same about one object (a thousand pods of one set), the first `similar_max` stand alone; all others are one
Event, which counts and shows the last of them. What is told while another of the same name waits to be written is
written with it. So a busy component writes few Events, however much it does; and never more than `a_second`.

What cannot be written now is dropped, and so is what does not fit into the line of those that wait: do not rely on
an Event. They carry no term: what was done was done, whichever process leads now.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.annotations import DECISION, GENERATION, TRACE
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import EVENTS
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, NotFound
from mainstay.env import Clock, tasks, vital
from mainstay.journal.trace_id import derive_trace_id

COMBINED: Final = "(combined from similar events): "
"""Annotations of Events."""
NAMESPACE: Final = "default"  # Of Events about what has none. As in Kubernetes.

_MESSAGE_LENGTH_MAX: Final = 1024
_NAME_LENGTH_MAX: Final = 200
_REMEMBERED_MAX: Final = 10_000
_MICROSECOND: Final = timedelta(microseconds=1)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    a_second: float = 20
    """How many are written, in the long run."""
    at_once: int = 50
    """How many may come together."""
    waiting_max: int = 1_000
    similar_max: int = 10
    """How many about one object with one reason stand alone, within `similar_within`."""
    similar_within: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class InvolvedObject:
    """The object that an Event is about."""

    kind: KindName
    name: str
    namespace: str = ""
    uid: str = ""
    version: str = ""
    field: str = ""
    """Which part of it: `spec.containers{web}`."""
    generation: int = 0

    @classmethod
    def of(cls, kind: KindName, obj: Object, field: str = "") -> "InvolvedObject":
        metadata = obj["metadata"]
        return cls(
            kind,
            metadata["name"],
            metadata.get("namespace", ""),
            metadata.get("uid", ""),
            metadata.get("resourceVersion", ""),
            field,
            metadata.get("generation", 0),
        )

    def reference(self) -> Object:
        found = {"apiVersion": self.kind.group_version, "kind": self.kind.kind, "name": self.name, "uid": self.uid}
        more = {"namespace": self.namespace, "resourceVersion": self.version, "fieldPath": self.field}
        return {**found, **{name: value for name, value in more.items() if value}}


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """What an Event says, and how often."""

    about: InvolvedObject
    reason: str
    message: str
    at: datetime
    is_warning: bool = False
    identity: str = ""
    """What makes it the same Event as another one about the same object with the same reason; empty: what it says."""
    count: int = 1
    action: str = ""
    """What was done, or failed, for programs: Kubernetes' field for it. `livenessProbe`."""
    decision: str = ""
    """What it tells of: by its id the Event is found among records, traces and audit lines."""

    @property
    def name(self) -> str:
        about, same = self.about, self.identity or self.message
        digest = hashlib.sha256("\0".join((about.uid, about.field, self.reason, same)).encode()).hexdigest()[:16]
        return f"{about.name[:_NAME_LENGTH_MAX]}.{digest}"

    @property
    def namespace(self) -> str:
        return self.about.namespace or NAMESPACE


def build_event(said: ObjectEvent, component: str, instance: str, first: str) -> Object:
    """The Event as it is stored."""
    source = {"component": component, **({"host": instance} if instance and instance != component else {})}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": said.name, "namespace": said.namespace, **_annotated(said)},
        "involvedObject": said.about.reference(),
        "type": "Warning" if said.is_warning else "Normal",
        "reason": said.reason,
        "message": said.message[:_MESSAGE_LENGTH_MAX],
        "source": source,
        "reportingComponent": component,
        "reportingInstance": instance or component,
        "firstTimestamp": first,
        "lastTimestamp": times.format_time(said.at),
        "count": said.count,
        **({"action": said.action} if said.action else {}),
    }


def _annotated(said: ObjectEvent) -> Object:
    """By what an Event is joined with the other signals. One that counts up names the last decision."""
    if not said.decision:
        return {}
    found = {DECISION: said.decision, TRACE: derive_trace_id(said.decision)}
    if said.about.generation:
        found[GENERATION] = str(said.about.generation)
    return {"annotations": found}


class Allowance:
    """How many may be written now. It grows with time, up to what may come together."""

    def __init__(self, clock: Clock, a_second: float, at_once: int) -> None:
        self._clock = clock
        self._a_second = a_second
        self._at_once = at_once
        self._amount = float(at_once)
        self._at_ns = clock.monotonic_ns()

    def take(self) -> bool:
        """Whether there was one."""
        now_ns = self._clock.monotonic_ns()
        grown = self._amount + (now_ns - self._at_ns) / 1e9 * self._a_second
        self._amount, self._at_ns = min(grown, self._at_once), now_ns
        if self._amount < 1 or not self._a_second:
            return False
        self._amount -= 1
        return True

    def wait(self) -> timedelta:
        """How long until there is one again."""
        return timedelta(seconds=max(1e-3, (1 - self._amount) / self._a_second))


class EventWriter:
    """Writes one Event at a time, and knows how often it has said what."""

    def __init__(self, client: Client, component: str, instance: str = "") -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._counts: OrderedDict[str, tuple[int, str]] = OrderedDict()
        """By name: how often it was said, and when first."""

    async def write(self, said: ObjectEvent, *, decision: str = "", once: bool = False) -> None:
        """Raises `ApiError`. With `once`, one that another client has written is enough."""
        name, namespace, now = said.name, said.namespace, times.format_time(said.at)
        said = replace(said, decision=said.decision or decision)
        write = WriteOptions(field_manager=self._component, decision=said.decision)
        before, first = self._counts.get(name, (0, now))
        said = replace(said, count=before + said.count)
        if before:
            try:
                await self._client.patch(EVENTS, name, namespace, _again(said, now), write=write)
            except NotFound:
                pass  # It was too long ago.
            else:
                self._remember(name, said.count, first)
                return
        try:
            await self._client.create(
                EVENTS, build_event(said, self._component, self._instance, first), namespace, write=write
            )
        except AlreadyExists:  # From an earlier incarnation, or from another process that does the same.
            if not once:
                # Writers of Events, such as agents, may not read them. A patch that changes nothing shows it as well.
                there = await self._client.patch(EVENTS, name, namespace, {}, write=write)
                said = replace(said, count=said.count + int(there.get("count") or 0))
                await self._client.patch(EVENTS, name, namespace, _again(said, now), write=write)
        self._remember(name, said.count, first)

    def _remember(self, name: str, count: int, first: str) -> None:
        self._counts.pop(name, None)
        self._counts[name] = count, first
        if len(self._counts) > _REMEMBERED_MAX:
            self._counts.popitem(last=False)


def _again(said: ObjectEvent, now: str) -> dict[str, Any]:
    again: Object = {"count": said.count, "lastTimestamp": now, "message": said.message[:_MESSAGE_LENGTH_MAX]}
    if said.action:
        again["action"] = said.action
    annotated = _annotated(said)
    return {**again, "metadata": annotated} if annotated else again


class EventRecorder:
    """`tell` never waits; `run` writes, until cancelled."""

    def __init__(
        self, client: Client, clock: Clock, component: str, instance: str = "", settings: EventSettings | None = None
    ) -> None:
        self._clock = clock
        self._settings = settings or EventSettings()
        self._writer = EventWriter(client, component, instance)
        self._allowance = Allowance(clock, self._settings.a_second, self._settings.at_once)
        self._waiting: OrderedDict[str, ObjectEvent] = OrderedDict()
        self._similar: OrderedDict[tuple[str, str, str], tuple[int, dict[str, None]]] = OrderedDict()
        """By uid, field and reason: since when, and the names of those that stand alone."""
        self._told = asyncio.Event()
        self.written = 0
        self.dropped = 0

    def tell(
        self,
        about: InvolvedObject,
        reason: str,
        message: str,
        *,
        is_warning: bool = False,
        action: str = "",
        decision: str = "",
    ) -> None:
        now = self._clock.wall()
        said = self._combined(ObjectEvent(about, reason, message, now, is_warning, action=action, decision=decision))
        name = said.name
        before = self._waiting.get(name)
        if before is not None:
            said = replace(said, count=before.count + 1)
        elif len(self._waiting) >= self._settings.waiting_max:
            self.dropped += 1
            return
        self._waiting[name] = said
        self._told.set()

    def start(self) -> asyncio.Task[None]:
        """Write Events, as a vital task."""
        return vital.spawn(self.run(), name="events")

    async def run(self) -> None:
        while True:
            await self._told.wait()
            self._told.clear()
            while self._waiting:
                while not self._allowance.take():
                    await tasks.sleep(self._allowance.wait())
                name, said = self._waiting.popitem(last=False)
                try:
                    await self._writer.write(said)
                    self.written += 1
                except ApiError as error:
                    self.dropped += said.count
                    _logger.debug("the Event %s is not written: %s", name, error)

    def _combined(self, said: ObjectEvent) -> ObjectEvent:
        """Itself, or the one that stands for all that are similar."""
        now_ns = self._clock.monotonic_ns()
        key = (said.about.uid or said.about.name, said.about.field, said.reason)
        since_ns, alone = self._similar.pop(key, (now_ns, {}))
        if now_ns - since_ns >= self._settings.similar_within // _MICROSECOND * 1000:
            since_ns, alone = now_ns, {}
        name = said.name
        is_alone = name in alone or len(alone) < self._settings.similar_max
        if is_alone:
            alone[name] = None
        self._similar[key] = since_ns, alone
        if len(self._similar) > _REMEMBERED_MAX:
            self._similar.popitem(last=False)
        return said if is_alone else replace(said, message=COMBINED + said.message, identity=COMBINED)
