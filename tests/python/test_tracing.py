"""Spans and metrics of the broker at an OpenTelemetry collector, joined with those of the SDK."""

import contextlib
import http.server
import threading

import pytest
from azure.core.settings import settings
from azure.servicebus import ServiceBusMessage
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bus import Bus, one, until
from daemon import entities_text

QUEUE = "traced"


class Collector:
    """Accepts OTLP over HTTP, like a collector."""

    def __init__(self):
        self.spans, self.metrics, self.resources = [], {}, []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes):
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(attributes(resource.resource))
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        else:
            assert path == "/v1/metrics", path
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                metrics = [metric for scope in resource.scope_metrics for metric in scope.metrics]
                self.metrics = {metric.name: metric for metric in metrics}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def attributes(of) -> dict:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in of.attributes}


@pytest.fixture
def collector():
    with contextlib.closing(Collector()) as collector:
        yield collector


@pytest.fixture(scope="session")
def exporter():
    """The exporter of the SDK's own spans. The provider of a process can be set once."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def sdk_spans(exporter):
    exporter.clear()
    settings.tracing_implementation = "opentelemetry"
    yield exporter.get_finished_spans
    settings.tracing_implementation = None


def config(collector: Collector) -> str:
    telemetry = f'[telemetry]\notlp_endpoint = "{collector.endpoint}"\ninterval = "PT1S"\n'
    return telemetry + entities_text({QUEUE: {}})


async def test_the_spans_of_the_broker_continue_those_of_the_sdk(start_daemon, collector, sdk_spans, flavour):
    daemon = start_daemon(config(collector))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(QUEUE, ServiceBusMessage("order 1", message_id="m-1"))
        receiver = await bus.open_receiver(QUEUE)
        message = await one(receiver)
        properties = {key.decode(): value for key, value in message.application_properties.items()}
        await receiver.complete_message(message)

    async def arrived() -> bool:
        return len(collector.spans) >= 3

    await until(arrived)
    (created,) = [span for span in sdk_spans() if span.name == "ServiceBus.message"]
    parent = created.get_span_context()
    context = f"00-{parent.trace_id:032x}-{parent.span_id:016x}-"
    for name in ("Diagnostic-Id", "traceparent"):
        assert properties[name].decode().startswith(context), "kept as sent"
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {f"{name} {QUEUE}" for name in ("publish", "deliver", "settle")}
    for span in spans.values():
        assert int.from_bytes(span.trace_id, "big") == parent.trace_id
        assert int.from_bytes(span.parent_span_id, "big") == parent.span_id
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        found = attributes(span)
        assert found["messaging.system"] == "servicebus"
        assert found["messaging.destination.name"] == QUEUE
        assert found["messaging.message.id"] == "m-1"
    assert attributes(spans[f"settle {QUEUE}"])["messaging.servicebus.disposition_status"] == "complete"
    assert attributes(spans[f"deliver {QUEUE}"])["messaging.servicebus.message.delivery_count"] == 1
    assert collector.resources[0]["service.name"] == "peeklock"


async def test_a_message_without_a_trace_has_no_spans_and_is_in_the_metrics(start_daemon, collector, flavour):
    daemon = start_daemon(config(collector))
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(QUEUE, ServiceBusMessage("plain"))
        assert len(await bus.drain(QUEUE, 1)) == 1

    def received() -> list[int]:
        metric = collector.metrics.get("peeklock.messages_received")
        points = metric.sum.data_points if metric else []
        return [point.as_int for point in points if attributes(point)["messaging.destination.name"] == QUEUE]

    async def counted() -> bool:
        return received() == [1]

    await until(counted)
    assert collector.metrics["peeklock.accept_duration"].unit == "s"
    # Remaining data is exported at the end.
    daemon.stop()
    assert collector.spans == []


async def test_a_collector_that_is_away_costs_clients_nothing_and_is_named_once(
    start_daemon, collector, sdk_spans, flavour
):
    text = config(collector)
    collector.close()
    daemon = start_daemon(text)
    async with Bus(flavour, daemon.connection_string) as bus:
        await bus.send(QUEUE, *[ServiceBusMessage(f"order {number}") for number in range(50)])
        assert len(await bus.drain(QUEUE, 50)) == 50

    async def noticed() -> bool:
        lines = daemon.log.read_text().splitlines()
        failures = [line for line in lines if "can't export to OpenTelemetry" in line]
        return sorted("traces" in line for line in failures) == [False, True]

    await until(noticed, "a line for each signal")
    assert daemon.stop() == 0
    assert await noticed()
