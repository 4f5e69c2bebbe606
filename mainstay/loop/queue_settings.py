"""Queues follow the ControllerSettings of the cluster, without a restart.

    settings = LiveQueueSettings(client, informers, base)
    vital.spawn(settings.follow(), …)              one for all queues of a process
    settings.add(queue)                            from now on, and at once as far as is known

A queue goes by the object of its own name, then by the one called `default`, then by what its process was started with:
parameter by parameter. Nothing waits for it: how a queue is paced is no matter of safety, so a process that cannot read
the objects goes on with what it has. Beside a server that has no such kind, as Kubernetes, nothing is followed.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from mainstay.api.kind_names import CONTROLLER_SETTINGS
from mainstay.api.kinds.controller_settings import DEFAULT_NAME, QueueSpec, parse_queue
from mainstay.client.client import Client
from mainstay.client.entry import Change
from mainstay.client.informer import Informer, Informers
from mainstay.loop.queue.items import QueueSettings
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.loop.served_kind import wait_until_known

_logger = logging.getLogger(__name__)


def build_settings(base: QueueSettings, specs: Sequence[QueueSpec]) -> QueueSettings:
    """What a queue goes by. Later specs win."""
    for spec in specs:
        base = _with(base, spec)
    return base


def _with(base: QueueSettings, spec: QueueSpec) -> QueueSettings:
    retry = base.retry
    first = _milliseconds(spec.first_delay_milliseconds, retry.first_delay)
    longest = retry.delay_max if spec.delay_max_seconds is None else timedelta(seconds=spec.delay_max_seconds)
    if spec.first_delay_milliseconds is None:
        first = min(first, longest)
    retry = replace(
        retry,
        attempts_max=_given(spec.attempts_max, retry.attempts_max),
        first_delay=first,
        # One of the two may come from another object: a first delay that is asked for is not cut short by that.
        delay_max=max(first, longest),
        deadline=retry.deadline if spec.deadline_seconds is None else timedelta(seconds=spec.deadline_seconds) or None,
    )
    resync, tenant_max = base.resync, base.processing_per_tenant_max
    if spec.resync_seconds is not None:
        resync = timedelta(seconds=spec.resync_seconds) or None
    if spec.processing_per_tenant_max is not None:
        tenant_max = spec.processing_per_tenant_max or None
    weights = base.weights if spec.tenant_weights is None else MappingProxyType(dict(spec.tenant_weights))
    return replace(
        base,
        retry=retry,
        change_after_failure=_milliseconds(spec.change_after_failure_milliseconds, base.change_after_failure),
        retries_per_second=_given(spec.retries_per_second, base.retries_per_second),
        retries_burst=_given(spec.retries_burst, base.retries_burst),
        resync=resync,
        passed_over_max=_given(spec.passed_over_max, base.passed_over_max),
        weights=weights,
        processing_per_tenant_max=tenant_max,
    )


def _given(wanted: int | None, otherwise: int) -> int:
    return otherwise if wanted is None else wanted


def _milliseconds(wanted: int | None, otherwise: timedelta) -> timedelta:
    return otherwise if wanted is None else timedelta(milliseconds=wanted)


class LiveQueueSettings:
    """For all queues of one process."""

    def __init__(self, client: Client, informers: Informers, base: QueueSettings) -> None:
        self._client = client
        self._informers = informers
        self._base = base
        self._informer: Informer | None = None
        self._queues: dict[str, WorkQueue[Any]] = {}
        """By name. A process that leads again has other queues of the same names."""
        self._followed: dict[str, tuple[str, ...]] = {}

    def add(self, queue: WorkQueue[Any]) -> None:
        """Let a queue follow, until another one of its name does."""
        self._queues[queue.name] = queue
        self._set(queue)

    def followed(self, queue: str) -> tuple[str, ...]:
        """The objects that a queue goes by, with their revisions: `controllersettings/default@8`. For records."""
        return self._followed.get(queue, ())

    async def follow(self) -> None:
        """Begin to follow. Ends when there is nothing to follow, or when changes come by themselves."""
        if not await wait_until_known(self._client, CONTROLLER_SETTINGS):
            return
        informer = self._informers.get(CONTROLLER_SETTINGS)
        await informer.synced()
        self._informer = informer
        informer.subscribe(self._changed)
        for queue in self._queues.values():
            self._set(queue)

    def _changed(self, change: Change) -> None:
        for name, queue in self._queues.items():
            if change.key.name in (name, DEFAULT_NAME):
                self._set(queue)

    def _set(self, queue: WorkQueue[Any]) -> None:
        specs = []
        if self._informer is not None:
            named = {entry.key.name: entry for entry in self._informer.cache.entries()}
            found = [named[name] for name in (DEFAULT_NAME, queue.name) if name in named]
            specs = [parse_queue(entry.object()) for entry in found]
            self._followed[queue.name] = tuple(
                f"{CONTROLLER_SETTINGS.plural}/{entry.key.name}@{entry.revision}" for entry in found
            )
        wanted = build_settings(self._base, specs)
        if wanted != queue.settings:
            _logger.info("queue %s follows other settings: %s", queue.name, wanted)
            queue.change_settings(wanted)
