"""Leader election on a Lease, with terms.

Candidates watch one Lease object by reading it now and then. A candidate that finds it free, or unchanged for as long
as its duration, writes its own name into it, on condition that it has not changed; the revision of that write is the
*term* (term.py). A leader renews well before the end, and counts the time from when it *sent* a renewal that succeeded.

Only clock rates are trusted, never clock values: a candidate measures on its own monotonic clock how long it has seen
the lease unchanged, and the times in the object are for people. `fencing.py` has the arithmetic.

What is promised: a write under a term is committed only while that term lasts, because the server checks it. And if
clocks go wrong by less than the assumed rate, a leader has stopped by itself before the next one begins. What is not:
that there is always a leader; that one who is paused notices; anything about writes that name no term, or that go to a
server which does not check terms, such as a Kubernetes one. There, the second promise is all there is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import LEASES
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from mainstay.env import Env, tasks
from mainstay.loop.evidence import EvidenceResponse, allowed
from mainstay.loop.fencing import LeaseTimes, MayStart, ObservedLease, holder_times, may_start, observed
from mainstay.loop.signals import collect_lease_expiry
from mainstay.loop.term import Deposed, Term

_logger = logging.getLogger(__name__)

Lead = Callable[[Term], Awaitable[None]]
"""What a leader does. Cancelled when the term is over; when it returns, the lease is given back."""


DEFAULT_TIMES: Final = LeaseTimes(duration=timedelta(seconds=15), renew_every=timedelta(seconds=4))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    times: LeaseTimes = DEFAULT_TIMES
    """The duration is how long there may be no leader after one has died."""
    retry_every: timedelta = timedelta(seconds=2)
    """How often candidates look, and how soon a failed renewal is tried again. By chance up to a fifth longer."""


def may_take(lease: Object, identity: str, seen: ObservedLease, now_ns: int, times: LeaseTimes) -> bool:
    """Whether a candidate may take this lease, on condition that it is still at the revision that was seen."""
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    if not holder or holder == identity:
        # Its own name without a known term is an acquisition whose answer was lost: take it again, for a new term.
        return True
    said = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    if said > times.duration:
        # The holder counts on longer than we would give it.
        times = replace(times, duration=said)
    is_fenced = isinstance(may_start(seen, now_ns, times), MayStart)
    return EvidenceResponse.TAKE_LEADERSHIP in allowed(collect_lease_expiry(lease, is_fenced=is_fenced))


class Leader:
    """One candidate. `identity` must be new each time a process starts: it is how it knows its own work."""

    def __init__(
        self,
        client: Client,
        env: Env,
        namespace: str,
        name: str,
        identity: str,
        settings: LeaseSettings | None = None,
    ) -> None:
        self._client = client
        self._clock = env.clock
        self._jitter = env.chance.stream("lease", namespace, name, identity)
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._settings = settings or LeaseSettings()
        self._write = WriteOptions(field_manager=identity.partition("_")[0])
        self._held: Object = {}
        """The lease as we last wrote or read it."""

    async def run(self, lead: Lead) -> None:
        """Be a candidate, and lead when elected, until `lead` returns or this is cancelled. Raises what it raises."""
        while True:
            term = await self._acquire()
            _logger.info("%s leads %s/%s, term %s", self._identity, self._namespace, self._name, term.revision)
            office = tasks.spawn(_in_office(lead, term), name=f"lead {self._namespace}/{self._name}")
            try:
                await self._keep(term, office)
                if office.done():
                    if (deposed := office.result()) is None:
                        return
                    raise deposed
                raise Deposed("it could not be renewed in time")
            except Deposed as error:
                _logger.warning("%s no longer leads %s/%s: %s", self._identity, self._namespace, self._name, error)
            finally:
                was_valid = term.is_valid
                term.lost()
                await tasks.stop(office)
                if was_valid:
                    await self._release()

    async def _acquire(self) -> Term:
        """Wait until the lease is ours."""
        seen: ObservedLease | None = None
        said = ""
        while True:
            try:
                lease: Object | None
                try:
                    lease = await self._client.get(LEASES, self._name, self._namespace)
                except NotFound:
                    lease = None
                now_ns = self._clock.monotonic_ns()
                if lease is None:
                    return await self._taken(None)
                seen = observed(seen, int(lease["metadata"]["resourceVersion"]), now_ns)
                if may_take(lease, self._identity, seen, now_ns, self._settings.times):
                    return await self._taken(lease)
            except (AlreadyExists, Conflict) as error:
                _logger.debug("%s was not the first to take %s: %s", self._identity, self._name, error)
            except (Unavailable, Throttled) as error:
                # What has not been read is not known to be unchanged, but what was read before was: it still counts.
                _logger.debug("%s cannot see %s/%s: %s", self._identity, self._namespace, self._name, error)
            except (Forbidden, Unauthorized) as error:
                # An administrator may grant the right at any time, so this goes on; but says what it waits for.
                if str(error) != said:
                    said = str(error)
                    _logger.error("%s cannot take %s/%s: %s", self._identity, self._namespace, self._name, said)
            await self._pause(self._settings.retry_every)

    async def _taken(self, lease: Object | None) -> Term:
        sent_ns = self._clock.monotonic_ns()
        spec = self._spec((lease or {}).get("spec") or {}, is_new=True)
        if lease is None:
            made = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": spec}
            taken = await self._client.create(LEASES, made, write=self._write)
        else:
            taken = await self._client.replace(LEASES, {**lease, "spec": spec}, write=self._write)
        term = Term(f"{self._namespace}/{self._name}", int(taken["metadata"]["resourceVersion"]), self._clock)
        term.until(holder_times(sent_ns, self._settings.times).begin_stopping_at_ns)
        self._held = taken
        return term

    async def _keep(self, term: Term, office: "asyncio.Task[Deposed | None]") -> None:
        """Renew until the term is over or the office has ended."""
        wait = self._settings.times.renew_every
        while True:
            await asyncio.wait([office], timeout=min(self._with_jitter(wait), term.left).total_seconds())
            if office.done() or not term.is_valid:
                return
            try:
                # A renewal that takes longer than the term lasts would keep a leader in office who is none.
                async with tasks.timeout(term.left):
                    await self._renew(term)
                wait = self._settings.times.renew_every
            except (ApiError, TimeoutError) as error:
                _logger.warning("%s cannot renew %s/%s: %s", self._identity, self._namespace, self._name, error)
                wait = self._settings.retry_every

    async def _renew(self, term: Term) -> None:
        try:
            await self._write_renewal(term)
        except Conflict:
            # It was written: by another holder, a label, or an earlier renewal of ours whose answer was lost.
            self._held = await self._client.get(LEASES, self._name, self._namespace)
            holder = (self._held.get("spec") or {}).get("holderIdentity")
            if holder != self._identity:
                raise Deposed(f"the lease is held by {holder or 'no process'}") from None
            await self._write_renewal(term)
        except NotFound:
            raise Deposed("the lease was deleted") from None

    async def _write_renewal(self, term: Term) -> None:
        sent_ns = self._clock.monotonic_ns()
        renewed = {**self._held, "spec": self._spec(self._held["spec"])}
        self._held = await self._client.replace(LEASES, renewed, write=self._write)
        term.until(holder_times(sent_ns, self._settings.times).begin_stopping_at_ns)

    async def _release(self) -> None:
        """Let others in at once. If it does not work, they wait for the end of the lease."""
        spec = {**self._held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._client.replace(LEASES, {**self._held, "spec": spec}, write=self._write)
        except ApiError as error:
            _logger.debug("%s could not give back %s/%s: %s", self._identity, self._namespace, self._name, error)

    def _spec(self, before: dict[str, Any], *, is_new: bool = False) -> dict[str, Any]:
        now = times.format_micro_time(self._clock.wall())
        spec = {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._settings.times.duration.total_seconds())),
            "renewTime": now,
        }
        if is_new:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (before.get("leaseTransitions") or 0) + (1 if before else 0)
        return spec

    async def _pause(self, duration: timedelta) -> None:
        await tasks.sleep(self._with_jitter(duration))

    def _with_jitter(self, duration: timedelta) -> timedelta:
        return duration * (1 + self._jitter.random() / 5)


async def _in_office(lead: Lead, term: Term) -> Deposed | None:
    """To be deposed is no failure of the leader: another one goes on."""
    try:
        await lead(term)
    except Deposed as error:
        return error
    return None
