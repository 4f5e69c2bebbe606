"""Regular expressions in the syntax of Go (RE2), matched in time that only grows with the text.

The schemas of custom kinds have patterns that users write and texts that other users send. Python's `re` understands a
slightly different syntax, and some pairs of pattern and text would keep it busy for years. So a pattern is read here as
Go reads it, made into a small automaton, and followed for all alternatives at once; what was followed once is
remembered.

    compile_pattern(r"^[a-z]([-a-z0-9]*[a-z0-9])?$").search("web-1")

Only whether there is a match is told, not where, so greediness and groups do not matter. Not here: scripts such as
`\\p{Greek}` (categories such as `\\p{L}` are), and single bytes (`\\C`).
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

PROGRAM_MAX: Final = 5_000  # Steps of an automaton. Go refuses what would take more than some thousands, too.
REPEAT_MAX: Final = 1_000  # As Go has it.
DEPTH_MAX: Final = 100  # Of groups in groups.
_WORK_MAX: Final = 50_000  # Of building: a part that takes no character can be repeated without adding to the program.
_STEPS_REMEMBERED_MAX: Final = 20_000  # Of one pattern; then it starts to remember anew.
_CHARACTER_MAX: Final = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]
"""Characters: sorted ranges, both ends included."""


@dataclass(frozen=True, slots=True)
class _Characters:
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class _Place:
    """A condition on where we are: `^ $ A z b B`, of which the first two look at lines."""

    what: str


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple["_Part", ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    parts: tuple["_Part", ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: "_Part"
    least: int
    most: int | None


_Part = _Characters | _Place | _Sequence | _Choice | _Repeat


def _normal(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _others(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    if start <= _CHARACTER_MAX:
        found.append((start, _CHARACTER_MAX))
    return tuple(found)


def _of(text: str) -> Ranges:
    """`09AZ` is 0 to 9 and A to Z."""
    return _normal((ord(text[i]), ord(text[i + 1])) for i in range(0, len(text), 2))


_DIGIT, _SPACE, _WORD = _of("09"), _of("\t\n\f\r  "), _of("09AZaz__")
_PERL: Final = {
    "d": _DIGIT,
    "D": _others(_DIGIT),
    "s": _SPACE,
    "S": _others(_SPACE),
    "w": _WORD,
    "W": _others(_WORD),
}
_POSIX: Final = {
    "alnum": _of("09AZaz"),
    "alpha": _of("AZaz"),
    "ascii": _of("\x00\x7f"),
    "blank": _of("\t\t  "),
    "cntrl": _of("\x00\x1f\x7f\x7f"),
    "digit": _DIGIT,
    "graph": _of("!~"),
    "lower": _of("az"),
    "print": _of(" ~"),
    "punct": _of("!/:@[`{~"),
    "space": _of("\t\r  "),
    "upper": _of("AZ"),
    "word": _WORD,
    "xdigit": _of("09AFaf"),
}
_CONTROL: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


@lru_cache(maxsize=64)
def _category(name: str) -> Ranges:
    return _normal(
        (code, code) for code in range(_CHARACTER_MAX + 1) if unicodedata.category(chr(code)).startswith(name)
    )


_CATEGORIES: Final = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}


def _is_category(name: str) -> bool:
    return name[:1] in _CATEGORIES and (len(name) == 1 or (len(name) == 2 and name[1] in _CATEGORIES[name[0]]))


def _any_case(ranges: Ranges) -> Ranges:
    found = list(ranges)
    for low, high in ranges:
        for code in range(low, min(high, low + 1_000) + 1):
            swapped = chr(code).swapcase()
            if len(swapped) == 1:
                found.append((ord(swapped), ord(swapped)))
    return _normal(found)


class _Parser:
    """Reads a pattern, left to right. Its errors are in Go's words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.flags = frozenset[str]()

    def parse(self) -> _Part:
        part = self.choice()
        if self.at < len(self.text):
            raise self.error("unexpected )", self.text)
        return part

    def error(self, words: str, shown: str) -> ValueError:
        return ValueError(f"error parsing regexp: {words}: `{shown}`")

    def choice(self) -> _Part:
        parts = [self.sequence()]
        while self.text.startswith("|", self.at):
            self.at += 1
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def sequence(self) -> _Part:
        parts: list[_Part] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            start = self.at
            one = self.one()
            if one is not None:
                parts.append(self.repeated(one, start))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def one(self) -> _Part | None:
        """The next part. None if it was only flags, or an empty quotation."""
        letter = self.text[self.at]
        if letter in "*+?" or (letter == "{" and self.count() is not None):
            raise self.error("missing argument to repetition operator", letter)
        if letter == "(":
            return self.group()
        if letter == "[":
            return self.characters(self.bracket())
        if letter == "\\":
            return self.escape()
        self.at += 1
        if letter == ".":
            return _Characters(((0, _CHARACTER_MAX),) if "s" in self.flags else _others(((10, 10),)))
        if letter == "^":
            return _Place("^" if "m" in self.flags else "A")
        if letter == "$":
            return _Place("$" if "m" in self.flags else "z")
        return self.characters(((ord(letter), ord(letter)),))

    def characters(self, ranges: Ranges) -> _Characters:
        return _Characters(_any_case(ranges) if "i" in self.flags else ranges)

    def repeated(self, part: _Part, start: int) -> _Part:
        repeats = 0
        while self.at < len(self.text) and (limits := self.repetition()) is not None:
            operator_at, (least, most) = self.at, limits
            self.skip_repetition()
            if self.text.startswith("?", self.at):
                self.at += 1  # Not greedy: the same for whether there is a match.
            repeats += 1
            if repeats > 1:
                raise self.error("invalid nested repetition operator", self.text[start:][-2:])
            if least > REPEAT_MAX or (most is not None and not least <= most <= REPEAT_MAX):
                raise self.error("invalid repeat count", self.text[operator_at : self.at])
            part = _Repeat(part, least, most)
            start = operator_at
        return part

    def repetition(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        letter = self.text[self.at]
        return self.count() if letter == "{" else simple.get(letter)

    def skip_repetition(self) -> None:
        self.at = self.text.index("}", self.at) + 1 if self.text[self.at] == "{" else self.at + 1

    def count(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}` or `{2,5}`, if that is what comes next. Anything else that begins with a brace is just text."""
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : max(end, self.at + 1)].partition(",")
        digits = [each for each in (least, most) if each]
        if end < 0 or not least or not all(each.isascii() and each.isdigit() and len(each) < 10 for each in digits):
            return None
        return int(least), int(most) if most else None if comma else int(least)

    def group(self) -> _Part | None:
        start, outer = self.at, self.flags
        self.at += 1
        if self.text.startswith("?", self.at):
            opened = self.group_options(start)
            if not opened:
                return None  # `(?i)`: for the rest of the group that we are in.
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error("expression nests too deeply", self.text)
        part = self.choice()
        self.depth -= 1
        if not self.text.startswith(")", self.at):
            raise self.error("missing closing )", self.text)
        self.at += 1
        self.flags = outer
        return part

    def group_options(self, start: int) -> bool:
        """What stands behind `(?`. Whether it opens a group."""
        for opening in ("?P<", "?<"):
            if self.text.startswith(opening, self.at) and self.text[self.at + 2 : self.at + 3] not in ("=", "!"):
                end = self.text.find(">", self.at)
                name = self.text[self.at + len(opening) : max(end, self.at)]
                if end < 0 or not name or not all(each == "_" or (each.isascii() and each.isalnum()) for each in name):
                    raise self.error(
                        "invalid named capture", self.text[start : end + 1] if end > 0 else self.text[start:]
                    )
                self.at = end + 1
                return True
        self.at += 1
        flags, is_off = set(self.flags), False
        while self.at < len(self.text):
            letter = self.text[self.at]
            self.at += 1
            if letter == "-" and not is_off:
                is_off = True
            elif letter in "imsU":
                flags = flags - {letter} if is_off else flags | {letter}
            elif letter in ":)":
                self.flags = frozenset(flags)
                return letter == ":"
            else:
                break
        raise self.error("invalid or unsupported Perl syntax", self.text[start : self.at])

    def escape(self) -> _Part | None:
        letter = self.text[self.at + 1 : self.at + 2]
        if letter in tuple("AzbB"):
            self.at += 2
            return _Place(letter)
        if letter == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 2 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            parts = tuple(self.characters(((ord(each), ord(each)),)) for each in quoted)
            return _Sequence(parts) if parts else None
        return self.characters(self.escaped())

    def escaped(self) -> Ranges:
        """A character, or several, behind a backslash."""
        start = self.at
        letter = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if not letter:
            raise self.error("trailing backslash at end of expression", "")
        if letter in _PERL:
            return _PERL[letter]
        if letter in "pP":
            return self.category(start, is_negated=letter == "P")
        code = _CONTROL.get(letter)
        if letter == "x":
            code = self.hexadecimal()
        elif letter in "01234567":
            digits = self.text[self.at - 1 : self.at + 2]
            while digits and not all(each in "01234567" for each in digits):
                digits = digits[:-1]
            if letter == "0" or len(digits) > 1:  # Otherwise it refers back to a group, which there is not.
                self.at += len(digits) - 1
                code = int(digits, 8)
        elif not letter.isalnum() and letter.isascii():
            code = ord(letter)
        if code is None or code > _CHARACTER_MAX:
            raise self.error("invalid escape sequence", self.text[start : self.at])
        return ((code, code),)

    def hexadecimal(self) -> int | None:
        if self.text.startswith("{", self.at):
            end = self.text.find("}", self.at)
            digits, after = self.text[self.at + 1 : max(end, 0)], end + 1
        else:
            digits, after = self.text[self.at : self.at + 2], self.at + 2
        if not 0 < len(digits) < 9 or not all(each in "0123456789abcdefABCDEF" for each in digits):
            return None
        self.at = after
        return int(digits, 16)

    def category(self, start: int, *, is_negated: bool) -> Ranges:
        if self.text.startswith("{", self.at):
            end = self.text.find("}", self.at)
            name = self.text[self.at + 1 : max(end, 0)]
            self.at = end + 1 if end > 0 else len(self.text)
        else:
            name = self.text[self.at : self.at + 1]
            self.at += 1
        if name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        if name != "Any" and not _is_category(name):
            raise self.error("invalid character class range", self.text[start : self.at])
        ranges = ((0, _CHARACTER_MAX),) if name == "Any" else _category(name)
        return _others(ranges) if is_negated else ranges

    def bracket(self) -> Ranges:
        start = self.at
        self.at += 1
        is_negated = self.text.startswith("^", self.at)
        self.at += is_negated
        found: list[tuple[int, int]] = []
        is_first = True
        while is_first or not self.text.startswith("]", self.at):
            is_first = False
            found += self.item(start)
        self.at += 1
        ranges = _normal(found)
        if "i" in self.flags:
            ranges = _any_case(ranges)
        return _others(ranges) if is_negated else ranges

    def item(self, start: int) -> Ranges:
        """One character in brackets, a range, or a named class."""
        if self.text.startswith("[:", self.at):
            end = self.text.find(":]", self.at)
            if end > 0:
                name = self.text[self.at + 2 : end]
                known = _POSIX.get(name.removeprefix("^"))
                if known is None:
                    raise self.error("invalid character class range", self.text[self.at : end + 2])
                self.at = end + 2
                return _others(known) if name.startswith("^") else known
        first_at = self.at
        low = self.one_in_brackets(start)
        if len(low) != 1 or low[0][0] != low[0][1]:
            return low
        if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
            self.at += 1
            high = self.one_in_brackets(start)
            if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                raise self.error("invalid character class range", self.text[first_at : self.at])
            return ((low[0][0], high[0][0]),)
        return low

    def one_in_brackets(self, start: int) -> Ranges:
        if self.at >= len(self.text):
            raise self.error("missing closing ]", self.text[start:])
        if self.text[self.at] == "\\":
            return self.escaped()
        self.at += 1
        code = ord(self.text[self.at - 1])
        return ((code, code),)


@dataclass(slots=True)
class _Node:
    """A step of the automaton: takes a character, or holds at a place, or is a fork. Without anything it is the end."""

    ranges: Ranges = ()
    starts: tuple[int, ...] = ()
    place: str = ""
    after: tuple[int, ...] = ()

    def takes(self, code: int) -> bool:
        index = bisect_right(self.starts, code) - 1
        return index >= 0 and code <= self.ranges[index][1]


class _Builder:
    def __init__(self) -> None:
        self.nodes = [_Node()]  # The end.
        self.work = 0

    def add(self, node: _Node) -> int:
        if len(self.nodes) >= PROGRAM_MAX:
            raise ValueError("error parsing regexp: expression too large")
        self.nodes.append(node)
        return len(self.nodes) - 1

    def build(self, part: _Part, then: int) -> int:
        """The step that a part begins with, given the one behind it."""
        self.work += 1
        if self.work > _WORK_MAX:
            raise ValueError("error parsing regexp: expression too large")
        match part:
            case _Characters(ranges):
                place = "" if ranges else _NOWHERE
                return self.add(_Node(ranges, tuple(low for low, _ in ranges), place, (then,)))
            case _Place(what):
                return self.add(_Node(place=what, after=(then,)))
            case _Sequence(parts):
                for each in reversed(parts):
                    then = self.build(each, then)
                return then
            case _Choice(parts):
                return self.add(_Node(after=tuple(self.build(each, then) for each in parts)))
            case _Repeat(repeated, least, most):
                after = then
                if most is None:
                    then = self.add(_Node())
                    self.nodes[then].after = (self.build(repeated, then), after)
                for _ in range((most or 0) - least):
                    then = self.add(_Node(after=(self.build(repeated, then), after)))
                for _ in range(least):
                    then = self.build(repeated, then)
                return then


_NOWHERE: Final = "nowhere"
_EDGE, _OTHER, _LETTER, _NEWLINE = 0, 1, 2, 3  # What is beside a place.


def _beside(letter: str) -> int:
    if letter == "\n":
        return _NEWLINE
    return _LETTER if letter == "_" or (letter.isascii() and letter.isalnum()) else _OTHER


def _holds(place: str, before: int, after: int) -> bool:
    match place:
        case "nowhere":
            return False
        case "A":
            return before == _EDGE
        case "z":
            return after == _EDGE
        case "^":
            return before in (_EDGE, _NEWLINE)
        case "$":
            return after in (_EDGE, _NEWLINE)
    return ((before == _LETTER) != (after == _LETTER)) == (place == "b")


@dataclass(slots=True, eq=False)
class _State:
    """Where we can be in the automaton, and what stands before."""

    nodes: frozenset[int]
    before: int
    next: dict[str, "_State"]
    can_end: bool | None = None


class Pattern:
    """A compiled pattern. Safe to share: what it remembers does not change what it answers."""

    def __init__(self, text: str) -> None:
        self.text = text
        builder = _Builder()
        self._start = builder.build(_Parser(text).parse(), 0)
        self._nodes = builder.nodes
        self._matched = _State(frozenset(), _EDGE, {})
        self._forget()

    def search(self, text: str) -> bool:
        """Whether some part of a text matches."""
        state = self._first
        for letter in text:
            after = state.next.get(letter)
            if after is None:
                after = self._step(state, letter)
            if after is self._matched:
                return True
            state = after
        if state.can_end is None:
            state.can_end = 0 in self._reached(state, _EDGE)
        return state.can_end

    def _forget(self) -> None:
        self._states: dict[tuple[frozenset[int], int], _State] = {}
        self._remembered = 0
        self._first = self._state(frozenset((self._start,)), _EDGE)

    def _state(self, nodes: frozenset[int], before: int) -> _State:
        state = self._states.get((nodes, before))
        if state is None:
            state = self._states[nodes, before] = _State(nodes, before, {})
        return state

    def _step(self, state: _State, letter: str) -> _State:
        beside, code = _beside(letter), ord(letter)
        reached = self._reached(state, beside)
        if 0 in reached:
            after = self._matched
        else:
            taken = {target for each in reached if self._nodes[each].takes(code) for target in self._nodes[each].after}
            after = self._state(frozenset(taken | {self._start}), beside)  # A match may also begin here.
        self._remembered += 1
        if self._remembered > _STEPS_REMEMBERED_MAX:
            self._forget()
        state.next[letter] = after
        return after

    def _reached(self, state: _State, after: int) -> set[int]:
        """Every step that can be reached without taking a character."""
        reached: set[int] = set()
        waiting = sorted(state.nodes)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            node = self._nodes[number]
            if not node.ranges and (not node.place or _holds(node.place, state.before, after)):
                waiting.extend(node.after)
        return reached


@lru_cache(maxsize=4_096)
def compile_pattern(text: str) -> Pattern:
    """Read a pattern. ValueError, in Go's words, if it is none."""
    return Pattern(text)
