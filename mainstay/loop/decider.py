"""How a component decides, in the one shape that replay needs: `decide(view, memory)`, a plain function.

Every component of the journal has a `Decider`, whichever schedule it works on. In production the schedule makes the
view and keeps the memory, and acts on what `decide` says; replay rebuilds both from a record and calls the same
function. What it said is compared in the form in which records have it (`Decided`).
"""

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from mainstay.loop.controller import Controller, Reads
from mainstay.loop.record import Decided, describe_decision, failure_to_decide
from mainstay.loop.view import View


class Schedule(Enum):
    """When a component decides; with it, what a record of it is about."""

    PER_KEY = auto()
    """From a queue. A record is a whole decision."""
    PERIODIC = auto()
    """Everything at once. A record is one step of a pass, which its id numbers: `NAME-….3` is the fourth."""
    FRESH_READ = auto()
    """Per key. A record is one of the writes of a decision, which may have been made in any order."""


@dataclass(frozen=True, slots=True)
class Decider:
    """How the decisions of one component come about."""

    name: str
    """The `component` of its records."""
    schedule: Schedule
    reads: Sequence[Reads]
    """What its views have. A decision on fresh reads names the rest itself."""
    memory: Any
    """The type of what its records remember."""
    decide: Callable[[Any, Any], Sequence[Decided]]
    """Of a view and a memory: one for each record that a decision leads to."""


def decide_per_key(controller: Controller, remake: Callable[[Any], Controller] | None = None) -> Decider:
    """How a controller decides. `remake` makes it with the settings of a record, if those are not the build's own."""
    remembers = typing.get_type_hints(type(controller).decide).get("memory", Any)
    has_settings = controller.settings is not None
    memory = tuple.__class_getitem__((Any, remembers)) if has_settings else remembers

    def decide(view: View, memory: Any) -> Sequence[Decided]:
        deciding = controller
        if has_settings:
            settings, memory = memory
            deciding = controller if remake is None else remake(settings)
        try:
            decision = deciding.decide(view, view.subject, memory)
        except Exception as error:  # noqa: BLE001 - as the loop does: a bug is part of what happened
            decision = failure_to_decide(error)
        return (describe_decision(decision),)

    reads = (Reads(controller.kind, indexes=controller.indexes), *controller.reads)
    return Decider(controller.name, Schedule.PER_KEY, reads, memory, decide)
