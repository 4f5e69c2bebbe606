"""Quantities: `500m` of a CPU, `1Gi` of memory. Read and added exactly, and written as Kubernetes writes them.

A quantity is a whole number of billionths, and one of three ways to write it: with decimal suffixes (`5k`), binary
ones (`5Ki`) or an exponent (`5e3`). It keeps the way in which it came. Written, it has no fraction, and the largest
suffix that needs none: `0.5` is `500m`, `1000` is `1k`, `1.5Gi` is `1536Mi`. What is finer than a billionth is rounded
up, away from zero: who asks for some gets some.

One oddity of Kubernetes is kept, because clients compare what they wrote with what is stored. A text of which the
digits already fit its suffix is taken as it stands, even if it has a fraction, a plus or leading zeros: `1.500` stays
`1.500`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import total_ordering
from typing import Final

from mainstay.api.remember import remember_short

NANO: Final = 10**9  # Of these units make one.

_PATTERN: Final = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_SPLIT: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([-+]?[0-9]+)", re.ASCII)

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = ("", *_BINARY)

_BINARY_MAX: Final = (2**63 - 1) * NANO  # Larger ones with a binary suffix are cut down to this.
_LENGTH_MAX: Final = 400
_EXPONENT_MAX: Final = 400  # A short text must not become a number of a million digits.


class Format(StrEnum):
    """How a quantity is written."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount. Two are equal if their amounts are, however they are written."""

    nano: int
    format: Format = Format.DECIMAL

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nano, self.format)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __str__(self) -> str:
        return _written(self.nano, self.format)

    def to_int(self) -> int:
        """In whole units, rounded away from zero."""
        return _divided_up(self.nano, NANO)

    def to_milli(self) -> int:
        """In thousandths, rounded away from zero."""
        return _divided_up(self.nano, NANO // 1000)


ZERO: Final = Quantity(0)


def parse(value: str | int | float) -> Quantity:
    """Read a quantity, which JSON may also have as a number. ValueError, in the words of Kubernetes, if it is none."""
    return _read(_text(value))[0]


def canonical(value: str | int | float) -> str:
    """How Kubernetes writes what a client sent as a quantity."""
    return _read(_text(value))[1]


def to_milli(value: str | int | float) -> int:
    """In thousandths, rounded away from zero."""
    return _read(_text(value))[0].to_milli()


def to_int(value: str | int | float) -> int:
    """In whole units, rounded away from zero."""
    return _read(_text(value))[0].to_int()


def compare(left: str | int | float, right: str | int | float) -> int:
    """Less than, equal to, or greater than zero."""
    difference = parse(left).nano - parse(right).nano
    return (difference > 0) - (difference < 0)


def _text(value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_form()
    return str(value)


@remember_short(8192)
def _read(text: str) -> tuple[Quantity, str]:
    """A quantity, and how it is written."""
    text = text.strip()
    match = _SPLIT.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None:
        raise _wrong_form()
    sign, whole, fraction, suffix = match[1], match[2].lstrip("0"), match[3] or "", match[4]
    if not match[2] and not fraction:
        raise ValueError("unable to parse numeric part of quantity") if match[3] is not None else _wrong_form()
    exponent, form = _interpreted(suffix)
    digits = (whole or "0") + fraction
    amount = int(digits)

    if form is Format.BINARY:
        nano = -(-(amount * NANO << exponent) // 10 ** len(fraction))
        kept = not fraction and amount & 7 != 0 and 14 - len(whole) - exponent * 3 // 10 >= 0
        if not kept:
            nano = min(nano, _BINARY_MAX)
            if 0 < nano < NANO:
                form = Format.DECIMAL
    else:
        scale = exponent - len(fraction)
        # Far below a billionth only one thing matters: whether it is zero.
        scale = max(scale, -_LENGTH_MAX - 9)
        nano = amount * 10 ** (scale + 9) if scale >= -9 else -(-amount // 10 ** (-9 - scale))
        kept = len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    if sign == "-":
        nano = -nano
    quantity = Quantity(nano, form)
    return quantity, text if kept else str(quantity)


def _interpreted(suffix: str) -> tuple[int, Format]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], Format.DECIMAL
    if suffix in _BINARY:
        return _BINARY[suffix], Format.BINARY
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise ValueError("unable to parse quantity's suffix")
    exponent = int(match[1])
    if exponent > _EXPONENT_MAX:
        raise ValueError("unable to parse quantity's suffix")
    return exponent, Format.EXPONENT


def _written(nano: int, form: Format) -> str:
    if nano == 0:
        return "0"
    if form is Format.BINARY and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        number, power = nano // NANO, 0
        while number % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
            number, power = number // 1024, power + 1
        return f"{number}{_BINARY_SUFFIXES[power]}"
    number, exponent = nano, -9
    while number % 1000 == 0 and (form is Format.EXPONENT or exponent < 18):
        number, exponent = number // 1000, exponent + 3
    if form is not Format.EXPONENT:
        return f"{number}{_DECIMAL_SUFFIXES[exponent]}"
    return f"{number}e{exponent}" if exponent else str(number)


def _divided_up(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _wrong_form() -> ValueError:
    return ValueError(f"quantities must match the regular expression '{_PATTERN}'")
