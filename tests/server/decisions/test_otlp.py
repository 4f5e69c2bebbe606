"""Spans reach a collector that speaks the OpenTelemetry protocol, and one that is away does no harm."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mainstay.journal.record import Ending
from mainstay.journal.trace_id import derive_span_id, derive_trace_id
from mainstay.server.decisions import otlp
from mainstay.server.decisions.otlp import SpanSender
from tests.server.decisions.test_spans import a_decision, a_write

pytestmark = pytest.mark.slow


@contextmanager
def a_collector() -> Iterator[tuple[str, list[Any]]]:
    """Its address, and the spans it has got."""
    got: list[Any] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    got.extend(scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library calls it that
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", got
        finally:
            server.shutdown()
            thread.join()


def test_a_decision_and_its_write_reach_the_collector_as_one_trace():
    async def send(address: str) -> SpanSender:
        sender = SpanSender(address, "cluster-1")
        sender.start()
        sender.offer(a_write(50, decision="replicaset-1"))
        sender.offer(a_decision("d-1", woken_by=(50,), ending=Ending.RETRY))
        sender.offer(a_decision("d-2"))  # It did nothing.
        await sender.close()
        return sender

    with a_collector() as (address, got):
        sender = asyncio.run(send(address))

    assert (sender.sent, sender.dropped) == (2, 0)
    write, decision = got
    assert write.trace_id.hex() == derive_trace_id("replicaset-1")
    assert write.parent_span_id.hex() == derive_span_id("replicaset-1")
    assert decision.trace_id.hex() == derive_trace_id("d-1")
    assert decision.links[0].trace_id.hex() == derive_trace_id("replicaset-1")
    assert decision.links[0].span_id == write.span_id
    told = {each.key: each.value for each in decision.attributes}
    assert told["mainstay.decision.id"].string_value == "d-1"
    assert told["mainstay.object.generation"].int_value == 3


def test_what_does_not_fit_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(otlp, "WAITING_MAX", 1)

    async def send(address: str) -> SpanSender:
        sender = SpanSender(address, "cluster-1")
        for revision in (1, 2, 3):
            sender.offer(a_write(revision))
        await sender.close()
        return sender

    with a_collector() as (address, got):
        sender = asyncio.run(send(address))

    assert (len(got), sender.sent, sender.dropped) == (1, 1, 2)
