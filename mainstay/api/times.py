"""Points in time and durations as the API writes them, and how long ago something was in words for people.

There are two forms on the wire: `Time` has whole seconds, `MicroTime` six digits after them. Both are in UTC. What
comes in may have another offset and other fractions, as RFC 3339 allows; what is too fine is cut off, not rounded.

Nothing here knows what time it is: `now` is an argument.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"  # How Go calls the format in its messages.

_DURATION_PART: Final = re.compile(r"(\d*)(?:\.(\d*))?([^\d.]*)", re.ASCII)
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # The micro sign,
    "μs": 1_000,  # and the Greek letter.
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
SECONDS_MAX: Final = 2**31 - 1  # 68 years.
_SECONDS_LENGTH: Final = len("2026-01-01T00:00:00")  # The offset follows.
_MICROSECONDS_LENGTH: Final = len("2026-01-01T00:00:00.000000")
_NANOSECONDS_MAX: Final = 2**63 - 1
_DURATION_LENGTH_MAX: Final = 200  # No honest duration is longer; numbers of any size cost time to read.


def parse_time(text: str) -> datetime:
    """The point in time that a text names, in UTC. ValueError if it names none."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _not_a_time(text)
    year, month, day, hour, minute, second = (int(each) for each in match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    micros = int((fraction or "")[:6].ljust(6, "0"))
    zone: timezone = UTC
    if sign:
        if int(offset_hours) > 23 or int(offset_minutes) > 59:
            raise _not_a_time(text)
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes))
        zone = timezone(-offset if sign == "-" else offset)
    try:
        return datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _not_a_time(text) from None


def _not_a_time(text: str) -> ValueError:
    return ValueError(f'parsing time "{text}" as "{_LAYOUT}": cannot parse "{text}" as "{_LAYOUT}"')


def format_time(moment: datetime) -> str:
    """As `Time`: 2026-01-01T00:00:00Z. The moment must know its offset."""
    return _in_utc(moment).isoformat(timespec="seconds")[:_SECONDS_LENGTH] + "Z"


def format_micro_time(moment: datetime) -> str:
    """As `MicroTime`: 2026-01-01T00:00:00.000000Z. The moment must know its offset."""
    return _in_utc(moment).isoformat(timespec="microseconds")[:_MICROSECONDS_LENGTH] + "Z"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no UTC offset")
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


# Almost all times are written already as they would be stored, and need not be taken apart.


def canonical_time(text: str) -> str:
    """What the server stores where a client sent this as `Time`."""
    return text if len(text) == 20 and _is_canonical_time(text) else format_time(parse_time(text))


def canonical_micro_time(text: str) -> str:
    """What the server stores where a client sent this as `MicroTime`."""
    return text if len(text) == 27 and text[19] == "." and _is_canonical(text) else format_micro_time(parse_time(text))


@lru_cache(maxsize=1024)  # One second is in many conditions, and they are sent again and again.
def _is_canonical_time(text: str) -> bool:
    return _is_canonical(text)


def _is_canonical(text: str) -> bool:
    """Whether a text of the right length is a time in the right form."""
    # `fromisoformat` is quick but takes other forms too; in these places they differ.
    if text[4:17:3] != "--T::" or text[-1] != "Z":
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def age(now: datetime, since: datetime | None) -> str:
    """How long ago, in two or three significant digits: what `kubectl get` shows as AGE."""
    return "<unknown>" if since is None else human_duration(now - since)


def human_duration(duration: timedelta) -> str:
    """`5s`, `2m3s`, `15m`, `3h5m`, `12h`, `3d4h`, `40d`, `2y100d`, `9y`: coarser the longer it is."""
    # Cut off towards zero. Clocks may differ a little, so almost a second into the future is still now.
    seconds = abs(duration) // timedelta(seconds=1)
    if duration < timedelta(0):
        return "<invalid>" if seconds > 1 else "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 2 * 60:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def to_duration(seconds: int) -> timedelta:
    """The seconds that an object says, but no more than a lifetime: what is added to a time must give a time."""
    return timedelta(seconds=max(-SECONDS_MAX, min(seconds, SECONDS_MAX)))


def parse_duration(text: str) -> timedelta:
    """A duration as Go writes it: `32s`, `1m30s`, `-1.5h`, `100ms`. What is finer than a microsecond is cut off.

    ValueError, in Go's words, if it is none.
    """
    if len(text) > _DURATION_LENGTH_MAX:
        raise ValueError(f'time: invalid duration "{text[:_DURATION_LENGTH_MAX]}..."')
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return timedelta(0)
    nanoseconds = 0
    position = 0
    while position < len(rest) or position == 0:
        part = _DURATION_PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f'time: invalid duration "{text}"')
        unit = part[3]
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in _NANOSECONDS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        fraction = part[2] or ""
        nanoseconds += int(part[1] or "0") * _NANOSECONDS[unit]
        nanoseconds += int(fraction or "0") * _NANOSECONDS[unit] // 10 ** len(fraction)
        position = part.end()
    if nanoseconds > _NANOSECONDS_MAX:
        raise ValueError(f'time: invalid duration "{text}"')
    duration = timedelta(microseconds=nanoseconds // 1000)
    return -duration if text.startswith("-") else duration
