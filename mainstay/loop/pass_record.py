"""The records of loops of their own: one for each step of a look, with all that the look went by.

A look is made without awaiting: what the caches show then is its view, and what else it goes by (when a node was heard,
what was found before) its memory. Its steps are numbered, and each has a record of its own, because each is about
another object: `NAME-….3` is the fourth step of a look. Its writes carry that name. To make it again, the whole look is
made again (explain/snapshots.py), and must come to the same step in the same place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from mainstay.client.errors import ApiError
from mainstay.client.informer import Informer
from mainstay.journal import record
from mainstay.journal.record import (
    Action,
    DecisionRecord,
    Ending,
    Memory,
    Outcome,
    Seen,
    Subject,
    WriteResult,
    micros,
)
from mainstay.loop.periodic import Around

# Sorted, so that equal steps have equal digests.
encode_sorted = msgspec.json.Encoder(order="sorted").encode
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Step:
    """What a record says of one step."""

    subject: Subject
    action: Action
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class Look:
    """One look: under which name, at what, and when."""

    name: str
    view: tuple[Seen, ...]
    now: datetime
    known: Any
    """What it went by besides the view: a frozen value."""
    _memory: Memory | None = field(default=None, repr=False)

    def step(self, number: int) -> str:
        return f"{self.name}.{number}"

    @property
    def memory(self) -> Memory:
        if self._memory is None:
            self._memory = record.whole(_pack(self.known))
        return self._memory


class Steps:
    """Records the steps of a loop."""

    def __init__(self, name: str, around: Around) -> None:
        self._name = name
        self._around = around
        self._clock = around.env.clock
        self._term = around.term.text if around.term is not None else ""

    def record(
        self,
        look: Look,
        number: int,
        step: Step,
        error: ApiError | None = None,
        writes: Sequence[WriteResult] = (),
    ) -> None:
        """What came of a step."""
        recorder = self._around.recorder
        if recorder is None:
            return
        outcome = Outcome(Ending.DONE) if error is None else Outcome(Ending.RETRY, type(error).__name__, str(error))
        recorder(
            record.bounded(
                DecisionRecord(
                    id=look.step(number),
                    at=micros(self._clock.wall()),
                    component=self._name,
                    build=self._around.build,
                    subject=step.subject,
                    outcome=outcome,
                    term=self._term,
                    view=look.view,
                    now=micros(look.now),
                    memory=look.memory,
                    reasons=step.reasons,
                    actions=(step.action,),
                    writes=tuple(writes),
                )
            )
        )


def seen_by(informers: Iterable[Informer]) -> tuple[Seen, ...]:
    """The name of what these caches show at this moment."""
    return tuple(
        [
            Seen(each.cache.kind.text, each.cache.revision, where.namespace, where.labels, where.fields)
            for each in informers
            for where in (each.collection,)
        ]
    )


def number_of(decision: str) -> int | None:
    """Which step of its look a decision is; None: it is none."""
    text = decision.rpartition(".")[2]
    return int(text) if text.isdigit() else None
