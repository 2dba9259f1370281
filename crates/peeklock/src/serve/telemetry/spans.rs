//! Spans of messages, with OpenTelemetry's semantic conventions for messaging.

use bytes::Bytes;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceContextExt};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as EncodedSpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span as EncodedSpan, SpanFlags, Status};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, Sampler, SamplingDecision, ShouldSample};
use peeklock_engine::Refusal;
use peeklock_engine::runtime::{Disposition, Operation, Span, Spans, Trace};
use peeklock_errors::ErrorKind;
use peeklock_message::trace_context::{self, TraceContext};
use tokio::sync::mpsc;

use super::counts::Counts;
use super::families::now_ns;

/// Flag in W3C trace contexts: the sender's spans are recorded.
const SAMPLED: u32 = 1;

/// Creates spans of sampled messages and queues them for export; if the queue is full they are dropped and counted.
#[derive(Debug)]
pub(super) struct Recorder {
    propagator: TraceContextPropagator,
    sampler: Sampler,
    samples_roots: bool,
    sink: Sink,
}

#[derive(Debug, Clone)]
struct Sink {
    queue: mpsc::Sender<EncodedSpan>,
    counts: Counts,
}

impl Recorder {
    /// A message is sampled if its sender recorded its trace; of messages without a trace, a share is.
    pub(super) fn new(sampling: f64, queue: mpsc::Sender<EncodedSpan>, counts: Counts) -> Self {
        Self {
            propagator: TraceContextPropagator::new(),
            sampler: Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(sampling))),
            samples_roots: sampling > 0.0,
            sink: Sink { queue, counts },
        }
    }
}

/// The trace properties of a message in the form that the propagator reads.
struct Carrier<'a>(&'a TraceContext);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => Some(&self.0.parent),
            "tracestate" => self.0.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

impl Spans for Recorder {
    fn trace(&self, content: &Bytes) -> Option<Box<dyn Trace>> {
        let said = trace_context::read(content);
        if said.is_none() && !self.samples_roots {
            return None;
        }
        let nothing = Context::new();
        let context = said
            .map(|said| self.propagator.extract_with_context(&nothing, &Carrier(&said)))
            .unwrap_or(nothing);
        let parent = context.span().span_context().clone();
        let root = RandomIdGenerator::default().new_trace_id();
        let sampled = self.sampler.should_sample(Some(&context), root, "", &SpanKind::Server, &[], &[]);
        if sampled.decision != SamplingDecision::RecordAndSample {
            return None;
        }
        let trace_id = if parent.is_valid() { parent.trace_id() } else { root };
        let message_id = trace_context::message_id(content);
        let trace_id = trace_id.to_bytes().to_vec();
        Some(Box::new(Message { trace_id, parent, message_id, sink: self.sink.clone() }))
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

/// A sampled message.
#[derive(Debug)]
struct Message {
    trace_id: Vec<u8>,
    /// The sender's span, if it has one.
    parent: SpanContext,
    message_id: Option<Box<str>>,
    sink: Sink,
}

impl Trace for Message {
    fn record(&self, span: &Span<'_>) {
        match self.sink.queue.try_reserve() {
            Ok(place) => place.send(self.encode(span)),
            Err(_) => {
                self.sink.counts.spans_dropped.inc();
            }
        }
    }
}

impl Message {
    fn encode(&self, span: &Span<'_>) -> EncodedSpan {
        let (operation, _) = names(span.operation);
        let has_parent = self.parent.is_valid();
        let remote = if has_parent { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
        let parent_span_id = self.parent.span_id();
        EncodedSpan {
            trace_id: self.trace_id.clone(),
            span_id: new_span_id().to_bytes().to_vec(),
            trace_state: self.parent.trace_state().header(),
            parent_span_id: if has_parent { parent_span_id.to_bytes().to_vec() } else { Vec::new() },
            flags: SAMPLED | SpanFlags::ContextHasIsRemoteMask as u32 | remote,
            name: format!("{operation} {}", span.entity),
            kind: EncodedSpanKind::Server as i32,
            start_time_unix_nano: span.started_ns,
            end_time_unix_nano: span.ended_ns.max(span.started_ns),
            attributes: self.attributes(span),
            status: span
                .refusal
                .map(|refusal| Status { message: refusal.to_string(), code: StatusCode::Error as i32 }),
            ..EncodedSpan::default()
        }
    }

    fn attributes(&self, span: &Span<'_>) -> Vec<KeyValue> {
        let (operation, kind) = names(span.operation);
        let mut attributes = vec![
            attribute("messaging.system", "servicebus".to_owned()),
            attribute("messaging.destination.name", span.entity.to_owned()),
            attribute("messaging.operation.name", operation.to_owned()),
            attribute("messaging.operation.type", kind.to_owned()),
        ];
        let mut text = |key: &str, value: Option<String>| {
            attributes.extend(value.map(|value| attribute(key, value)));
        };
        text("messaging.destination.subscription.name", span.subscription.map(str::to_owned));
        text("messaging.message.id", self.message_id.as_deref().map(str::to_owned));
        if let Operation::Settle(disposition) = span.operation {
            text("messaging.servicebus.disposition_status", Some(status(disposition).to_owned()));
        }
        text("error.type", span.refusal.map(|refusal| error_type(refusal).to_owned()));
        let mut number = |key: &str, value: u64| {
            let value = any_value::Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX));
            attributes.push(key_value(key, value));
        };
        if let Some(sequence_number) = span.sequence_number {
            number("peeklock.message.sequence_number", sequence_number.0);
        }
        if let Some((enqueued_at, failed)) = span.delivery {
            number("messaging.servicebus.message.enqueued_time", enqueued_at.0 / 1000);
            number("messaging.servicebus.message.delivery_count", u64::from(failed) + 1);
        }
        attributes
    }
}

fn new_span_id() -> SpanId {
    RandomIdGenerator::default().new_span_id()
}

/// A text attribute.
pub(super) fn attribute(key: &str, value: String) -> KeyValue {
    key_value(key, any_value::Value::StringValue(value))
}

fn key_value(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// The name of an operation, and its type in the semantic conventions.
const fn names(operation: Operation) -> (&'static str, &'static str) {
    match operation {
        Operation::Publish => ("publish", "send"),
        Operation::Deliver => ("deliver", "receive"),
        Operation::Settle(_) => ("settle", "settle"),
    }
}

/// The disposition in the semantic conventions, which have no value for a released message.
const fn status(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::Complete => "complete",
        Disposition::Abandon => "abandon",
        Disposition::Defer => "defer",
        Disposition::DeadLetter => "dead_letter",
        Disposition::Release => "release",
    }
}

/// The AMQP condition of a refusal.
fn error_type(refusal: &Refusal) -> &'static str {
    let kind = ErrorKind::from(refusal);
    kind.row().amqp.map_or(kind.name(), |amqp| amqp.condition)
}
