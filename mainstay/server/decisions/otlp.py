"""Sends spans (spans.py) to a collector, by the OpenTelemetry protocol over HTTP. Needs `pip install 'mainstay[otel]'`.

`offer` only puts a record down. A task makes spans of what has come together and hands them, on a worker, to
OpenTelemetry's own exporter, which tries again by itself for a while. What waits is bounded: when the collector is away
or slow, spans are dropped and counted. Traces are a convenience; the journal has it all.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.env import tasks, vital
from mainstay.journal.record import DecisionRecord, Ending, WriteRecord
from mainstay.server.decisions.spans import Span, SpanReference, Spans

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

SEND_EVERY: Final = timedelta(seconds=1)
WAITING_MAX: Final = 20_000
BATCH_MAX: Final = 2_000

_log = logging.getLogger(__name__)


class NotInstalled(Exception):
    """OpenTelemetry is not here. Says how to get it."""


class SpanSender:
    """`start` it, `offer` it records, `close` it."""

    def __init__(self, endpoint: str, cluster: str) -> None:
        """`endpoint` is the URL of the collector's traces, `…/v1/traces`. Raises `NotInstalled`."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise NotInstalled(f"{error}; traces need: pip install 'mainstay[otel]'") from None
        self._exporter = OTLPSpanExporter(endpoint=endpoint)
        self._resource = Resource({"service.name": "mainstay", "k8s.cluster.uid": cluster})
        self._spans = Spans()
        self._worker = tasks.Worker("spans")
        self._waiting: list[DecisionRecord | WriteRecord] = []
        self._news = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self.sent = 0
        self.dropped = 0

    def start(self) -> None:
        self._sending = vital.spawn(self._send_all(), name="span-sender")

    def offer(self, record: DecisionRecord | WriteRecord) -> None:
        """Never waits. A decision that found all as it should be is no event in a trace."""
        if isinstance(record, DecisionRecord) and record.outcome.ending is Ending.DONE and not record.actions:
            return
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(record)
        self._news.set()

    async def close(self) -> None:
        if self._sending is not None:
            await tasks.stop(self._sending)
        if self._waiting:
            await self._send_some()
        await self._worker.run(self._exporter.shutdown)
        self._worker.close()

    async def _send_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await tasks.sleep(SEND_EVERY)
            while self._waiting:
                await self._send_some()

    async def _send_some(self) -> None:
        records, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
        spans = [
            self._spans.of_write(each) if isinstance(each, WriteRecord) else self._spans.of_decision(each)
            for each in records
        ]
        if await self._worker.run(self._export, spans):
            self.sent += len(spans)
        else:
            self.dropped += len(spans)
            _log.warning("%d spans could not be sent", len(spans))

    def _export(self, spans: Sequence[Span]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            result = self._exporter.export([_readable(span, self._resource) for span in spans])
        except Exception as error:  # noqa: BLE001 - reported; whatever the library does, the server goes on
            _log.warning("the exporter of spans failed: %s", error)
            return False
        return result is SpanExportResult.SUCCESS


def _readable(span: Span, resource: "Resource") -> "ReadableSpan":
    """As OpenTelemetry has it."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Link, Status, StatusCode

    return ReadableSpan(
        span.name,
        context=_context(span.place),
        parent=None if span.parent is None else _context(span.parent),
        resource=resource,
        attributes=dict(span.attributes),
        links=[Link(_context(place), {"mainstay.revision": revision}) for place, revision in span.links],
        status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(StatusCode.UNSET),
        start_time=span.start_us * 1000,
        end_time=span.end_us * 1000,
    )


def _context(place: SpanReference) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(place.trace, 16), int(place.span, 16), is_remote=False, trace_flags=TraceFlags(1))
