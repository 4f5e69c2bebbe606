"""One hash over all that happens in a run, and the way from two different hashes to the first difference.

Two runs that should be equal are compared by `digest`. It covers each step of the loop (when, and which task or
callback), each choice, and whatever else is noted. A checkpoint of the hash is kept for each batch of events, so that
two long runs can be compared in a few bytes; with `keep` the events are kept too, and `first_difference` names the
first one that differs.

How it stays cheap: a step adds one integer to a list. Names, and the notes, are put beside it as they are, and encoded
and hashed by the batch. An integer below zero says that time went on, zero stands for the next note, and one above zero
is the task or callback that had its turn.

Not covered: what a step does inside. A difference shows once it has changed what runs, when, or what is noted.
"""

import asyncio
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextvars import Context
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec

BATCH: Final = 1024  # Events for each checkpoint.
NOTE: Final = 0

Field = str | int | float | bytes | None

_encode = msgspec.msgpack.Encoder().encode


class Choice(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="choice"):
    """One choice that was made: which of how many, and for the n-th time under its label."""

    label: str
    ordinal: int
    options: int
    chosen: int


class Event(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened, as people read it."""

    time_ns: int
    what: str

    def __str__(self) -> str:
        return f"{self.time_ns / 1_000_000_000:.9f} {self.what}"


class Recording(msgspec.Struct, frozen=True):
    """What remains of a trace when its run is over: comparable, and fit to be written to a file."""

    digest: str
    checkpoints: list[str]
    events: list[Event] | None = None  # Only when the trace was told to keep them.


class TraceDifference(msgspec.Struct, frozen=True):
    """The first event that two runs do not share. `None` is a run that had already ended there."""

    index: int
    left: Event | None
    right: Event | None

    def __str__(self) -> str:
        return f"event {self.index}: {self.left or 'the end'} | {self.right or 'the end'}"


class Trace:
    """The record of one run. `buffer` and `notes` are written by the loop directly: it is the hottest line there is."""

    __slots__ = ("_hasher", "_kept", "buffer", "checkpoints", "ids", "names", "notes")

    def __init__(self, *, keep: bool = False) -> None:
        self.buffer: list[int] = []
        self.notes: list[object] = []
        self.names: list[str] = [""]  # By id. Zero is taken by notes.
        self.checkpoints: list[str] = []
        self.ids: dict[str, int] = {}  # Of callbacks, by name. Tasks may share a name, and have an id each.
        self._hasher = blake2b(digest_size=16)
        self._kept: list[tuple[list[int], list[object]]] | None = [] if keep else None

    def note(self, kind: str, *fields: Field) -> None:
        """Record that something happened. Fields must not change later: they are read when the batch is full."""
        self.buffer.append(NOTE)
        self.notes.append((kind, *fields))

    def note_choice(self, choice: Choice) -> None:
        self.buffer.append(NOTE)
        self.notes.append(choice)

    def define(self, name: str) -> int:
        """A new id for something that will have turns. The name need not be new."""
        number = len(self.names)
        self.names.append(name)
        self.note("define", number, name)
        return number

    def find_id(self, name: str) -> int:
        """The id of what has this name, given at its first turn."""
        number = self.ids.get(name)
        if number is None:
            number = self.ids[name] = self.define(name)
        return number

    def end_batch(self) -> None:
        """Hash what has come together. The loop calls this when `BATCH` events are there."""
        self._hasher.update(self._encoded())
        self.checkpoints.append(self._hasher.hexdigest())
        if self._kept is not None:
            self._kept.append((self.buffer[:], self.notes[:]))
        self.buffer.clear()
        self.notes.clear()

    @property
    def digest(self) -> str:
        """The hash of all events so far."""
        # On a copy: looking at the digest in the middle of a run must not move the batches.
        hasher = self._hasher.copy()
        hasher.update(self._encoded())
        return hasher.hexdigest()

    def events(self) -> Iterator[Event]:
        """All events, from the first. Only if the trace was made with `keep`."""
        if self._kept is None:
            raise ValueError("the events were not recorded: create the trace with keep=True")
        now = 0
        for buffer, notes in (*self._kept, (self.buffer, self.notes)):
            yield from self.decode_events(buffer, notes, now)
            now = next((~entry for entry in reversed(buffer) if entry < 0), now)

    def decode_events(self, buffer: Sequence[int], notes: Iterable[object], now: int) -> Iterator[Event]:
        """Those of one batch, which begins at this time."""
        remaining = iter(notes)
        for entry in buffer:
            if entry < 0:
                now = ~entry
            elif entry > 0:
                yield Event(now, f"step {self.names[entry]}")
            else:
                yield Event(now, _describe(next(remaining)))

    def recording(self) -> Recording:
        return Recording(
            digest=self.digest,
            checkpoints=self.checkpoints[:],
            events=None if self._kept is None else list(self.events()),
        )

    def _encoded(self) -> bytes:
        return array("q", self.buffer).tobytes() + _encode(self.notes)


def first_difference(left: Trace | Recording, right: Trace | Recording) -> TraceDifference | None:
    """The first event in which two kept traces differ, or `None` if they are equal."""
    if isinstance(left, Trace):
        left = left.recording()
    if isinstance(right, Trace):
        right = right.recording()
    if left.digest == right.digest:
        return None
    if left.events is None or right.events is None:
        raise ValueError("the events were not recorded: create both traces with keep=True")
    shared = min(len(left.events), len(right.events))
    for index in range(shared):
        if left.events[index] != right.events[index]:
            return TraceDifference(index, left.events[index], right.events[index])
    return TraceDifference(
        shared,
        left.events[shared] if shared < len(left.events) else None,
        right.events[shared] if shared < len(right.events) else None,
    )


def _describe(note: object) -> str:
    if isinstance(note, Choice):
        return f"choice {note.label} #{note.ordinal}: {note.chosen} of {note.options}"
    assert isinstance(note, tuple)
    kind, *fields = note
    return " ".join((kind, *map(_shown, fields)))


def _shown(field: Field) -> str:
    if not isinstance(field, str):
        return repr(field)
    try:
        float(field)
    except ValueError:
        return field
    return repr(field)  # Otherwise the text "1" and the number 1 would read the same.


def name_callback(callback: Any) -> str:
    """What a callback is called, without anything that differs from run to run."""
    while isinstance(callback, partial):
        # asyncio.to_thread calls what it is given by way of the caller's context.
        is_in_context = isinstance(getattr(callback.func, "__self__", None), Context)
        callback = callback.args[0] if is_in_context else callback.func
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        # Not made by our factory: its name is from a counter that all loops of the process share.
        coroutine = owner.get_coro()
        return f"task {getattr(coroutine, '__qualname__', type(coroutine).__qualname__)}"
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))
