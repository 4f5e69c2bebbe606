"""The time that foreign code is told during a run: virtual, and in UTC.

Wall time is that of the simulation's own clock, so that `sim.clock.jump` reaches foreign code too. All clocks that only
go forward show the loop's time; so do those for processor time, because the real answer differs from run to run. The
time zone is UTC (patches.py sees to that): otherwise a run would depend on where it takes place.
"""

import time
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from mainstay.sim.errors import Unsimulated
from mainstay.sim.foreign.context import AnyReplacement, Replacement, RunContext, current

_NOW_UNLESS_TOLD: Final = ("localtime", "gmtime", "ctime")
_MONOTONIC: Final = ("monotonic", "perf_counter", "process_time", "thread_time")

# The real ones: while a run is on, `time` itself has others.
_gmtime = time.gmtime
_strftime = time.strftime
_asctime = time.asctime


def replacements() -> dict[tuple[str, str], AnyReplacement]:
    """By module and name, what stands there during a run."""
    table: dict[str, AnyReplacement] = {
        "time": Replacement(time.time, _wall),
        "time_ns": Replacement(time.time_ns, _wall_ns),
        "clock_gettime": Replacement(time.clock_gettime, _clock),
        "clock_gettime_ns": Replacement(time.clock_gettime_ns, _clock_ns),
        "strftime": Replacement(time.strftime, _strftime_or_now),
        "asctime": Replacement(time.asctime, _asctime_or_now),
        "sleep": Replacement(time.sleep, _sleep),
    }
    for name in _MONOTONIC:
        table[name] = Replacement(getattr(time, name), _monotonic)
        table[f"{name}_ns"] = Replacement(getattr(time, f"{name}_ns"), _monotonic_ns)
    for name in _NOW_UNLESS_TOLD:
        table[name] = Replacement(getattr(time, name), _at_or_now(getattr(time, name)))
    return {("time", name): replacement for name, replacement in table.items()}


def datetime_methods() -> dict[str, Any]:
    """What `now` and `utcnow` of the class `datetime` are during a run. `today` asks `time.time` by itself."""
    real_now = datetime.__dict__["now"]
    real_utcnow = datetime.__dict__["utcnow"]

    def now(cls: type[datetime], tz: tzinfo | None = None) -> Any:
        run = current()
        return real_now.__get__(None, cls)(tz) if run is None else _datetime(run, cls, tz)

    def utcnow(cls: type[datetime]) -> Any:
        run = current()
        if run is None:
            return real_utcnow.__get__(None, cls)()
        return _datetime(run, cls, UTC).replace(tzinfo=None)

    return {"now": classmethod(now), "utcnow": classmethod(utcnow)}


def _datetime(run: RunContext, cls: type[datetime], tz: tzinfo | None) -> datetime:
    # In two parts: a float has no room for a date and microseconds.
    seconds, fraction_ns = divmod(run.clock.wall_ns(), 1_000_000_000)
    return cls.fromtimestamp(seconds, tz).replace(microsecond=fraction_ns // 1000)


def _wall(run: RunContext) -> float:
    return run.clock.wall_ns() / 1_000_000_000


def _wall_ns(run: RunContext) -> int:
    return run.clock.wall_ns()


def _monotonic(run: RunContext) -> float:
    return run.clock.monotonic_ns() / 1_000_000_000


def _monotonic_ns(run: RunContext) -> int:
    return run.clock.monotonic_ns()


def _clock_ns(run: RunContext, clock: int) -> int:
    return run.clock.wall_ns() if clock == time.CLOCK_REALTIME else run.clock.monotonic_ns()


def _clock(run: RunContext, clock: int) -> float:
    return _clock_ns(run, clock) / 1_000_000_000


def _at_or_now(real: Any) -> Any:
    def at_or_now(run: RunContext, seconds: float | None = None) -> Any:
        return real(_wall(run) if seconds is None else seconds)

    return at_or_now


def _strftime_or_now(run: RunContext, form: str, *moment: Any) -> str:
    return _strftime(form, *(moment or (_gmtime(_wall(run)),)))


def _asctime_or_now(run: RunContext, *moment: Any) -> str:
    return _asctime(*(moment or (_gmtime(_wall(run)),)))


def _sleep(run: RunContext, seconds: float) -> None:
    if seconds > 0 and not run.loop.executors.sleep(seconds):
        raise Unsimulated(
            f"time.sleep({seconds}) would stop the simulation: await asyncio.sleep, or run blocking code with"
            " asyncio.to_thread"
        )
