"""Flow control: lets a request begin, wait, or go away with 429 (a stage of the chain, server/request/chain.py).

    classify       which FlowSchema matches, and so which priority level and flow      schemas.py
    require_room   429 at once if there is no room even to wait: before its body is read
    enter          take seats; wait in a fair queue if there are none                   scheduler.py
    release        when it is answered; of a long answer, when its client has taken it, or does not go on taking it
    begin_turns    each piece of a long answer is made when it is its flow's turn       turns.py

What is exempt (`system:masters`, probes) never waits. What is refused by its head alone (401, 403, 404) never comes
here: to refuse costs less than to wait. Seats are taken after the body is there, so that a client cannot hold them by
sending slowly; the bytes of all bodies are bounded elsewhere (http/arrival.py).

Work is estimated as Kubernetes does: a list takes a seat per 100 objects, at most 10, and so does a watch that begins
with what is there. A body of YAML takes a seat per kilobyte, which is ours. What a write costs its watchers is not
estimated.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import Clock, tasks
from mainstay.http.messages import Request
from mainstay.server.flow import counts as counting
from mainstay.server.flow.counts import FlowCounts
from mainstay.server.flow.scheduler import FlowRequest, FlowScheduler, FlowStep
from mainstay.server.flow.schemas import CompiledSchema, FlowAttributes, FlowMatch, SchemaTable
from mainstay.server.flow.seats import LevelSettings
from mainstay.server.flow.turns import AnswerTurns, TurnQueue
from mainstay.server.request.context import ApiCall
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.target import RequestTarget, Verb

STARTS_PER_TURN: Final = 16
"""Seats' worth of requests that begin before the loop looks at its connections again: some 5 ms."""
OBJECTS_PER_SEAT: Final = 100
YAML_BYTES_PER_SEAT: Final = 1_000
SEATS_MAX: Final = 10
"""Of one request."""


@dataclass(frozen=True, slots=True)
class FlowLimits:
    seats: int
    """Of all levels together: requests under way that are not exempt. As Kubernetes: 400 that read, 200 that write."""
    wait_max: timedelta = timedelta(seconds=15)
    """In a queue. 429 after. As Kubernetes: a quarter of the time of a request."""


class FlowControl:
    """One for each server. `configure` comes first."""

    def __init__(
        self, clock: Clock, limits: FlowLimits, count_objects: Callable[[RequestTarget], int | None], metrics: Metrics
    ) -> None:
        """`count_objects` says how many there are where a list is asked for. None: unknown."""
        self._clock = clock
        self._limits = limits
        self._count_objects = count_objects
        self._scheduler = FlowScheduler(limits.seats, STARTS_PER_TURN)
        self._turns = TurnQueue()
        self._table: SchemaTable | None = None
        self._is_turn_coming = False
        metrics.more(lambda: counting.collect(self._counts(), self._scheduler.levels))

    def _counts(self) -> Sequence[FlowCounts]:
        return [] if self._table is None else self._table.counts

    def configure(
        self, schemas: Sequence[CompiledSchema], levels: Sequence[LevelSettings], rest: CompiledSchema
    ) -> None:
        """Use these schemas and levels from now on. `rest` takes what no schema matches."""
        self._table = SchemaTable(schemas, self._scheduler.configure(levels), rest, self._table)

    # In the order in which a request comes by.

    def classify(self, call: ApiCall) -> None:
        """Note which flow a request belongs to."""
        user, target, table = call.user, call.target, self._table
        if table is None:
            return
        key: tuple[object, ...]
        if target is None:
            key = (user.name, user.groups, call.request.method, call.request.path)
        else:
            kind = target.kind
            key = (
                user.name, user.groups, target.verb, kind.plural, kind.group, target.namespace, target.subresource,
            )  # fmt: skip
        call.flow = table.remembered.get(key) or table.find(key, user, _attributes(call, target))

    def require_room(self, call: ApiCall) -> None:
        """Raise `StatusError` (429) if a request could not even wait."""
        match = call.flow
        if match is None or match.level.settings.is_exempt:
            return
        if not self._scheduler.has_room_to_wait(match.level, match.flow):
            raise self._rejection(match, "queue-full" if match.level.queues else "concurrency-limit")

    def enter(self, call: ApiCall) -> bool:
        """Begin a request. False if `wait` has to be awaited first. Raises `StatusError` (429)."""
        match = call.flow
        if match is None:
            return True
        counts = match.counts
        if match.level.settings.is_exempt:
            counts.dispatched += 1
            return True
        width = self._estimate(call)
        request = self._scheduler.arrive(match.level, match.flow, width)
        step = request.step
        if step is FlowStep.RUNNING:
            counts.dispatched += 1
            counts.executing += 1
            counts.seats += width
            call.ticket = request
            if self._scheduler.is_turn_due:
                self._come_back()
            return True
        if step is FlowStep.REJECTED:
            raise self._rejection(match, "queue-full" if match.level.queues else "concurrency-limit")
        counts.waiting += 1
        call.ticket = request
        request.item = asyncio.get_running_loop().create_future(), counts
        if self._scheduler.is_turn_due:
            self._come_back()
        return False

    async def wait(self, call: ApiCall) -> None:
        """Wait until a request may begin. Raises `StatusError` (429)."""
        request, match = call.ticket, call.flow
        if request is None or match is None:
            raise AssertionError("only a request that is in a queue waits")
        if request.step is not FlowStep.WAITING:
            return  # Its turn has come before its task's.
        since_ns, (waiter, _) = self._clock.monotonic_ns(), request.item
        try:
            async with tasks.timeout(self._limits.wait_max):
                await waiter
        except TimeoutError:
            if request.step is FlowStep.WAITING:
                match.counts.note_wait(self._seconds_since(since_ns), executes=False)
                raise self._rejection(match, "time-out") from None
        match.counts.note_wait(self._seconds_since(since_ns), executes=True)

    def release(self, call: ApiCall) -> None:
        """A request is answered, or its client is gone. May be called again."""
        request, match = call.ticket, call.flow
        if request is None or match is None:
            return
        call.ticket = None
        counts, scheduler = match.counts, self._scheduler
        if request.step is FlowStep.RUNNING:
            counts.executing -= 1
            counts.seats -= request.width
            if request.queued is None:
                scheduler.finish(request)
            else:
                scheduler.finish(request, self._seconds_since(request.item))
            if scheduler.has_waiting:
                self._come_back()
        elif request.step is FlowStep.WAITING:
            counts.waiting -= 1
            scheduler.give_up(request)

    def begin_turns(self, call: ApiCall) -> AnswerTurns | None:
        """When the pieces of a long answer are made. Releases the request when it is over. None: without a limit."""
        match = call.flow
        if match is None:
            return None
        level = match.level
        weight = self._limits.seats if level.settings.is_exempt else level.seats.nominal
        return self._turns.begin(match.flow, weight, lambda: self.release(call))

    # Turns of the loop.

    def _come_back(self) -> None:
        if not self._is_turn_coming:
            self._is_turn_coming = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Begin what waits, as far as this turn goes."""
        self._is_turn_coming = False
        scheduler = self._scheduler
        scheduler.begin_turn()
        while (request := scheduler.next()) is not None:
            self._begin(request)
        if scheduler.has_waiting and scheduler.is_turn_due:
            self._come_back()  # Otherwise it is seats that are missing: see `release`.

    def _begin(self, request: FlowRequest) -> None:
        waiter, counts = request.item
        counts.waiting -= 1
        counts.dispatched += 1
        counts.executing += 1
        counts.seats += request.width
        request.item = self._clock.monotonic_ns()
        if not waiter.done():
            waiter.set_result(None)

    # Helpers.

    def _estimate(self, call: ApiCall) -> int:
        target = call.target
        if target is None or target.name or target.verb not in (Verb.LIST, Verb.WATCH):
            return _estimate_body(call.request) if call.request.body else 1
        if target.verb is Verb.WATCH and not _begins_with_state(call):
            return 1
        count = self._count_objects(target)
        if count is None:
            return SEATS_MAX
        limit = call.options.get("limit")
        if limit.isascii() and limit.isdigit() and len(limit) < 10 and int(limit):
            count = min(count, int(limit))
        return min(SEATS_MAX, max(1, -(-count // OBJECTS_PER_SEAT)))

    def _seconds_since(self, since_ns: int) -> float:
        return (self._clock.monotonic_ns() - since_ns) / 1e9

    @staticmethod
    def _rejection(match: FlowMatch, reason: str) -> StatusError:
        match.counts.note_rejection(reason)
        text = "Too many requests, please try again later."
        return StatusError(429, StatusReason.TOO_MANY_REQUESTS, text, retry_after_s=1, headers=dict(match.headers))


def _estimate_body(request: Request) -> int:
    """YAML costs a millisecond per kilobyte or so, and a small one is read on the loop."""
    more = len(request.body) // YAML_BYTES_PER_SEAT
    if not more or "yaml" not in (request.headers.get("content-type") or "").lower():
        return 1
    return min(SEATS_MAX, 1 + more)


def _attributes(call: ApiCall, target: RequestTarget | None) -> FlowAttributes:
    if target is None:
        return FlowAttributes(call.request.method.lower(), "", "", "", call.request.path)
    kind = target.kind
    resource = f"{kind.plural}/{target.subresource}" if target.subresource else kind.plural
    return FlowAttributes(str(target.verb), kind.group, resource, target.namespace)


def _begins_with_state(call: ApiCall) -> bool:
    return call.options.get("resourceVersion") in ("", "0") or call.options.flag("sendInitialEvents")
