"""All that is left to chance in a run, as one tape of labelled choices.

Whatever could go one way or another in the real world asks here: how late a message is, whether a disk fails, who goes
first. Choice 0 is always the benign one (no delay, no fault, in order), so a tape of zeros is a quiet run and setting
entries to zero makes a run simpler. Each label has a stream of its own, derived from the seed: one choice more or less
under one label never moves another.

A tape replays by label and ordinal, not by position, so a tape still fits after choices have been taken out of it or
the program has changed a little. What it does not say is 0.
"""

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from mainstay.sim.loop.trace import Choice, Trace

__all__ = ["Choice", "Choices", "Tape"]

_DRAW_BITS: Final = 64
_unpack = struct.Struct("<8Q").unpack  # One hash makes eight draws.


class Tape:
    """The choices of a run in the order they were made. Editing gives a new tape."""

    __slots__ = ("choices",)

    def __init__(self, choices: Iterable[Choice] = ()) -> None:
        self.choices = list(choices)

    def __len__(self) -> int:
        return len(self.choices)

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __getitem__(self, index: int) -> Choice:
        return self.choices[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tape) and self.choices == other.choices

    __hash__ = None  # type: ignore[assignment]  # A tape grows while its run goes on.

    def __repr__(self) -> str:
        return f"<Tape of {len(self)} choices, {sum(1 for choice in self.choices if choice.chosen)} not benign>"

    def without(self, *indexes: int) -> "Tape":
        """This tape with these entries left out: on replay they are benign."""
        dropped = frozenset(indexes)
        return Tape(choice for index, choice in enumerate(self.choices) if index not in dropped)

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self.choices))

    @classmethod
    def load(cls, path: Path) -> "Tape":
        return cls(msgspec.json.decode(path.read_bytes(), type=list[Choice]))


class Choices:
    """Makes the choices of one run and writes them on `tape`."""

    __slots__ = ("_replayed", "_seed", "_streams", "tape", "trace")

    def __init__(self, seed: int = 0, trace: Trace | None = None) -> None:
        self.tape = Tape()
        self.trace = Trace() if trace is None else trace
        self._seed = seed
        self._streams: dict[str, _Stream] = {}
        self._replayed: dict[str, dict[int, int]] | None = None

    @classmethod
    def from_tape(cls, tape: Tape, trace: Trace | None = None) -> "Choices":
        """Choices that follow a tape, and are benign where it says nothing."""
        choices = cls(trace=trace)
        choices._replayed = {}
        for choice in tape:
            choices._replayed.setdefault(choice.label, {})[choice.ordinal] = choice.chosen
        return choices

    def begin_again(self, seed: int, tape: Tape | None = None) -> None:
        """From here on choose as this seed, or this tape, says: ordinals and `tape` begin here, the trace goes on."""
        fresh = Choices(seed) if tape is None else Choices.from_tape(tape)
        self.tape = fresh.tape
        self._seed, self._streams, self._replayed = seed, fresh._streams, fresh._replayed

    def choose(self, label: str, options: int) -> int:
        """One of `options` possibilities, each as likely as the others. 0 must be the benign one."""
        if options < 1:
            raise ValueError(f"no options for choice {label}")
        stream = self._streams.get(label) or self._open(label)
        if stream.replayed is None:
            chosen = (stream.draw() * options) >> _DRAW_BITS
        else:
            chosen = stream.replayed.get(stream.ordinal, 0)
            if chosen >= options:
                chosen = 0  # The program has changed since the tape was made.
        return self._made(label, stream, options, chosen)

    def occurs(self, label: str, probability: float) -> bool:
        """Whether something unpleasant happens, this time."""
        stream = self._streams.get(label) or self._open(label)
        if stream.replayed is None:
            chosen = 1 if stream.draw() < probability * (1 << _DRAW_BITS) else 0
        else:
            chosen = 1 if stream.replayed.get(stream.ordinal, 0) else 0
        return self._made(label, stream, 2, chosen) == 1

    def says(self, prefix: str) -> bool:
        """Whether this follows a tape that has something else than benign to say under this label, or further down."""
        return self._replayed is not None and any(
            (label == prefix or label.startswith(f"{prefix}/")) and any(chosen.values())
            for label, chosen in self._replayed.items()
        )

    def wish(self, label: str, options: int, chosen: int) -> None:
        """Let the next choice under this label be this one of so many, unless a tape decides. Whatever asks whether
        something occurs with it finds that 0 does, if it can at all."""
        stream = self._streams.get(label) or self._open(label)
        stream.wish(-(-(chosen << _DRAW_BITS) // options))

    def _made(self, label: str, stream: "_Stream", options: int, chosen: int) -> int:
        choice = Choice(label, stream.ordinal, options, chosen)
        stream.ordinal += 1
        self.tape.choices.append(choice)
        self.trace.note_choice(choice)
        return chosen

    def _open(self, label: str) -> "_Stream":
        replayed = None if self._replayed is None else self._replayed.get(label, {})
        stream = self._streams[label] = _Stream(f"{self._seed}/{label}".encode(), replayed)
        return stream


class _Stream:
    """The draws of one label. A hash of seed, label and a counter: cheap to open, unlike a random generator."""

    __slots__ = ("_block", "_pool", "_source", "ordinal", "replayed")

    def __init__(self, source: bytes, replayed: dict[int, int] | None) -> None:
        self.ordinal = 0
        self.replayed = replayed
        self._source = source
        self._block = 0
        self._pool: list[int] = []

    def draw(self) -> int:
        pool = self._pool
        if not pool:
            pool.extend(_unpack(blake2b(b"%d/%b" % (self._block, self._source), digest_size=64).digest()))
            self._block += 1
        return pool.pop()

    def wish(self, drawn: int) -> None:
        """Draw this next."""
        self._pool.append(drawn)
