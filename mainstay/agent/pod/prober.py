"""Probing one attempt of a container, for as long as it runs.

Each probe goes its own way: first after `initialDelaySeconds` from the start, then every `periodSeconds`. Readiness and
liveness wait until the startup probe has succeeded. What is found is counted in probe_results.py; the worker of
the pod is woken when the verdict has changed. gRPC probes are not made: they count as succeeded, and an Event says so.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from mainstay.agent.pod.events import PodEvents
from mainstay.agent.pod.facts import ProbeVerdicts
from mainstay.agent.pod.handlers import HandlerResult, HandlerTarget, ask
from mainstay.agent.pod.probe_results import ProbeCount, ProbeKind, at_first, build_verdicts, counted, read_times
from mainstay.agent.runner import Runner
from mainstay.api.kind import Object
from mainstay.env import Clock, tasks

_WORDS: Final = {ProbeKind.STARTUP: "Startup", ProbeKind.READINESS: "Readiness", ProbeKind.LIVENESS: "Liveness"}


def has_probes(container: Object) -> bool:
    return any(container.get(kind) for kind in ProbeKind)


class ProbeTask:
    """Probes while it is not stopped."""

    def __init__(
        self,
        pod: Object,
        whom: HandlerTarget,
        started_at: datetime,
        runner: Runner,
        clock: Clock,
        events: PodEvents,
        changed: Callable[[], None],
    ) -> None:
        self._pod = pod
        self._whom = whom
        self._started_at = started_at
        self._runner = runner
        self._clock = clock
        self._events = events
        self._changed = changed
        self._counts: dict[ProbeKind, ProbeCount] = {
            kind: at_first(kind) for kind in ProbeKind if whom.container.get(kind)
        }
        self._has_started = asyncio.Event()
        self.verdicts: ProbeVerdicts = self._verdicts()
        if ProbeKind.STARTUP not in self._counts:
            self._has_started.set()
        self._tasks = [
            tasks.spawn(self._keep_probing(kind), name=f"{kind} of {whom.id.name} of {whom.id.pod_uid}")
            for kind in self._counts
        ]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _keep_probing(self, kind: ProbeKind) -> None:
        probe: Object = self._whom.container[kind]
        probe_times = read_times(probe)
        # Wall time may have jumped since; then it is no longer than if the container had just started.
        until_first = probe_times.first_at(self._started_at) - self._clock.wall()
        await tasks.sleep(min(max(until_first, timedelta()), probe_times.initial_delay))
        if kind is not ProbeKind.STARTUP:
            await self._has_started.wait()
        while not self._counts[kind].is_final:
            began_ns = self._clock.monotonic_ns()
            told = await self._ask(kind, probe, probe_times.timeout)
            self._counts[kind] = counted(self._counts[kind], kind, probe_times, success=told.is_success)
            if kind is ProbeKind.STARTUP and told.is_success:
                self._has_started.set()
            verdicts = self._verdicts()
            if verdicts != self.verdicts:
                self.verdicts = verdicts
                self._changed()
            took = timedelta(microseconds=(self._clock.monotonic_ns() - began_ns) // 1000)
            await tasks.sleep(max(probe_times.period - took, timedelta()))

    async def _ask(self, kind: ProbeKind, probe: Object, limit: timedelta) -> HandlerResult:
        name = self._whom.id.name
        if probe.get("grpc"):
            self._events.warning(self._pod, "ProbeNotSupported", f"{_WORDS[kind]} probe: gRPC is not supported", name)
            return HandlerResult(True)
        told = await ask(probe, self._whom, self._runner, limit)
        if not told.is_success:
            self._events.warning(self._pod, "Unhealthy", f"{_WORDS[kind]} probe failed: {told.message}", name, kind)
        return told

    def _verdicts(self) -> ProbeVerdicts:
        count = self._counts.get
        return build_verdicts(count(ProbeKind.STARTUP), count(ProbeKind.READINESS), count(ProbeKind.LIVENESS))
