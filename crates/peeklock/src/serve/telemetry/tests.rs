use std::convert::Infallible;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span as EncodedSpan;
use peeklock_engine::runtime::{Disposition, Operation, Span};
use peeklock_engine::{Refusal, SequenceNumber, Timestamp};
use peeklock_metrics::{Durations, Family, Page, Source};
use peeklock_wire::Value;
use peeklock_wire::message::{MessageProperties, encode_application_properties, encode_body_value};
use prost::Message as _;
use tokio::net::TcpListener;

use super::counts::Signal;
use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A request to the collector: path, one header, body.
type Sent = (String, Option<String>, Bytes);

/// A collector that answers every request with a status.
async fn collector(listener: TcpListener, status: StatusCode, sent: mpsc::UnboundedSender<Sent>) {
    answering(listener, move || Response::builder().status(status).body(Full::default()).unwrap(), sent)
        .await;
}

/// A collector that answers every request with what `answer` makes.
async fn answering(
    listener: TcpListener,
    answer: impl Fn() -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
    sent: mpsc::UnboundedSender<Sent>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (sent, answer) = (sent.clone(), answer.clone());
        let serve = move |request: Request<Incoming>| {
            let (sent, answer) = (sent.clone(), answer.clone());
            async move {
                assert_eq!(request.headers()["content-type"], "application/x-protobuf");
                let key = request.headers().get("api-key").map(|key| key.to_str().unwrap().to_owned());
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let _ = sent.send((path, key, body));
                Ok::<_, Infallible>(answer())
            }
        };
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(serve)));
    }
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    (listener, address)
}

fn settings(pairs: &[(&str, &str)]) -> Result<Option<Settings>, SettingsError> {
    Settings::resolve(&TelemetryConfig::default(), |name| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
}

async fn client(endpoint: &str, counts: &Counts) -> Collector {
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b")];
    Collector::new(&settings(&variables).unwrap().unwrap(), counts.clone()).await.unwrap()
}

fn message(parent: &str) -> Bytes {
    let mut output = BytesMut::new();
    let message_id = Value::String("m-1".into());
    MessageProperties { message_id, ..MessageProperties::default() }.encode(&mut output);
    let text = |text: &str| Value::String(text.into());
    let entries = [(text("Diagnostic-Id"), text(parent)), (text("tracestate"), text("vendor=1"))];
    encode_application_properties(&entries, &mut output);
    encode_body_value(&Value::Null, &mut output);
    output.freeze()
}

fn sampled() -> Bytes {
    message(&format!("00-{TRACE}-{PARENT}-01"))
}

fn span(operation: Operation) -> Span<'static> {
    Span {
        operation,
        entity: "events",
        subscription: None,
        started_ns: 10,
        ended_ns: 30,
        sequence_number: None,
        delivery: None,
        refusal: None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> Vec<String> {
    let text = |attribute: &KeyValue| {
        let value = match attribute.value.clone().unwrap().value.unwrap() {
            any_value::Value::StringValue(text) => text,
            any_value::Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        format!("{}={value}", attribute.key)
    };
    attributes.iter().map(text).collect()
}

fn recorder(room: usize) -> (Recorder, mpsc::Receiver<EncodedSpan>, Counts) {
    let (sender, queue) = mpsc::channel(room);
    let counts = Counts::default();
    (Recorder::new(0.0, sender, counts.clone()), queue, counts)
}

/// Exports two spans, for more of which the task waits until it is stopped.
async fn export_two(collector: Collector, queue: mpsc::Receiver<EncodedSpan>, recorder: &Recorder) {
    let stop = watch::Sender::new(false);
    let exporting = tokio::spawn(task::Batches { collector, queue }.run(stop.subscribe()));
    let trace = recorder.trace(&sampled()).unwrap();
    trace.record(&span(Operation::Publish));
    trace.record(&span(Operation::Deliver));
    stop.send_replace(true);
    exporting.await.unwrap();
}

#[test]
fn a_span_continues_the_trace_of_its_message_in_the_words_of_the_semantic_conventions() {
    let (recorder, mut queue, _) = recorder(10);
    let trace = recorder.trace(&sampled()).unwrap();
    trace.record(&Span { sequence_number: Some(SequenceNumber(7)), ..span(Operation::Publish) });
    let delivery = Some((Timestamp(1_700_000_000_999), 2));
    trace.record(&Span { subscription: Some("all"), delivery, ..span(Operation::Deliver) });
    let refusal = Some(&Refusal::MessageLockLost);
    trace.record(&Span { refusal, ..span(Operation::Settle(Disposition::DeadLetter)) });
    let [published, delivered, settled] = [(); 3].map(|()| queue.try_recv().unwrap());
    for span in [&published, &delivered, &settled] {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert_eq!((span.start_time_unix_nano, span.end_time_unix_nano), (10, 30));
        assert_eq!((span.trace_state.as_str(), span.flags, span.kind), ("vendor=1", 0x301, 2));
        assert_eq!(span.span_id.len(), 8);
    }
    assert_ne!(published.span_id, delivered.span_id);
    assert_eq!(published.name, "publish events");
    let common = |operation: &str, kind: &str| {
        let named = ["messaging.system=servicebus", "messaging.destination.name=events"];
        let operation = format!("messaging.operation.name={operation}");
        let kind = format!("messaging.operation.type={kind}");
        named.map(str::to_owned).into_iter().chain([operation, kind]).collect::<Vec<_>>()
    };
    let mut expected = common("publish", "send");
    expected.extend(["messaging.message.id=m-1", "peeklock.message.sequence_number=7"].map(str::to_owned));
    assert_eq!(texts(&published.attributes), expected);
    let attributes = texts(&delivered.attributes);
    for attribute in [
        "messaging.operation.type=receive",
        "messaging.destination.subscription.name=all",
        "messaging.servicebus.message.enqueued_time=1700000000",
        "messaging.servicebus.message.delivery_count=3",
    ] {
        assert!(attributes.iter().any(|found| found == attribute), "{attribute}: {attributes:?}");
    }
    let attributes = texts(&settled.attributes);
    assert!(attributes.contains(&"messaging.servicebus.disposition_status=dead_letter".to_owned()));
    assert!(attributes.contains(&"error.type=com.microsoft:message-lock-lost".to_owned()), "{attributes:?}");
    assert_eq!((published.status, settled.status.unwrap().code), (None, 2));
}

#[test]
fn only_messages_whose_trace_is_recorded_have_spans_unless_a_share_of_the_others_is_asked_for() {
    let (recorder, ..) = recorder(1);
    let unsampled = message(&format!("00-{TRACE}-{PARENT}-00"));
    for content in [&unsampled, &message("|hierarchical.1."), &message("00-0-0-01"), &Bytes::new()] {
        assert!(recorder.trace(content).is_none());
    }
    let (sender, mut queue) = mpsc::channel(4);
    let all = Recorder::new(1.0, sender, Counts::default());
    assert!(all.trace(&unsampled).is_none(), "its sender has decided");
    all.trace(&message("no trace")).unwrap().record(&span(Operation::Publish));
    let root = queue.try_recv().unwrap();
    assert_eq!((root.trace_id.len(), root.parent_span_id.len(), root.flags), (16, 0, 0x101));
}

#[test]
fn spans_beyond_a_full_queue_are_dropped_and_counted() {
    let (recorder, _queue, counts) = recorder(2);
    let trace = recorder.trace(&sampled()).unwrap();
    for _ in 0..5 {
        trace.record(&span(Operation::Publish));
    }
    assert_eq!(counts.spans_dropped.get(), 3);
}

#[tokio::test]
async fn spans_reach_the_collector_and_the_last_ones_when_the_broker_stops() {
    let (listener, address) = listener().await;
    let (sent, mut received) = mpsc::unbounded_channel();
    let serving = tokio::spawn(collector(listener, StatusCode::OK, sent));
    let (recorder, queue, counts) = recorder(10);
    let collector = client(&address, &counts).await;
    export_two(collector, queue, &recorder).await;
    let (mut names, mut service) = (Vec::new(), Vec::new());
    while let Ok((path, key, body)) = received.try_recv() {
        assert_eq!((path.as_str(), key.as_deref()), ("/v1/traces", Some("a b")));
        for spans in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
            service = texts(&spans.resource.unwrap().attributes);
            names.extend(spans.scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| span.name));
        }
    }
    assert_eq!(names, ["publish events", "deliver events"]);
    assert!(service.contains(&"service.name=peeklock".to_owned()), "{service:?}");
    assert_eq!((counts.spans_exported.get(), counts.spans_dropped.get()), (2, 0));
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_away_for_a_while_gets_the_spans_later_and_one_that_refuses_them_never() {
    let (listener, address) = listener().await;
    drop(listener);
    let (recorder, queue, counts) = recorder(10);
    let stop = watch::Sender::new(false);
    let collector_client = client(&address, &counts).await;
    let exporting = tokio::spawn(task::Batches { collector: collector_client, queue }.run(stop.subscribe()));
    recorder.trace(&sampled()).unwrap().record(&span(Operation::Publish));
    let failed = "peeklock_telemetry_exports_total{signal=\"traces\",outcome=\"failed\"} ";
    let registry = Metrics::default();
    registry.register(counts.clone());
    while registry.text().unwrap().contains(&format!("{failed}0\n")) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(counts.spans_dropped.get(), 0, "it is tried again");
    let listener = TcpListener::bind(address.strip_prefix("http://").unwrap()).await.unwrap();
    let (sent, _received) = mpsc::unbounded_channel();
    let serving = tokio::spawn(collector(listener, StatusCode::BAD_REQUEST, sent));
    while counts.spans_dropped.get() == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.send_replace(true);
    exporting.await.unwrap();
    assert_eq!((counts.spans_exported.get(), counts.spans_dropped.get()), (0, 1));
    serving.abort();
}

/// OTLP, "Partial Success": such a request is not repeated, and the rejected part is lost.
#[tokio::test]
async fn spans_that_a_collector_rejects_in_part_are_counted_as_dropped() {
    let (listener, address) = listener().await;
    let (sent, mut received) = mpsc::unbounded_channel();
    let error_message = "too\nold".to_owned();
    let partial_success = Some(ExportTracePartialSuccess { rejected_spans: 1, error_message });
    let body = Bytes::from(ExportTraceServiceResponse { partial_success }.encode_to_vec());
    let serving = tokio::spawn(answering(listener, move || Response::new(Full::new(body.clone())), sent));
    let counts = Counts::default();
    let collector = client(&address, &counts).await;
    let none = ExportTraceServiceRequest::default();
    let accepted = collector.export(Signal::Traces, &none).await.unwrap();
    assert_eq!((accepted.rejected, accepted.warning.as_str()), (1, r"too\nold"));
    let (recorder, queue, _) = recorder(10);
    export_two(collector, queue, &recorder).await;
    assert_eq!((counts.spans_exported.get(), counts.spans_dropped.get()), (1, 1));
    assert_eq!(std::iter::from_fn(|| received.try_recv().ok()).count(), 2, "it is not sent again");
    serving.abort();
}

/// OTLP, "OTLP/HTTP Throttling".
#[tokio::test]
async fn a_collector_says_how_long_to_wait() {
    let (listener, address) = listener().await;
    let (sent, _received) = mpsc::unbounded_channel();
    let answer = || Response::builder().status(429).header("Retry-After", "7").body(Full::default()).unwrap();
    let serving = tokio::spawn(answering(listener, answer, sent));
    let collector = client(&address, &Counts::default()).await;
    let none = ExportTraceServiceRequest::default();
    let error = collector.export(Signal::Traces, &none).await.unwrap_err();
    assert_eq!((error.is_passing, error.retry_after), (true, Some(Duration::from_secs(7))));
    serving.abort();
}

const WAITS: Family = Family::histogram("peeklock_wait_duration_seconds", "A time.");
const HELD: Family = Family::gauge("peeklock_messages", peeklock_metrics::Unit::None, "Messages.");
const BYTES: Family = Family::counter("peeklock_messages_bytes", peeklock_metrics::Unit::Bytes, "Bytes.");

#[derive(Debug)]
struct Figures(Durations);

impl Source for Figures {
    fn write(&self, page: &mut Page<'_>) -> std::fmt::Result {
        page.each(&HELD, [([("entity", "events/Subscriptions/all"), ("state", "active")], 3_u64)])?;
        page.one(&BYTES, 7_u64)?;
        page.histogram(&WAITS, &self.0.get())
    }
}

#[tokio::test]
async fn metrics_reach_the_collector_as_they_are_on_the_page() {
    let (listener, address) = listener().await;
    let (sent, mut received) = mpsc::unbounded_channel();
    let serving = tokio::spawn(collector(listener, StatusCode::OK, sent));
    let (registry, counts, stop) = (Metrics::default(), Counts::default(), watch::Sender::new(false));
    let durations = Durations::default();
    durations.observe_us(300);
    registry.register(Figures(durations));
    registry.register(counts.clone());
    let pages = task::Pages { collector: client(&address, &counts).await, registry };
    stop.send_replace(true);
    pages.run(Duration::from_secs(3600), stop.subscribe()).await;
    let (path, _, body) = received.recv().await.unwrap();
    assert_eq!(path, "/v1/metrics");
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let find = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    let Some(Data::Gauge(gauge)) = &find("peeklock.messages").data else { panic!("{metrics:?}") };
    let expected =
        ["messaging.destination.name=events", "messaging.destination.subscription.name=all", "state=active"];
    assert_eq!(texts(&gauge.data_points[0].attributes), expected);
    assert_eq!(find("peeklock.messages_bytes").unit, "By", "the shorter name is that of another");
    let waits = find("peeklock.wait_duration");
    assert_eq!(waits.unit, "s");
    let Some(Data::Histogram(histogram)) = &waits.data else { panic!("{waits:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.sum, point.bucket_counts[2]), (1, Some(0.0003), 1));
    assert_eq!(point.explicit_bounds.len() + 1, point.bucket_counts.len());
    let Some(Data::Sum(sum)) = &find("peeklock.telemetry_spans").data else { panic!("{metrics:?}") };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
    assert!(sum.data_points.iter().all(|point| point.start_time_unix_nano <= point.time_unix_nano));
    serving.abort();
}

#[test]
fn variables_overrule_the_configuration() {
    assert!(settings(&[]).unwrap().is_none());
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/base/");
    let named = settings(&[endpoint, ("OTEL_SERVICE_NAME", "orders-broker")]).unwrap().unwrap();
    assert_eq!(named.address(counts::Signal::Traces), "http://a:4318/base/v1/traces");
    assert!(texts(&named.resource.attributes).contains(&"service.name=orders-broker".to_owned()));
    assert!(settings(&[endpoint, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
    let secret = settings(&[endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,s3cret")]).unwrap_err();
    let text = secret.to_string();
    assert!(text.contains("OTEL_EXPORTER_OTLP_HEADERS: entry 2") && !text.contains("s3cret"), "{text}");
    let wrong = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")]).unwrap_err().to_string();
    assert!(wrong.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{wrong}");
    let configured = TelemetryConfig {
        otlp_endpoint: Some("http://b:4318".parse().unwrap()),
        ..TelemetryConfig::default()
    };
    let settings = Settings::resolve(&configured, |_| None).unwrap().unwrap();
    assert_eq!(settings.address(counts::Signal::Metrics), "http://b:4318/v1/metrics");
}
