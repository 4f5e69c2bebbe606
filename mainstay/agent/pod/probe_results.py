"""Counting what a probe finds: one failure in between is not yet a failed container. Plain functions.

A result becomes the probe's verdict when it was the same often enough in a row (`successThreshold`,
`failureThreshold`). Until then the verdict stays what it was: at first a container is alive, is not ready, and it is
not knows whether it has started. When liveness or startup have failed that verdict is final: the container is ended,
and the next attempt is counted from the start.

Not here: when to probe, and how (prober.py).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from mainstay.agent.pod.facts import FailedProbe, ProbeVerdicts
from mainstay.api.kind import Object


class ProbeKind(StrEnum):
    STARTUP = "startupProbe"
    READINESS = "readinessProbe"
    LIVENESS = "livenessProbe"


@dataclass(frozen=True, slots=True)
class ProbeTimes:
    """How a probe is to be run and counted."""

    initial_delay: timedelta
    period: timedelta
    timeout: timedelta
    successes_needed: int
    failures_needed: int

    def first_at(self, started_at: datetime) -> datetime:
        return started_at + self.initial_delay


@dataclass(frozen=True, slots=True)
class ProbeCount:
    """What one probe of one attempt has found so far."""

    verdict: bool | None
    """Whether it succeeds. None: not known yet."""
    last: bool | None = None
    in_a_row: int = 0
    """How often the last result came, without another one in between."""
    is_final: bool = False
    """There is no use in probing on."""


_AT_FIRST: Final = {ProbeKind.STARTUP: None, ProbeKind.READINESS: False, ProbeKind.LIVENESS: True}


def read_times(probe: Object) -> ProbeTimes:
    """With the API's defaults, should they be missing."""
    return ProbeTimes(
        initial_delay=timedelta(seconds=probe.get("initialDelaySeconds") or 0),
        period=timedelta(seconds=probe.get("periodSeconds") or 10),
        timeout=timedelta(seconds=probe.get("timeoutSeconds") or 1),
        successes_needed=probe.get("successThreshold") or 1,
        failures_needed=probe.get("failureThreshold") or 3,
    )


def at_first(kind: ProbeKind) -> ProbeCount:
    return ProbeCount(_AT_FIRST[kind])


def counted(count: ProbeCount, kind: ProbeKind, times: ProbeTimes, *, success: bool) -> ProbeCount:
    """The count after one more result."""
    if count.is_final:
        return count
    in_a_row = count.in_a_row + 1 if count.last is success else 1
    needed = times.successes_needed if success else times.failures_needed
    # The count stops at the threshold, so that equal results make equal counts.
    in_a_row = min(in_a_row, needed)
    if in_a_row < needed:
        return ProbeCount(count.verdict, success, in_a_row)
    # Liveness and startup that failed cannot be undone; a container that has started has done so for good.
    is_final = (not success and kind is not ProbeKind.READINESS) or (success and kind is ProbeKind.STARTUP)
    return ProbeCount(success, success, in_a_row, is_final)


def build_verdicts(
    startup: ProbeCount | None, readiness: ProbeCount | None, liveness: ProbeCount | None
) -> ProbeVerdicts:
    """What the probes of an attempt say together. None: the container has no such probe."""
    failed = None
    if startup is not None and startup.verdict is False:
        failed = FailedProbe.STARTUP
    elif liveness is not None and liveness.verdict is False:
        failed = FailedProbe.LIVENESS
    return ProbeVerdicts(
        # Before the first result what the last agent found stays, if there was one.
        is_started=startup.verdict if startup is not None else None,
        is_ready=readiness.verdict if readiness is not None and readiness.last is not None else None,
        failed=failed,
    )
