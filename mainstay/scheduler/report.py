"""Telling users why a pod has no node, or that it has got one: the conditions, and Events.

A condition is written when it says something else than the pod's own status does. Which nodes are named, and how much
is free there, changes all the time in a busy cluster: a message alone is written again only after `repeat_after`, and
then at longer and longer intervals; a reason at once. Of several schedulers that have different words for the same
reason, the first one's stand. So ten thousand pods that cannot be placed do not become a stream of writes; and because
a write into the status is no reason to try a pod again (scheduler/queue/scheduling_queue.py), there is no loop.

Events (loop/events.py) are told apart by pod and reason: the same again counts up, as `kubectl describe` shows it.
What cannot be written now is dropped: the pod is tried again, and then reported again. At most `waiting_max` pods
wait for their report.

While the answer to its binding is missing, so that it may or may not be bound, a pod has `SchedulingRetrying`.
That is only written to a pod which is known to have no node at that very revision: it is read first, by name and uid,
and a pod that turns out to be bound says so itself (`PodScheduled`, which the server writes with the binding; the same
transaction sets `SchedulingRetrying` to False). So no pod shows both, and there is nothing to clean up.

That a pod has found its node is an Event `Scheduled`, as far as these do not get more than `placed_a_second`: of a
thousand pods a second they are of no use, and each costs as much as a binding. The others are left out and counted.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.stages import SCHEDULING_RETRYING
from mainstay.client.cache import Cache
from mainstay.client.call import PatchType, WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Conflict, Fenced, NotFound
from mainstay.env import Env
from mainstay.loop.events import Allowance, EventWriter, InvolvedObject, ObjectEvent

POD_SCHEDULED: Final = "PodScheduled"
RETRYING: Final = SCHEDULING_RETRYING
FAILED: Final = "FailedScheduling"
SCHEDULED: Final = "Scheduled"

_REMEMBERED_MAX: Final = 50_000  # Pods whose last report is known.
_MICROSECOND: Final = timedelta(microseconds=1)

_logger = logging.getLogger(__name__)


class PodConditionReason(StrEnum):
    """Of the conditions. Kubernetes' words, and one of ours: only add."""

    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_ERROR = "SchedulerError"
    BINDING_UNANSWERED = "BindingUnanswered"
    """Of `SchedulingRetrying`: a binding was sent, and its outcome is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    repeat_after: timedelta = timedelta(minutes=1)
    """How soon another message with the same reason is written for the same pod."""
    event_after: timedelta = timedelta(minutes=5)
    """How soon an Event is counted up."""
    longest: timedelta = timedelta(hours=1)
    """Both get twice as long each time, up to this."""
    waiting_max: int = 20_000
    writers: int = 4
    placed_a_second: int = 10
    """How many Events `Scheduled` are written, in the long run; 0: none."""
    placed_at_once: int = 50
    """How many may come together."""


@dataclass(frozen=True, slots=True)
class PodReport:
    key: ObjectKey
    uid: str
    reason: PodConditionReason
    message: str
    decision: str = ""
    cause: str = ""
    """The code of it where Kubernetes' reason leaves it open: a `RefusalReason`, or a `BindingCause`."""
    is_weak: bool = False
    """Only worth saying if nothing else has been said."""
    scheduled_at: str = ""
    """Of a binding without an answer: when its node was chosen."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that has got its node."""

    key: ObjectKey
    uid: str
    node: str
    decision: str = ""


@dataclass(frozen=True, slots=True)
class _Said:
    reason: PodConditionReason
    message: str
    again_ns: int
    """When another message may be written."""
    event_ns: int
    """When the Event may be counted up."""
    times: int
    """How often the message was written, or looked at, for this reason."""
    events: int


def condition_patch(
    pod: Object, reason: str, message: str, now: datetime, *, cause: str = "", is_retrying: bool = False
) -> Object | None:
    """The change of a pod's status that says so; None if it says so already, or if the pod has a node by now. With
    `is_retrying`, it also says that its binding is not retried any more."""
    if (pod.get("spec") or {}).get("nodeName"):
        return None
    old = _condition_in(pod)
    before = old.get("status"), old.get("reason"), old.get("message"), old.get("cause") or ""
    is_said = before == ("False", reason, message, cause)
    if is_said and not is_retrying:
        return None
    changed: Object = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}
    if cause or old.get("cause"):
        changed["cause"] = cause or None  # None takes away what another refusal has left.
    if old.get("status") != "False" or not old.get("lastTransitionTime"):
        changed["lastTransitionTime"] = times.format_time(now)
    conditions = [changed]
    if is_retrying:
        over = {"type": RETRYING, "status": "False", "reason": reason, "message": "the pod is not bound"}
        conditions.append({**over, "lastTransitionTime": times.format_time(now)})
    # Lists of conditions are merged by type. The uid keeps it off another pod of the same name.
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": conditions}}


def retrying_patch(pod: Object, message: str, now: datetime, scheduled_at: str = "") -> Object | None:
    """The change that says of a pod, as it is at this revision, that its binding is being retried; None if it says so
    already, or has a node."""
    if (pod.get("spec") or {}).get("nodeName") or _condition_in(pod, RETRYING).get("status") == "True":
        return None
    metadata = pod["metadata"]
    changed = {"type": RETRYING, "status": "True", "reason": PodConditionReason.BINDING_UNANSWERED, "message": message}
    changed["lastTransitionTime"] = times.format_time(now)
    if scheduled_at:
        changed["scheduledAt"] = scheduled_at
    same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": same, "status": {"conditions": [changed]}}


def build_event(report: PodReport, now: datetime) -> ObjectEvent:
    # Which nodes are named changes all the time: it is the same Event all the same.
    about = InvolvedObject(PODS, report.key.name, report.key.namespace, report.uid)
    return ObjectEvent(about, FAILED, report.message, now, is_warning=True, identity=report.reason)


def build_placement_event(placed: PlacedPod, now: datetime) -> ObjectEvent:
    message = f"Successfully assigned {placed.key.namespace}/{placed.key.name} to {placed.node}"
    return ObjectEvent(InvolvedObject(PODS, placed.key.name, placed.key.namespace, placed.uid), SCHEDULED, message, now)


def _condition_in(pod: Object, wanted: str = POD_SCHEDULED) -> dict[str, Any]:
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == wanted:
            found: dict[str, Any] = each
            return found
    return {}


class Reporter:
    """`report` never waits; `run` writes, until cancelled. Raises `Fenced` from `run`."""

    def __init__(
        self,
        client: Client,
        pods: Cache,
        env: Env,
        component: str,
        settings: ReportSettings | None = None,
        *,
        term: str = "",
    ) -> None:
        self._client = client
        self._pods = pods
        self._clock = env.clock
        self._component = component
        self._settings = settings or ReportSettings()
        self._repeat_ns = self._settings.repeat_after // _MICROSECOND * 1000
        self._event_ns = self._settings.event_after // _MICROSECOND * 1000
        self._longest_ns = self._settings.longest // _MICROSECOND * 1000
        self._term = term
        self._waiting: dict[str, PodReport] = {}
        self._writing: dict[str, None] = {}
        """Pods of which something is being written: what comes next of them goes by what was said last."""
        self._placed: deque[PlacedPod] = deque()
        self._allowance = Allowance(env.clock, self._settings.placed_a_second, self._settings.placed_at_once)
        """Of Events `Scheduled`."""
        self._events = EventWriter(client, component)
        self._said: OrderedDict[str, _Said] = OrderedDict()
        self._has_work = asyncio.Event()
        self.written = 0
        self.events = 0
        self.failures = 0
        self.dropped = 0
        self.untold = 0
        """Pods that found a node without an Event that says so."""

    def report(self, report: PodReport) -> None:
        """A pod has no node for this reason. Of several reports about one pod, the last counts."""
        said = self._said.get(report.uid)
        if said is not None and said.reason == report.reason and self._clock.monotonic_ns() < said.again_ns:
            return
        if report.uid not in self._waiting and len(self._waiting) >= self._settings.waiting_max:
            self.dropped += 1
            return
        self._waiting[report.uid] = report
        self._has_work.set()

    def placed(self, placed: PlacedPod) -> None:
        """A pod has got its node. Not of all of them will be told."""
        if not self._allowance.take():
            self.untold += 1
            return
        self._placed.append(placed)
        self._has_work.set()

    def forget(self, uid: str) -> None:
        """The pod is bound, or gone."""
        self._waiting.pop(uid, None)
        self._said.pop(uid, None)

    async def run(self) -> None:
        while True:
            await self._has_work.wait()
            if (report := self._next()) is not None:
                await self._write(report)
            elif self._placed:
                await self._report_placement(self._placed.popleft())
            else:
                self._has_work.clear()

    def _next(self) -> PodReport | None:
        for uid in self._waiting:
            if uid not in self._writing:  # Of these there are no more than writers.
                return self._waiting.pop(uid)
        return None

    async def _write(self, report: PodReport) -> None:
        self._writing[report.uid] = None
        try:
            if report.reason is PodConditionReason.BINDING_UNANSWERED:
                await self._retrying(report)
            else:
                await self._one(report)
        finally:
            del self._writing[report.uid]
            if report.uid in self._waiting:
                self._has_work.set()

    async def _retrying(self, report: PodReport) -> None:
        """The pod is read first: it may be bound by now, whatever the cache shows."""
        key = report.key
        try:
            pod = await self._client.get(PODS, key.name, key.namespace)
            if pod["metadata"]["uid"] != report.uid:
                return
            patch = retrying_patch(pod, report.message, self._clock.wall(), report.scheduled_at)
            if patch is not None:
                await self._client.patch(
                    PODS,
                    key.name,
                    key.namespace,
                    patch,
                    type=PatchType.STRATEGIC,
                    subresource="status",
                    write=self._build_write(report, pod),
                )
                self.written += 1
            again_ns = self._clock.monotonic_ns() + self._repeat_ns
            self._remember(report.uid, _Said(report.reason, report.message, again_ns, 0, 1, 0))
        except Fenced:
            raise
        except (NotFound, Conflict):
            return  # It is gone, or bound meanwhile, or changed: if it is still in doubt, it will be said again.
        except ApiError as error:
            self.failures += 1
            _logger.info("failed to record SchedulingRetrying for %s: %s", key, error)

    async def _report_placement(self, placed: PlacedPod) -> None:
        try:
            await self._events.write(
                build_placement_event(placed, self._clock.wall()), decision=placed.decision, once=True
            )
            self.events += 1
        except Fenced:
            raise
        except ApiError as error:
            self.failures += 1
            _logger.info("failed to record Scheduled event for %s: %s", placed.key, error)

    async def _one(self, report: PodReport) -> None:
        said = self._said.get(report.uid)
        now, now_ns = self._clock.wall(), self._clock.monotonic_ns()
        pod = self._pods.get(report.key)
        if pod is None or pod["metadata"]["uid"] != report.uid:
            return
        old = _condition_in(pod)
        is_same_reason = old.get("status") == "False" and old.get("reason") == report.reason
        # Another scheduler may have said it in its own words; then these stand for as long as ours would.
        is_ours = said is not None and said.message == old.get("message")
        is_left = is_same_reason and (report.is_weak or (said is None and not is_ours))
        # The cache may not show our own last words yet.
        was_ours = said is not None and said.reason is PodConditionReason.BINDING_UNANSWERED
        is_retrying = was_ours or _condition_in(pod, RETRYING).get("status") == "True"
        message = str(old.get("message", "")) if is_left else report.message
        cause = str(old.get("cause") or "") if is_left else report.cause
        patch = None
        if not is_left or is_retrying:
            patch = condition_patch(pod, report.reason, message, now, cause=cause, is_retrying=is_retrying)
        try:
            if patch is not None:
                await self._client.patch(
                    PODS,
                    report.key.name,
                    report.key.namespace,
                    patch,
                    type=PatchType.STRATEGIC,
                    subresource="status",
                    write=self._build_write(report, pod),
                )
                self.written += 1
            is_new = said is None or said.reason != report.reason
            times, events = (0, 0) if said is None or is_new else (said.times, said.events)
            event_ns = 0 if said is None or is_new else said.event_ns
            if now_ns >= event_ns:
                await self._tell(report, now, events + 1)
                events += 1
                event_ns = now_ns + self._longer(self._event_ns, events)
            times += 1
            again_ns = now_ns + self._longer(self._repeat_ns, times)
            self._remember(report.uid, _Said(report.reason, message, again_ns, event_ns, times, events))
        except Fenced:
            raise
        except NotFound:
            self.forget(report.uid)
        except ApiError as error:
            self.failures += 1
            _logger.info("failed to record FailedScheduling for %s: %s", report.key, error)

    def _build_write(self, report: PodReport, pod: Object) -> WriteOptions:
        """It follows from the pod as it was seen here."""
        cause = f"{PODS}/{report.key}@{pod['metadata']['resourceVersion']}"
        return WriteOptions(field_manager=self._component, term=self._term, decision=report.decision, cause=cause)

    async def _tell(self, report: PodReport, now: datetime, count: int) -> None:
        # If it is there the first time, another scheduler has written it, or this one before a restart.
        await self._events.write(build_event(report, now), decision=report.decision, once=count == 1)
        self.events += 1

    def _longer(self, first_ns: int, times: int) -> int:
        """Twice as long each time."""
        return min(first_ns << min(times - 1, 30), max(first_ns, self._longest_ns))

    def _remember(self, uid: str, said: _Said) -> None:
        if uid not in self._said and len(self._said) >= _REMEMBERED_MAX:
            self._said.popitem(last=False)
        self._said[uid] = said
