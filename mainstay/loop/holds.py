"""Controllers that are held take nothing: which of them, by whom, and until when (mainstay/api/holds.py).

One `Holding` follows the Holds for all controllers of a process, and each of these has a *gate*:

    await known(holding, term)                 not before it is known who is held: also a new leader does not begin
    with make_gate(holding, name, term, queue.pause, queue.resume) as gate:
        ...
        if gate.held: ...                      also between two writes of one decision

A gate shuts and opens in the step in which a Hold is seen, or its time is over; that needs no write and no other
process. What is to be done waits in its queue, and is decided on afterwards, on what is there then. That a controller
was held and went on is in the journal, as a record of its own, and told as an Event about the Hold.

Beside a server that has no Holds, as Kubernetes, no controller is held.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Final

from mainstay.api.holds import HoldReason, ParsedHold, holding_controller, in_force
from mainstay.api.kind_names import HOLDS
from mainstay.client.client import Client
from mainstay.client.entry import Change
from mainstay.client.informer import Informer, Informers
from mainstay.env import Chance, Env
from mainstay.journal.record import Ending, Outcome, Subject, ViewPart, WhyNot, micros
from mainstay.loop.events import EventRecorder, InvolvedObject
from mainstay.loop.record import Origin, Recorder, make_record
from mainstay.loop.served_kind import wait_until_known
from mainstay.loop.term import Term

LOOK_EVERY: Final = timedelta(minutes=1)
"""At the latest, while anything is held: a clock may be set."""

_logger = logging.getLogger(__name__)


class HeldBack(Exception):
    """What was begun may not go on: its controller is held. Look again afterwards."""


def _nothing() -> None:
    pass


class Gate:
    """Whether one controller may work, from `with` to its end."""

    def __init__(
        self,
        holding: "Holding | None",
        name: str,
        term: Term | None,
        shut: Callable[[], None],
        opened: Callable[[], None],
        component: str,
    ) -> None:
        self.name = name
        self.component = component
        self.held: ParsedHold | None = None
        """None: it may."""
        self.term = term.text if term is not None else ""
        self._holding = holding
        self._shut = shut
        self._opened = opened

    def require(self) -> None:
        """Raises `HeldBack` if it is held."""
        if self.held is not None:
            raise HeldBack(f"{self.name} is held: {self.held.words}")

    def set(self, held: ParsedHold | None) -> None:
        """Called by `Holding` alone."""
        before, self.held = self.held, held
        if held is not None and before is None:
            self._shut()
        elif held is None and before is not None:
            self._opened()

    def __enter__(self) -> "Gate":
        if self._holding is not None:
            self._holding.enter(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._holding is not None:
            self._holding.leave(self)


def make_gate(
    holding: "Holding | None",
    name: str,
    term: Term | None = None,
    shut: Callable[[], None] = _nothing,
    opened: Callable[[], None] = _nothing,
    component: str = "",
) -> Gate:
    """The gate of a controller. Without a `Holding` it is never shut. `component` is what its records are called by, if
    that is not its name."""
    return Gate(holding, name, term, shut, opened, component or name)


OPEN: Final = make_gate(None, "")
"""Of a loop that no Hold can name."""


async def known(holding: "Holding | None", term: Term | None = None) -> None:
    """Wait until it is known who is held, also by what happened before this term."""
    if holding is not None:
        await holding.known(term.revision if term is not None else 0)


class Holding:
    """For all controllers of one process. `close` it in the end."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        env: Env,
        *,
        recorder: Recorder | None = None,
        build: str = "",
        events: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = env.clock
        self._chance: Chance = env.chance.child("holding")
        self._recorder = recorder
        self._build = build
        self._events = events
        self._asking = asyncio.Lock()
        self._is_asked = False
        self._informer: Informer | None = None
        self._gates: dict[Gate, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._records = 0
        self._is_closed = False

    @property
    def gates(self) -> dict[str, ParsedHold | None]:
        """The controllers that work here now, by name, and who is held. For those who measure."""
        return {gate.name: gate.held for gate in self._gates}

    async def known(self, revision: int) -> None:
        """Wait until all Holds up to a revision are known. Raises `CacheStopped` when the cache is not fed any more."""
        async with self._asking:
            if not self._is_asked:
                if await wait_until_known(self._client, HOLDS):
                    self._informer = self._informers.get(HOLDS)
                    await self._informer.synced()
                    self._informer.subscribe(self._changed)
                self._is_asked = True
        if self._informer is not None and revision:
            await self._informer.cache.wait_until(revision)

    def enter(self, gate: Gate) -> None:
        self._gates[gate] = None
        self._look()

    def leave(self, gate: Gate) -> None:
        self._gates.pop(gate, None)

    def close(self) -> None:
        self._is_closed = True
        self._set_timer(None)

    def _changed(self, change: Change) -> None:
        self._look()

    def _look(self) -> None:
        """Shut and open gates as it is now, and look again when the next Hold ends."""
        if self._informer is None or self._is_closed:
            return
        now = self._clock.wall()
        active = in_force([entry.object() for entry in self._informer.cache.entries()], now)
        for gate in list(self._gates):
            before, held = gate.held, holding_controller(active, gate.name)
            if held != before:
                gate.set(held)
                self._tell(gate, before, held)
        # Rounded up: a timer that rings a moment too early would find nothing changed.
        left = min((held.expires_at - now for held in active), default=LOOK_EVERY) + timedelta(milliseconds=1)
        self._set_timer(min(left, LOOK_EVERY) if active else None)

    def _set_timer(self, delay: timedelta | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay is not None:
            self._timer = asyncio.get_running_loop().call_later(delay.total_seconds(), self._look)

    # Saying so.

    def _tell(self, gate: Gate, before: ParsedHold | None, held: ParsedHold | None) -> None:
        """That a controller is held, or goes on."""
        about = held or before
        assert about is not None
        now = self._clock.wall()
        if held is not None:
            reason, text = HoldReason.HELD, f"{gate.name} is paused: {held.words}"
            outcome = Outcome(Ending.WAKE_AT, reason, text, micros(held.expires_at))
        else:
            why = "expired" if about.expires_at <= now else "was released"
            reason = HoldReason.RESUMED
            text = f"{gate.name} resumes: Hold {about.name} of {about.owner} {why}"
            outcome = Outcome(Ending.DONE, reason, text)
        _logger.warning("%s", text)
        self._records += 1
        name = f"{gate.component}-{self._chance.uid(f'{gate.name} {gate.term}', self._records)}"
        if self._events is not None:
            told = InvolvedObject(HOLDS, about.name, uid=about.uid, generation=about.generation)
            self._events.tell(told, reason, text, decision=name)
        if self._recorder is not None:
            revision = self._informer.cache.revision if self._informer is not None else 0
            at = micros(now)
            self._recorder(
                make_record(
                    Origin(gate.component, self._build, gate.term),
                    name,
                    Subject(HOLDS.text, "", about.name, about.uid, about.generation),
                    outcome,
                    at,
                    at,
                    view=(ViewPart(HOLDS.text, revision),),
                    reasons=(text,),
                    why_not=(WhyNot.READ_OUTSIDE,),
                )
            )
