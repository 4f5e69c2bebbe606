"""Which request is handled next: the decisions of flow control, without clock or event loop.

    arrive ─► RUNNING                  there is a seat, nothing of its level waits, and this turn has starts left
          ├─► WAITING ─► next ─► RUNNING         by fair queuing between levels, and between the flows of a level
          │          └─► give_up ─► OVER
          └─► REJECTED                 its queue is full, or its level has none
    RUNNING ─► finish ─► OVER

What protects an event loop is not only how many requests are under way (seats), but also how many are begun before it
looks at its connections again. So there is a number of starts for each turn of the loop: beyond it requests wait, and
the next turn takes them in fair order. A request that is exempt never comes here.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, Final

from msgspec import Struct

from mainstay.server.flow.fair_queues import FairQueues, QueuedItem
from mainstay.server.flow.seats import LevelSeats, LevelSettings, SeatPool

COST_GUESSED_S: Final = 0.005
"""What a request is taken to cost each of its seats, until it is known."""


class FlowStep(Enum):
    """Where a request is."""

    WAITING = auto()
    RUNNING = auto()
    REJECTED = auto()
    OVER = auto()


class FlowLevel:
    """A priority level at work."""

    __slots__ = ("queues", "seats", "settings", "tag")

    def __init__(self, settings: LevelSettings) -> None:
        self.settings = settings
        self.seats = LevelSeats(settings)
        self.queues: FairQueues[FlowRequest] | None = _build_queues(settings)
        self.tag = 0.0
        """As that of a queue, among levels."""


class FlowRequest(Struct, eq=False):
    """One request of a level that is limited."""

    level: FlowLevel
    width: int
    item: Any
    """Whatever the caller needs when it is its turn."""
    step: FlowStep = FlowStep.RUNNING
    queued: "QueuedItem[FlowRequest] | None" = None
    """Where it waits, or has waited."""


class FlowScheduler:
    """Decides for one server, which has so many seats and begins so many seats' worth of requests in one turn."""

    def __init__(self, seats: int, starts_per_turn: int) -> None:
        self._pool = SeatPool(seats)
        self._starts_per_turn = starts_per_turn
        self._starts_left = starts_per_turn
        self._few_starts = starts_per_turn // 2
        self._levels: dict[str, FlowLevel] = {}
        self._backlogged: dict[FlowLevel, None] = {}
        self._now = 0.0

    def configure(self, settings: Iterable[LevelSettings]) -> dict[str, FlowLevel]:
        """Have these levels from now on, by name. Requests of others that wait or run are still looked after."""
        levels: dict[str, FlowLevel] = {}
        for each in settings:
            level = self._levels.get(each.name)
            if level is None or level.settings.queuing != each.queuing:
                level = FlowLevel(each)
            level.settings = level.seats.settings = each
            levels[each.name] = level
        self._levels = levels
        self._pool.share(level.seats for level in levels.values())
        return levels

    def begin_turn(self) -> None:
        """The loop has looked at its connections."""
        self._starts_left = self._starts_per_turn

    @property
    def levels(self) -> Iterable[FlowLevel]:
        return self._levels.values()

    @property
    def has_waiting(self) -> bool:
        return bool(self._backlogged)

    @property
    def is_turn_due(self) -> bool:
        """Whether a new turn has to begin soon, because this one has few starts left."""
        return self._starts_left <= self._few_starts

    def has_room_to_wait(self, level: FlowLevel, flow: int) -> bool:
        """Whether a request of a flow that comes now would not be rejected."""
        if level.queues is None:
            return self._pool.has_room(level.seats, 1)
        return not level.queues.waiting or level.queues.has_room(flow)

    def arrive(self, level: FlowLevel, flow: int, width: int, item: Any = None) -> FlowRequest:
        """A request has come, which takes so many seats. Its step says what becomes of it."""
        request, seats, queues = FlowRequest(level, width, item), level.seats, level.queues
        is_free = queues is None or (self._starts_left > 0 and not queues.waiting)
        if is_free and (seats.in_use + width <= seats.nominal or self._pool.has_room(seats, width)):
            seats.in_use += width
            self._starts_left -= width
            return request
        if queues is not None:
            request.queued = queues.push(flow, request, width * COST_GUESSED_S)
        if request.queued is None:
            request.step = FlowStep.REJECTED
        else:
            request.step = FlowStep.WAITING
            self._backlogged[level] = None
        return request

    def next(self) -> FlowRequest | None:
        """Begin the next request that waits and has a seat. None if there is none, or this turn has begun enough."""
        if self._starts_left <= 0:
            return None
        best: FlowLevel | None = None
        for level in self._backlogged:
            head = None if level.queues is None else level.queues.head()
            if head is None or not self._pool.has_room(level.seats, head.item.width):
                continue
            if best is None or (max(level.tag, self._now), level.settings.name) < (
                max(best.tag, self._now),
                best.settings.name,
            ):
                best = level
        if best is None or best.queues is None or (queued := best.queues.head()) is None:
            return None
        best.queues.take(queued)
        self._drop_if_empty(best)
        request = queued.item
        self._now = max(best.tag, self._now)
        best.tag = self._now + request.width / max(1, best.seats.nominal)
        best.seats.in_use += request.width
        self._starts_left -= request.width
        request.step = FlowStep.RUNNING
        return request

    def finish(self, request: FlowRequest, spent_s: float = COST_GUESSED_S) -> None:
        """It is answered, so many seconds after it began to run."""
        if request.step is not FlowStep.RUNNING:
            raise AssertionError(f"a request that is {request.step} cannot finish")
        request.step = FlowStep.OVER
        request.level.seats.in_use -= request.width
        if request.queued is not None:
            request.queued.queue.correct(request.width * (spent_s - COST_GUESSED_S))

    def give_up(self, request: FlowRequest) -> None:
        """It does not wait any longer."""
        level = request.level
        if request.step is not FlowStep.WAITING or level.queues is None or request.queued is None:
            raise AssertionError(f"a request that is {request.step} cannot give up waiting")
        request.step = FlowStep.OVER
        level.queues.remove(request.queued)
        self._drop_if_empty(level)

    def _drop_if_empty(self, level: FlowLevel) -> None:
        if level.queues is not None and not level.queues.waiting:
            self._backlogged.pop(level, None)


def _build_queues(settings: LevelSettings) -> "FairQueues[FlowRequest] | None":
    if not settings.queues:
        return None
    return FairQueues(settings.queues, settings.hand_size, settings.length_max)
