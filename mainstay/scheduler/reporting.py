"""Telling users why a pod has no node: the condition `PodScheduled`, and an Event.

A condition is written when it says something else than the pod's own status does. Which nodes are named, and how much
is free there, changes all the time in a busy cluster: a message alone is written again only after `repeat_after`, and
then at longer and longer intervals; a reason at once. Of several schedulers that have different words for the same
reason, the first one's stand. So ten thousand pods that cannot be placed do not become a stream of writes; and because
a write into the status is no reason to try a pod again (scheduling_queue.py), there is no loop.

Events are told apart by pod and reason, under a name that follows from them: the same again counts up, as `kubectl
describe` shows it. What cannot be written now is dropped: the pod is tried again, and then it is said again. At most
`waiting_max` pods wait for their report. A pod that has found its node is not reported here: the server writes that
condition with the binding itself.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.call import PatchType, WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Fenced, NotFound
from mainstay.env import Env

EVENTS: Final = KindName("", "v1", "Event", "events", True)
PODS: Final = KindName("", "v1", "Pod", "pods", True)
POD_SCHEDULED: Final = "PodScheduled"
FAILED: Final = "FailedScheduling"

_REMEMBERED_MAX: Final = 50_000  # Pods whose last report is known.
_MICROSECOND: Final = timedelta(microseconds=1)

_logger = logging.getLogger(__name__)


class Reason(StrEnum):
    """Of the condition. Kubernetes' words: only add."""

    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_ERROR = "SchedulerError"


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


@dataclass(frozen=True, slots=True)
class Report:
    key: ObjectKey
    uid: str
    reason: Reason
    message: str
    decision: str = ""
    is_weak: bool = False
    """Only worth saying if nothing else has been said."""


@dataclass(frozen=True, slots=True)
class _Said:
    reason: Reason
    message: str
    again_ns: int
    """When another message may be written."""
    event_ns: int
    """When the Event may be counted up."""
    times: int
    """How often the message was written, or looked at, for this reason."""
    events: int


def condition_patch(pod: Object, reason: str, message: str, now: datetime) -> Object | None:
    """The change of a pod's status that says so; None if it says so already, or if the pod has a node by now."""
    if (pod.get("spec") or {}).get("nodeName"):
        return None
    old = _condition_in(pod)
    if old.get("status") == "False" and old.get("reason") == reason and old.get("message") == message:
        return None
    changed = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}
    if old.get("status") != "False" or not old.get("lastTransitionTime"):
        changed["lastTransitionTime"] = times.format_time(now)
    # Lists of conditions are merged by type. The uid keeps it off another pod of the same name.
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [changed]}}


def event_of(report: Report, component: str, first: datetime, last: datetime, count: int) -> Object:
    name = f"{report.key.name[:200]}.{hashlib.sha256(f'{report.uid}/{report.reason}'.encode()).hexdigest()[:16]}"
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": report.key.namespace},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": report.key.namespace,
            "name": report.key.name,
            "uid": report.uid,
        },
        "type": "Warning",
        "reason": FAILED,
        "message": report.message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": times.format_time(first),
        "lastTimestamp": times.format_time(last),
        "count": count,
    }


def _condition_in(pod: Object) -> dict[str, Any]:
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == POD_SCHEDULED:
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
        self._waiting: dict[str, Report] = {}
        self._said: OrderedDict[str, _Said] = OrderedDict()
        self._has_work = asyncio.Event()
        self.written = 0
        self.events = 0
        self.failures = 0
        self.dropped = 0

    def report(self, report: Report) -> None:
        """A pod has no node for this reason. Of several reports about one pod, the last counts."""
        said = self._said.get(report.uid)
        if said is not None and said.reason == report.reason and self._clock.monotonic_ns() < said.again_ns:
            return
        if report.uid not in self._waiting and len(self._waiting) >= self._settings.waiting_max:
            self.dropped += 1
            return
        self._waiting[report.uid] = report
        self._has_work.set()

    def forget(self, uid: str) -> None:
        """The pod is bound, or gone."""
        self._waiting.pop(uid, None)
        self._said.pop(uid, None)

    async def run(self) -> None:
        while True:
            await self._has_work.wait()
            if not self._waiting:
                self._has_work.clear()
                continue
            uid = next(iter(self._waiting))
            await self._one(self._waiting.pop(uid))

    async def _one(self, report: Report) -> None:
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
        patch = None if is_left else condition_patch(pod, report.reason, report.message, now)
        write = WriteOptions(field_manager=self._component, term=self._term, decision=report.decision)
        try:
            if patch is not None:
                await self._client.patch(
                    PODS,
                    report.key.name,
                    report.key.namespace,
                    patch,
                    type=PatchType.STRATEGIC,
                    subresource="status",
                    write=write,
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
            shown = old.get("message", "") if is_left else report.message
            self._remember(report.uid, _Said(report.reason, shown, again_ns, event_ns, times, events))
        except Fenced:
            raise
        except NotFound:
            self.forget(report.uid)
        except ApiError as error:
            self.failures += 1
            _logger.info("the reason why %s has no node could not be written: %s", report.key, error)

    async def _tell(self, report: Report, now: datetime, count: int) -> None:
        event = event_of(report, self._component, now, now, count)
        write = WriteOptions(field_manager=self._component, decision=report.decision)
        try:
            await self._client.create(EVENTS, event, write=write)
        except AlreadyExists:
            if count == 1:
                return  # Another scheduler has said it, or this one before it was started anew.
            metadata = event["metadata"]
            changed = {name: event[name] for name in ("message", "lastTimestamp", "count")}
            await self._client.patch(EVENTS, metadata["name"], metadata["namespace"], changed, write=write)
        self.events += 1

    def _longer(self, first_ns: int, times: int) -> int:
        """Twice as long each time."""
        return min(first_ns << min(times - 1, 30), max(first_ns, self._longest_ns))

    def _remember(self, uid: str, said: _Said) -> None:
        if uid not in self._said and len(self._said) >= _REMEMBERED_MAX:
            self._said.popitem(last=False)
        self._said[uid] = said
